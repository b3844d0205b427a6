"""Regression with Gaussian and Student-t processes."""

from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.special import gammainc

from presage.kernels import Kernel, Matern
from presage.means import ConstantMean, Mean
from presage.observations import Column, Observations
from presage.priors import Gamma, LogNormal, Prior
from presage.surrogates.base import Fit, State, Surrogate
from presage.surrogates.gaussian import GaussianPosterior, Model, Table, condition
from presage.surrogates.hyperparameters import Hyperparameters, Mode

NOISE = LogNormal(1e-4, 3.0)
SEEN = "rows"  # in the state: how many values the hyperparameters were found from
SURPRISING = 0.05  # hyperparameters are found anew when new values are among the so much farthest off


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

    def due(self, data: Observations, state: State, fitted: int) -> bool:
        return due(self, data, state, fitted)


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

    def due(self, data: Observations, state: State, fitted: int) -> bool:
        return due(self, data, state, fitted)


def fit(
    model: Model, how: Hyperparameters, data: Observations, rng: np.random.Generator, previous: State | None, keep: bool
) -> Fit:
    """Find hyperparameters, then condition on the data."""
    table = Table.of(data, model.axes)
    known = None if previous is None else previous.get("theta")
    if known is not None and known.shape[1:] != (model.priors.size,):
        known = None  # the space has changed
    if keep and previous is not None and known is not None:
        seen = previous.get(SEEN, np.array(len(table.y)))
        return Fit(condition(model, table, known, int(seen)), {"theta": known, SEEN: seen}, {"evaluations": 0})
    theta, report = how.find(model, table, known, rng=rng)
    return Fit(condition(model, table, theta), {"theta": theta, SEEN: np.array(len(table.y))}, report)


def due(surrogate: Surrogate, data: Observations, state: State, fitted: int) -> bool:
    """Whether a tenth of the values is new, or the new ones are not what the hyperparameters foretold.

    If they are, the sum of the squares of their surprises follows a chi-square law; in its upper tail the process was
    too sure of them. That it was not sure enough can wait: near an optimum new values are nearly always as foretold.
    """
    new = data.count - fitted
    if not 0 <= new < max(1, data.count // 10) or "theta" not in state:
        return True
    if not new:
        return False
    kept = surrogate.fit(data, rng=np.random.default_rng(0), previous=state, keep=True)
    surprise = cast(GaussianPosterior, kept.posterior).surprise(fitted)
    level = float(gammainc(0.5 * new, 0.5 * np.square(surprise).sum(axis=1).mean()))
    return level > 1.0 - SURPRISING
