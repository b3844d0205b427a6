"""What a model of training curves sees, and what it can be asked.

A table has a row for every network that is trained or might be: the model's answers are about these rows. A network
that nobody has started is a row without values.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from presage.observations import Column
from presage.surrogates.base import Marginal, State

__all__ = ["CurveFit", "CurveModel", "CurvePosterior", "Curves", "Squash", "continued", "moments_of"]


@dataclass(frozen=True)
class Curves:
    """Values of networks at some steps of their training, smaller being better.

    Attributes:
        x: the networks as points of the unit cube, [n, d].
        steps: ascending, the last one being the end of the training, [c].
        values: [n, c]; NaN where not yet trained.
        columns: what each column of x is.
    """

    x: np.ndarray
    steps: np.ndarray
    values: np.ndarray
    columns: tuple[Column, ...]

    @staticmethod
    def of(x: np.ndarray, steps: np.ndarray, values: np.ndarray) -> "Curves":
        """Curves of networks described by numbers alone."""
        return Curves(x, np.asarray(steps), np.asarray(values, float), (Column("continuous"),) * x.shape[1])

    @property
    def known(self) -> np.ndarray:
        """How many leading values of each row are known, [n]: values after the first unknown one do not count."""
        return np.logical_and.accumulate(np.isfinite(self.values), axis=1).sum(axis=1)

    def last(self) -> np.ndarray:
        """The last known value of each row that has one, [rows]."""
        known = self.known
        rows = np.flatnonzero(known)
        return self.values[rows, known[rows] - 1]

    def at(self, columns: np.ndarray | list[int]) -> "Curves":
        """The same networks at some of the steps."""
        return replace(self, steps=self.steps[columns], values=self.values[:, columns])


@dataclass(frozen=True)
class Squash:
    """z = asinh((y - center) / scale): straight near the centre, logarithmic far from it.

    A curve begins tens of spreads above its end. Nothing is learned from how many, and a model of the plain values
    would have no resolution left where the best networks differ.
    """

    center: float = 0.0
    scale: float = 1.0

    @staticmethod
    def of(curves: Curves) -> "Squash":
        """Centre and spread, median and median deviation, of the last known values."""
        last = curves.last()
        if not len(last):
            return Squash()
        center = float(np.median(last))
        spread = 1.4826 * float(np.median(np.abs(last - center)))
        if len(last) < 4 or spread <= 1e-9 * abs(center):
            spread = max(spread, float(last.std()))
        return Squash(center, spread if spread > 1e-12 * abs(center) else abs(center) or 1.0)

    def forward(self, values: np.ndarray) -> np.ndarray:
        return np.arcsinh((values - self.center) / self.scale)

    def inverse(self, latent: np.ndarray) -> np.ndarray:
        return self.center + self.scale * np.sinh(latent)

    def log_slope(self, values: np.ndarray) -> np.ndarray:
        """log dz/dy."""
        return -math.log(self.scale) - 0.5 * np.log1p(((values - self.center) / self.scale) ** 2)


class CurvePosterior(ABC):
    """What is expected of the rows of a table, given the values known: values as a look would show, noise included.

    Attributes:
        squash: from values to the units of `marginal` and `sample`.
    """

    squash: Squash

    @abstractmethod
    def marginal(self, column: int = -1) -> Marginal:
        """The law of every row's value at a step, [component, n]; known values have variance 0."""

    @abstractmethod
    def sample(self, num: int, *, rng: np.random.Generator) -> np.ndarray:
        """Joint draws of every row's last value, [num, n]."""

    def log_density(self, values: np.ndarray, column: int = -1) -> np.ndarray:
        """Log density of values [n], in their own units, at a step; known ones have none (NaN)."""
        law, latent = self.marginal(column), self.squash.forward(values)
        known = (law.variance == 0.0).all(axis=0)
        variance = np.where(known, 1.0, law.variance)
        each = -0.5 * (np.log(2.0 * np.pi * variance) + (latent - law.mean) ** 2 / variance)
        mixed = np.logaddexp.reduce(each + np.log(law.weight)[:, None], axis=0)
        return np.where(known, np.nan, mixed + self.squash.log_slope(values))


@dataclass(frozen=True)
class CurveFit:
    """A posterior, and what the next fit may start from: plain arrays by name."""

    posterior: CurvePosterior
    state: State


class CurveModel(ABC):
    """A model's configuration; every field has a default."""

    @abstractmethod
    def fit(
        self, curves: Curves, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> CurveFit:
        """Fit to the known values.

        Args:
            curves: at least one row has a value.
            rng: for whatever is random in the fit.
            previous: the state of an earlier fit, from which to start.
            keep: take hyperparameters and squash of `previous` as they are, and only the data anew.
        """


def continued(
    model: CurveModel, curves: Curves, memory: dict[str, Any], growth: float, *, rng: np.random.Generator
) -> CurveFit:
    """A fit that goes on from the last one in `memory`; hyperparameters are found anew when the values have grown by a
    share of `growth`."""
    count = int(np.isfinite(curves.values).sum())
    keep = count < memory.get("fitted", 0) * (1.0 + growth)
    found = model.fit(curves, rng=rng, previous=memory.get("state"), keep=keep)
    memory |= {"state": found.state, "fitted": memory["fitted"] if keep else count}
    return found


def moments_of(posterior: CurvePosterior, column: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every row's value at a step in its own units, [n] each, by 33 quantiles."""
    from scipy.special import ndtri

    law = posterior.marginal(column)
    normal = ndtri((np.arange(33) + 0.5) / 33)
    values = posterior.squash.inverse(law.mean + np.sqrt(law.variance) * normal[:, None, None])
    mean = np.einsum("qcn,c->n", values, law.weight) / 33
    square = np.einsum("qcn,c->n", (values - mean) ** 2, law.weight) / 33
    return mean, np.sqrt(square)
