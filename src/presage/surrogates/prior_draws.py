"""Functions drawn from a process of mean 0 before it has seen anything."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from presage.kernels import Axes, Basis, Kernel
from presage.sobol import sobol

SPREAD = 1024  # points, at most, at which draws have exactly the law of the process
NEAR = (-2.5, -0.5)  # powers of ten, between which half of them are moved away from observed points
PROBES = 32  # points at which is seen how much of its variance they lack elsewhere
LACKING = 0.01  # so much may be, of what is left of it by the observations


class Waves(NamedTuple):
    """Functions: weights [num, m] times those of a kernel's basis."""

    basis: Basis
    weights: np.ndarray

    def values(self, a: np.ndarray) -> np.ndarray:
        """At features [n, D], [num, n]."""
        return self.weights @ self.basis(a).value.T


def spread(seen: np.ndarray, axes: Axes, rng: np.random.Generator) -> np.ndarray:
    """Points half of which lie all over the space and half near those observed, [m, d].

    Close to several observations what is left open fluctuates fast, and there a search looks in the end.
    """
    half = min(SPREAD, 256 * len(axes)) // 2
    near = seen[rng.integers(len(seen), size=half)]
    size = 10.0 ** rng.uniform(*NEAR, (half, 1))
    moved = np.clip(near + size * rng.standard_normal(near.shape), 0.0, 1.0)
    categorical = np.array([column.kind == "categorical" for column in axes.columns])
    return np.concatenate([anywhere(half, axes, rng), np.where(categorical, near, moved)])


def anywhere(count: int, axes: Axes, rng: np.random.Generator) -> np.ndarray:
    """Points all over the space, [count, d], with half of its conditional dimensions where it has some."""
    some = sobol(count, len(axes), rng)
    absent = np.array([column.conditional for column in axes.columns])
    return np.where(absent & (rng.random(some.shape) < 0.5), np.nan, some)


def waves(
    kernel: Kernel, theta: np.ndarray, at: np.ndarray, seen: int, factor: np.ndarray, num: int, axes: Axes,
    rng: np.random.Generator,
) -> Waves | None:  # fmt: skip
    """Functions drawn from the process as a basis has it, to add what those of kernels at points lack between them.

    Kernels at a thousand points are nearly all of a process in a few dimensions; from about ten on no point of a cube
    is near one of a thousand others, and draws would have half the variance that they should (cosines everywhere:
    Rahimi & Recht, 2007; with what is known at points: Wilson et al., 2020, arXiv 2002.09309).

    Args:
        kernel: of the process.
        theta: its parameters.
        at: features of the points, [m, D].
        seen: how many of them, the first ones, the process was observed at.
        factor: Cholesky factor of the covariances among them.
        num: functions.
        axes: of the features.
        rng: draws them.

    Returns:
        None where nothing is lacking or the kernel has no basis.
    """
    probes = axes.features(anywhere(PROBES, axes, rng))
    white = lapack.dtrtrs(factor, kernel.evaluate(theta, at, probes, axes).value, lower=1)[0]
    level, known = kernel.diagonal(theta, probes, axes).value.sum(), np.square(white)
    left, lacking = level - known[:seen].sum(), level - known.sum()
    basis = kernel.basis(theta, axes, rng) if lacking > LACKING * left else None
    if basis is None:
        return None
    return Waves(basis, rng.standard_normal((num, basis(at[:1]).value.shape[1])))


def through(factor: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weights of the kernels at some points that give functions these values there, [num, m].

    Args:
        factor: Cholesky factor of the covariances among the points.
        values: [num, m].
    """
    return lapack.dpotrs(factor, values.T, lower=1)[0].T
