"""Inverse Cholesky factors of covariances, which grow by a row when an observation is added."""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from presage.kernels import Axes, Kernel
from presage.observations import Column

JITTERS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)  # of the mean variance; tried until the Cholesky factor exists
REMEMBERED = 2**27  # bytes of factors, at most


def cholesky(K: np.ndarray, level: float) -> np.ndarray:
    """The lower Cholesky factor, with as little jitter, in units of a variance, as makes it exist; overwrites K."""
    diagonal, added = np.diag_indices(len(K)), 0.0
    for jitter in JITTERS:
        K[diagonal] += (jitter - added) * level
        added = jitter
        factor, failed = lapack.dpotrf(K.T, lower=1)
        if not failed and (not len(K) or np.isfinite(factor[-1, -1])):  # some LAPACKs report success on NaN
            return factor
    raise FloatingPointError(f"no Cholesky factor with jitter up to {JITTERS[-1]} of the variance {level}")


def append(inverse: np.ndarray, across: np.ndarray, own: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The inverse factor [r, n] after m more observations, [r + m, n + m], in O(r n m).

    Args:
        inverse: before them.
        across: covariances with what the columns of `inverse` stand for, [n, m].
        own: covariances among the new ones, noise apart, [m, m].
        noise: their noise variances, [m].
    """
    (r, n), m = inverse.shape, len(own)
    white = inverse @ across
    left = own - white.T @ white
    left[np.diag_indices(m)] += noise
    grown = np.zeros((r + m, n + m))
    grown[:r, :n] = inverse
    corner = lapack.dtrtri(np.tril(cholesky(left, own.diagonal().mean() if m else 1.0)), lower=1)[0]
    grown[r:, n:] = corner
    grown[r:, :n] = -corner @ (white.T @ inverse)
    return grown


class _Factor(NamedTuple):
    kernel: Kernel  # held, so that no other kernel gets its id
    rows: np.ndarray
    inverse: np.ndarray


_factors: OrderedDict[tuple[int, tuple[Column, ...], bytes, int], _Factor] = OrderedDict()
_lock = Lock()


def inverse_factor(
    kernel: Kernel, axes: Axes, theta: np.ndarray, features: np.ndarray, noise: np.ndarray, start: int
) -> np.ndarray:
    """R with R'R = (K + noise)^-1, lower triangular, [n, n].

    The first `start` observations are factored at once and each further one is appended, so that the last factor
    of the same kernel can be gone on with, in O(n^2). The result is the same to the bit where it was forgotten.

    Args:
        kernel: of the observations.
        axes: of the features.
        theta: the kernel's parameters.
        features: of the observations, [n, D].
        noise: their noise variances, [n].
        start: how many are factored at once.
    """
    key = (id(kernel), axes.columns, theta.tobytes(), start)
    rows = np.column_stack([features, noise])
    with _lock:
        known = _factors.get(key)
    same = 0 if known is None else _common(known.rows, rows)
    if known is not None and same >= start:
        inverse = np.ascontiguousarray(known.inverse[:same, :same])
    else:
        first = features[:start]
        K = kernel.evaluate(theta, first, first, axes).value.copy()
        level = K.diagonal().mean() if start else 1.0
        K[np.diag_indices(start)] += noise[:start]
        inverse = np.ascontiguousarray(lapack.dtrtri(cholesky(K, level), lower=1)[0])
        same = start
    for i in range(same, len(rows)):
        here = features[i : i + 1]
        across = kernel.evaluate(theta, features[:i], here, axes).value
        inverse = append(inverse, across, kernel.evaluate(theta, here, here, axes).value, noise[i : i + 1])
    with _lock:
        _factors[key] = _Factor(kernel, rows, inverse)
        _factors.move_to_end(key)
        held = sum(one.inverse.nbytes for one in _factors.values())
        while held > REMEMBERED:
            held -= _factors.popitem(last=False)[1].inverse.nbytes
    return inverse


def _common(a: np.ndarray, b: np.ndarray) -> int:
    """How many rows, from the first on, are the same to the bit."""
    count = min(len(a), len(b))
    if a.shape[1] != b.shape[1]:
        return 0
    differ = (a[:count].view(np.int64) != b[:count].view(np.int64)).any(axis=1)
    return int(np.argmax(differ)) if differ.any() else count
