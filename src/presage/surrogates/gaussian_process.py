"""Regression with Gaussian and Student-t processes."""

from dataclasses import dataclass

import numpy as np

from presage.kernels import Kernel, Matern
from presage.means import ConstantMean, Mean
from presage.observations import Column, Observations
from presage.priors import Gamma, LogNormal, Prior
from presage.surrogates.base import Fit, State, Surrogate
from presage.surrogates.gaussian import Model, Table, condition
from presage.surrogates.hyperparameters import Hyperparameters, Mode

NOISE = LogNormal(1e-4, 3.0)


@dataclass(frozen=True)
class GaussianProcess(Surrogate):
    """A process with any kernel and mean, inferred noise and warped values (docs/notation.md).

    Args:
        kernel: see presage.kernels; Matern 5/2 with a lengthscale per column.
        mean: see presage.means.
        noise: prior of the noise variance; the values have variance 1.
        smallest_noise: lower bound of the noise variance.
        warp: mean and standard deviation of the exponent of the values' warp, or None to leave the values alone.
        hyperparameters: how they are found; with samples, every acquisition is averaged over them.
    """

    kernel: Kernel = Matern()
    mean: Mean = ConstantMean()
    noise: Prior = NOISE
    smallest_noise: float = 1e-8
    warp: tuple[float, float] | None = (1.0, 1.0)
    hyperparameters: Hyperparameters = Mode()

    def model(self, columns: tuple[Column, ...]) -> Model:
        """The process before its hyperparameters."""
        return Model(self.kernel, self.mean, columns, self.noise, self.smallest_noise, self.warp)

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        return fit(self.model(data.columns), self.hyperparameters, data, rng, previous, keep)


@dataclass(frozen=True)
class StudentTProcess(Surrogate):
    """A process whose values follow a multivariate Student-t: how far it may go is learned from how far it went.

    Shah, Wilson & Ghahramani, 2014, arXiv 1402.4306. The other arguments are those of GaussianProcess.

    Args:
        tail: prior of the degrees of freedom less two.
    """

    kernel: Kernel = Matern()
    mean: Mean = ConstantMean()
    noise: Prior = NOISE
    smallest_noise: float = 1e-8
    warp: tuple[float, float] | None = None
    hyperparameters: Hyperparameters = Mode()
    tail: Prior = Gamma(2.0, 0.1)

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        model = Model(self.kernel, self.mean, data.columns, self.noise, self.smallest_noise, self.warp, self.tail)
        return fit(model, self.hyperparameters, data, rng, previous, keep)


def fit(
    model: Model, how: Hyperparameters, data: Observations, rng: np.random.Generator, previous: State | None, keep: bool
) -> Fit:
    """Find hyperparameters, then condition on the data."""
    table = Table.of(data, model.axes)
    known = None if previous is None else previous.get("theta")
    if known is not None and known.shape[1:] != (model.priors.size,):
        known = None  # the space has changed
    if keep and known is not None:
        return Fit(condition(model, table, known), {"theta": known}, {"evaluations": 0})
    theta, report = how.find(model, table, known, rng=rng)
    return Fit(condition(model, table, theta), {"theta": theta}, report)
