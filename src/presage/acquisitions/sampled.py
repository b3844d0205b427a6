"""Acquisitions made of functions drawn from the posterior."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from presage.acquisitions.base import Acquisition, Context, OfJoint, OfMarginal, Scale, Scored, Unprepared
from presage.acquisitions.improvement import LogExpectedImprovement
from presage.observations import Observations
from presage.surrogates.base import Draws, Marginal, Posterior
from presage.surrogates.joint import Joint


@dataclass(frozen=True)
class ThompsonSampling(Unprepared):
    """One function drawn from the posterior, with its sign changed: the next point is where it is lowest."""

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        return Drawn(posterior.draw(1, rng=rng))


@dataclass(frozen=True)
class Drawn(Acquisition):
    """The mean of some functions with its sign changed."""

    draws: Draws

    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        return -self.draws.values(x).mean(axis=0)

    def values_and_gradients(self, posterior: Posterior, x: np.ndarray, context: Context) -> Scored:
        value, pull = self.draws.values_and_pull(x)
        return -value.mean(axis=0), pull(np.full(value.shape, -1.0 / len(value)))


@dataclass(frozen=True)
class UnderSampled(Unprepared):
    """Another acquisition as a few drawn functions see it, so that each point of a batch is chosen by others (seed S4).

    Args:
        base: an acquisition of the marginal law.
        samples: functions drawn; the fewer, the more the points of a batch differ.
        width: standard deviation of f about each drawn function, in standardised units; it keeps improvements that no
            drawn function has from being all alike.
    """

    base: OfMarginal = field(default_factory=LogExpectedImprovement)
    samples: int = 10
    width: float = 0.05

    def informed(self, data: Observations) -> Acquisition:
        return replace(self, base=self.base.informed(data))  # type: ignore[arg-type]

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        return OfDraws(self.base, posterior.draw(self.samples, rng=rng), self.samples, self.width**2)


@dataclass(frozen=True)
class OfDraws(Acquisition):
    """An acquisition of the mixture that has one narrow component at each drawn function."""

    base: OfMarginal
    draws: Draws
    samples: int
    variance: float

    def _law(self, value: np.ndarray) -> Marginal:
        weight = np.full(self.samples, 1.0 / self.samples)
        return Marginal(value, np.full_like(value, self.variance), weight)

    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        return self.base.score(self._law(self.draws.values(x)), self._own(context))[0]

    def _own(self, context: Context) -> Context:
        return replace(context, best=self.draws.own(context.best))

    def values_and_gradients(self, posterior: Posterior, x: np.ndarray, context: Context) -> Scored:
        value, pull = self.draws.values_and_pull(x)
        worth, by_mean, _ = self.base.score(self._law(value), self._own(context))
        return worth, pull(by_mean)


@dataclass(frozen=True)
class NoisyExpectedImprovement(Unprepared):
    """log E[max(min_j f(x_j) - f(x), 0)], the incumbent being as uncertain as f at the observed points x_j is.

    The values at the observed points are drawn; given each draw f(x) is Gaussian and the improvement has its closed
    form (Letham et al., 2019, arXiv 1706.07094).

    Args:
        samples: draws of the values at observed points.
        points: observed points that are considered, those that may be the lowest.
        least: standard deviation of the noise, in standardised units, below which the incumbent counts as known; then
            it is the plain expected improvement.
    """

    scale: ClassVar[Scale] = "logarithm"
    samples: int = 32
    points: int = 16
    least: float = 0.0

    def __post_init__(self) -> None:
        if self.samples < 1 or self.points < 1 or not self.least >= 0.0:
            raise ValueError(
                f"samples and points must be at least 1 and least at least 0, but got samples={self.samples}, "
                f"points={self.points}, least={self.least}"
            )

    def informed(self, data: Observations) -> Acquisition:
        told = math.sqrt(float(data.noise[data.mask].max(initial=0.0)))
        return replace(self, least=0.0) if told >= self.least else self

    def known(self, posterior: Posterior, context: Context) -> bool:
        """Whether the incumbent counts as known."""
        if context.observed is None or not len(context.observed):
            return True
        return bool(posterior.noise(context.observed[:1])[0] < self.least**2)

    def contenders(self, posterior: Posterior, context: Context) -> np.ndarray:
        """The observed points that may be the lowest, [m, d]."""
        assert context.observed is not None
        mean, variance = posterior.marginal(context.observed).moments()
        order = np.argsort(mean - 2.0 * np.sqrt(variance), kind="stable")[: self.points]
        return context.observed[order]

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        if self.known(posterior, context):
            return LogExpectedImprovement()
        z = self.contenders(posterior, context)
        joint = posterior.joint(z)
        law = joint.law(posterior.marginal(z))
        covariance = joint.covariance(z)
        covariance = 0.5 * (covariance + covariance.transpose(0, 2, 1))
        # Where observations have next to no noise, f at two points may be one and the same to rounding.
        jitter = 1e-8 * law.variance.max(axis=1) + 1e-12
        covariance[:, np.arange(len(z)), np.arange(len(z))] = law.variance + jitter[:, None]
        normal = rng.standard_normal((self.samples, len(z)))  # the same for every component
        draws, weights = [], []
        for mean_c, covariance_c in zip(law.mean, covariance, strict=True):
            eigenvalues, vectors = np.linalg.eigh(covariance_c)
            inside = np.maximum(eigenvalues, 1e-10 * eigenvalues[-1])
            drawn = (normal * np.sqrt(inside)) @ vectors.T
            draws.append(mean_c + drawn)
            weights.append((drawn @ vectors / inside) @ vectors.T)
        inverses = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
        return PreparedNoisy(joint, np.min(draws, axis=2), np.array(weights), inverses)


@dataclass(frozen=True)
class PreparedNoisy(OfJoint):
    """The mean improvement over draws.

    Attributes:
        lowest: the incumbent of each draw, [c, s].
        weights: covariance^-1 (drawn - mean) at the observed points, [c, s, m].
        inverse: covariance^-1 there, [c, m, m].
    """

    scale: ClassVar[Scale] = "logarithm"
    joint: Joint
    lowest: np.ndarray
    weights: np.ndarray
    inverse: np.ndarray

    def score(
        self, law: Marginal, covariance: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        components, samples = self.lowest.shape
        solved = np.einsum("cmk,cnk->cnm", self.inverse, covariance)
        left = law.variance - np.vecdot(solved, covariance)
        floor = 1e-8 * law.variance
        kept = left > floor
        left = np.where(kept, left, floor)
        mean = law.mean[:, None] + np.einsum("csm,cnm->csn", self.weights, covariance)
        # Every draw is a component of a mixture, each measured from an incumbent of its own.
        flat = Marginal(
            (mean - self.lowest[..., None]).reshape(components * samples, -1), np.repeat(left, samples, axis=0),
            np.repeat(law.weight / samples, samples), None if law.df is None else np.repeat(law.df, samples),
        )  # fmt: skip
        value, by_mean, by_left = LogExpectedImprovement().score(flat, Context(best=0.0))
        by_mean, by_left = (part.reshape(components, samples, -1) for part in (by_mean, by_left))
        by_left = by_left.sum(axis=1)
        by_covariance = np.einsum("csn,csm->cnm", by_mean, self.weights)
        by_covariance -= 2.0 * np.where(kept, by_left, 0.0)[..., None] * solved
        return value, by_mean.sum(axis=1), np.where(kept, by_left, 1e-8 * by_left), by_covariance
