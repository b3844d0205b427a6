"""Acquisitions of acquisitions: worth in logarithms, per unit of cost, under constraints, away from busy points."""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from presage.acquisitions.base import Acquisition, Context, Scale, Scored, must_be_finite
from presage.acquisitions.improvement import ProbabilityOfImprovement, log_normal
from presage.observations import Observations
from presage.surrogates.base import Posterior


class Adjusted(Acquisition):
    """An acquisition in logarithms with something added that does not depend on the posterior of the objective."""

    scale: ClassVar[Scale] = "logarithm"
    base: Acquisition

    @property
    def costly(self) -> bool:
        return self.base.costly

    @abstractmethod
    def added(self, x: np.ndarray) -> np.ndarray:
        """What is added at points [n, d], [n]."""

    @abstractmethod
    def added_and_gradients(self, x: np.ndarray) -> Scored:
        """The same with derivatives in x, [n] and [n, d]."""

    def informed(self, data: Observations) -> Acquisition:
        return replace(self, base=self.base.informed(data))  # type: ignore[type-var]

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        return replace(self, base=self.base.logarithm().prepare(posterior, context, rng=rng))  # type: ignore[type-var]

    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        return self.base.logarithm().values(posterior, x, context) + self.added(x)

    def values_and_gradients(self, posterior: Posterior, x: np.ndarray, context: Context) -> Scored:
        value, gradient = self.base.logarithm().values_and_gradients(posterior, x, context)
        more, slope = self.added_and_gradients(x)
        return value + more, gradient + slope


@dataclass(frozen=True)
class PerCost(Adjusted):
    """Worth per unit of cost, by a posterior of the logarithm of the cost: log worth - exponent E[log cost].

    Args:
        base: the acquisition.
        log_cost: a surrogate's posterior fitted to logarithms of costs, such as seconds.
        exponent: how much cost counts; 1 is "per second", less of it cools the preference for cheap points.
    """

    base: Acquisition
    log_cost: Posterior
    exponent: float = 1.0

    def __post_init__(self) -> None:
        must_be_finite(exponent=self.exponent)

    def added(self, x: np.ndarray) -> np.ndarray:
        return -self.exponent * self.log_cost.marginal(x).moments()[0]

    def added_and_gradients(self, x: np.ndarray) -> Scored:
        law, slope, _ = self.log_cost.marginal_gradient(x)
        return -self.exponent * law.moments()[0], -self.exponent * np.einsum("c,cnd->nd", law.weight, slope)


@dataclass(frozen=True)
class Constrained(Adjusted):
    """Worth times the probability that a constraint holds, by a posterior of a quantity that must not exceed a bound.

    Args:
        base: the acquisition.
        quantity: a surrogate's posterior fitted to what is constrained.
        bound: in the posterior's own units.
    """

    base: Acquisition
    quantity: Posterior
    bound: float = 0.0

    def added(self, x: np.ndarray) -> np.ndarray:
        return ProbabilityOfImprovement(margin=0.0).values(self.quantity, x, Context(best=self.bound))

    def added_and_gradients(self, x: np.ndarray) -> Scored:
        return ProbabilityOfImprovement(margin=0.0).values_and_gradients(self.quantity, x, Context(best=self.bound))


@dataclass(frozen=True)
class Penalised(Adjusted):
    """Worth times the probability that a point lies outside the balls that evaluations elsewhere will explain.

    f falls by at most `steepness` per unit of distance, so a pending point where f has mean m and standard deviation s
    rules out a ball of radius (m - lowest) / steepness (Gonzalez et al., 2016, arXiv 1505.08052).

    Args:
        base: the acquisition.
        at: pending points, [p, d].
        above: mean there less the lowest value that f is thought to have, [p].
        stddev: [p].
        steepness: Lipschitz constant of f on the cube.
    """

    base: Acquisition
    at: np.ndarray
    above: np.ndarray
    stddev: np.ndarray
    steepness: float

    @staticmethod
    def around(
        base: Acquisition, at: np.ndarray, posterior: Posterior, context: Context, rng: np.random.Generator
    ) -> "Penalised":
        """Around pending points, with lowest value and steepness as the posterior sees them."""
        law = posterior.marginal(at)
        variance = law.moments()[1]
        points = context.points(rng)
        if posterior.differentiable:
            seen, slope, _ = posterior.marginal_gradient(points)
            steepness = float(np.sqrt(np.square(np.einsum("c,cnd->nd", seen.weight, slope)).sum(axis=1)).max())
        else:  # from differences between neighbours in the list, each of which is some distance away
            value = posterior.marginal(points).moments()[0]
            steepness = float(np.max(np.abs(np.diff(value)) / np.maximum(_distance(points[1:], points[:-1]), 1e-3)))
        above = np.maximum(law.weight @ (law.mean - context.best), 0.0)
        return Penalised(base, at, above, np.sqrt(variance), max(steepness, 1e-6))

    def added(self, x: np.ndarray) -> np.ndarray:
        return self.added_and_gradients(x)[0]

    def added_and_gradients(self, x: np.ndarray) -> Scored:
        step = np.nan_to_num(x[:, None] - self.at)  # a column absent in either point does not tell them apart
        far = np.sqrt(np.square(step).sum(axis=2) + 1e-12)  # [n, p]
        z = (self.steepness * far - self.above) / self.stddev
        value, slope = log_normal(z)
        pull = slope * self.steepness / (self.stddev * far)
        return value.sum(axis=1), np.einsum("np,npd->nd", pull, step)


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sqrt(np.square(np.nan_to_num(a - b)).sum(axis=1) + math.ulp(1.0))
