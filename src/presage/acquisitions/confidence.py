"""Acquisitions of mean and standard deviation: a bound on f, and how little is known of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from presage.acquisitions.base import Acquisition, Context, OfMarginal, Scale, Unprepared, must_be_finite, must_be_whole
from presage.acquisitions.improvement import ExpectedImprovement, LogExpectedImprovement
from presage.observations import Observations
from presage.surrogates.base import Marginal, Posterior


def gp_ucb(count: int, probability: float = 0.1) -> float:
    """The width of a band that holds at all of 1000 places with probability 0.9, whatever the number of values seen.

    sqrt(2 log(places count^2 pi^2 / (6 probability))): Srinivas et al., 2010, arXiv 0912.3995, theorem 1, divided by
    5 as they did in their experiments.
    """
    return math.sqrt(2.0 * math.log(1000.0 * max(count, 1) ** 2 * math.pi**2 / (6.0 * probability)) / 5.0)


@dataclass(frozen=True)
class ConfidenceBound(OfMarginal):
    """How low f may be: kappa standard deviations below the mean, with its sign changed.

    Args:
        kappa: a number, or what maps the number of values seen to one, such as `gp_ucb`.
    """

    kappa: float | Callable[[int], float] = 2.0

    def __post_init__(self) -> None:
        if not callable(self.kappa):
            must_be_finite(kappa=self.kappa)

    def score(self, law: Marginal, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        kappa = self.kappa(context.count) if callable(self.kappa) else self.kappa
        mean, variance, by_mean, by_variance = spread(law)
        sigma = np.sqrt(variance)
        pull = 0.5 * kappa / sigma
        return kappa * sigma - mean, pull * by_mean - law.weight[:, None], pull * by_variance


@dataclass(frozen=True)
class Exploration(OfMarginal):
    """The standard deviation of f, whatever its mean: where least is known."""

    scale: ClassVar[Scale] = "positive"

    def score(self, law: Marginal, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        _, variance, by_mean, by_variance = spread(law)
        sigma = np.sqrt(variance)
        return sigma, 0.5 * by_mean / sigma, 0.5 * by_variance / sigma


@dataclass(frozen=True)
class ExploreWhenFlat(Unprepared):
    """Pure exploration where nothing is expected to improve, another acquisition as long as something is (seed S3).

    Args:
        base: the acquisition, whose values are expected improvements or their logarithms; it is not prepared.
        threshold: of the best expected improvement among candidates, in standardised units.
    """

    base: Acquisition
    threshold: float = 1e-3

    def __post_init__(self) -> None:
        must_be_finite(threshold=self.threshold)
        if not self.threshold:
            raise ValueError(f"threshold > 0 must hold, but got threshold={self.threshold}")

    def informed(self, data: Observations) -> Acquisition:
        return replace(self, base=self.base.informed(data))

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        most = self.base.values(posterior, context.points(rng), context).max()
        least = math.log(self.threshold) if self.base.scale == "logarithm" else self.threshold
        return self.base if most >= least else Exploration()


@dataclass(frozen=True)
class SometimesGreedy(Unprepared):
    """Another acquisition, but at every second point the least mean: what is known is made use of.

    (Why: De Ath et al., 2019, arXiv 1911.12809.) It is what "auto" stands for over sampled networks, whose functions
    differ away from the data for so long that expected improvement alone comes close late. A turn is left out while
    much more is expected elsewhere than the least mean promises: it would repeat the best point (docs/seeds/s1.md).
    The turn is told by the number of values, those that are awaited included.

    Args:
        base: the acquisition.
        every: how many points there are to a greedy one.
        share: of the largest expected improvement that the least mean must promise,
        much: unless less than this is expected, in standardised units.
    """

    base: Acquisition = field(default_factory=LogExpectedImprovement)
    every: int = 2
    share: float = 0.03
    much: float = 0.01

    def __post_init__(self) -> None:
        must_be_whole(1, every=self.every)
        must_be_finite(share=self.share, much=self.much)

    def informed(self, data: Observations) -> Acquisition:
        return replace(self, base=self.base.informed(data))

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        turn = context.count % self.every == 0 and self._worthwhile(posterior, context.points(rng), context)
        return (ConfidenceBound(0.0) if turn else self.base).prepare(posterior, context, rng=rng)

    def _worthwhile(self, posterior: Posterior, points: np.ndarray, context: Context) -> bool:
        law = posterior.marginal(points)
        promised = (law.weight @ (context.best - law.mean)).max()
        expected = ExpectedImprovement().score(law, context)[0].max()
        return bool(expected < self.much or promised > self.share * expected)


def spread(law: Marginal) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of a mixture, [n] each, and the derivatives of the variance in means and variances, [c, n].

    A Student-t law without a variance counts with its squared scale.
    """
    weight = law.weight[:, None]
    stretch = np.ones_like(weight) if law.df is None else _stretch(law.df)[:, None]
    mean = law.weight @ law.mean
    apart = law.mean - mean
    variance = law.weight @ (stretch * law.variance + apart**2)
    return mean, variance, 2.0 * weight * apart, np.broadcast_to(weight * stretch, law.mean.shape)


def _stretch(df: np.ndarray) -> np.ndarray:
    return np.where(df > 2.0, df / np.where(df > 2.0, df - 2.0, 1.0), 1.0)
