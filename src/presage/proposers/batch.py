"""How points that are still being evaluated bear on the next one, and how a batch is made of several."""

import math
from dataclasses import dataclass, replace

import numpy as np

from presage import lbfgs
from presage.acquisitions import (
    Acquisition,
    Context,
    ExpectedImprovement,
    LogExpectedImprovement,
    NoisyExpectedImprovement,
    Penalised,
)
from presage.proposers.base import Domain
from presage.surrogates import Draws, Posterior


class Batch:
    """What is done about pending points, those chosen earlier in the same batch among them.

    Unless a subclass says otherwise they count as observed at their posterior mean.
    """

    def pending(
        self, posterior: Posterior, acquisition: Acquisition, context: Context, at: np.ndarray, *,
        rng: np.random.Generator,
    ) -> tuple[Posterior, Acquisition, Context]:  # fmt: skip
        """What to maximise for the next point, given the pending ones [p, d]; prepared afterwards."""
        best = _lowest(posterior, context, at)
        return posterior.believe(at), acquisition, replace(context, best=best, count=context.count + len(at))

    def together(
        self, posterior: Posterior, acquisition: Acquisition, context: Context, points: np.ndarray, at: np.ndarray,
        domain: Domain, *, rng: np.random.Generator,
    ) -> np.ndarray:  # fmt: skip
        """The points of a batch [q, d], chosen one by one, moved to where they are best together."""
        return points


@dataclass(frozen=True)
class Believe(Batch):
    """Pending points count as observed at their posterior mean, and batches are chosen point by point."""


@dataclass(frozen=True)
class Fantasise(Batch):
    """Pending points count as observed at a value drawn from the posterior, another one for each next point."""

    def pending(
        self, posterior: Posterior, acquisition: Acquisition, context: Context, at: np.ndarray, *,
        rng: np.random.Generator,
    ) -> tuple[Posterior, Acquisition, Context]:  # fmt: skip
        one = posterior.sample(at, 1, rng=rng)[0]
        best = np.minimum(context.best, one.min())
        return posterior.imagine(at, one), acquisition, replace(context, best=best, count=context.count + len(at))


@dataclass(frozen=True)
class Penalise(Batch):
    """The posterior stays as it is and points near pending ones are worth less (local penalisation)."""

    def pending(
        self, posterior: Posterior, acquisition: Acquisition, context: Context, at: np.ndarray, *,
        rng: np.random.Generator,
    ) -> tuple[Posterior, Acquisition, Context]:  # fmt: skip
        return posterior, Penalised.around(acquisition, at, posterior, context, rng), context


@dataclass(frozen=True)
class Independent(Batch):
    """Pending points do not count: for acquisitions that are random themselves, such as Thompson sampling."""

    def pending(
        self, posterior: Posterior, acquisition: Acquisition, context: Context, at: np.ndarray, *,
        rng: np.random.Generator,
    ) -> tuple[Posterior, Acquisition, Context]:  # fmt: skip
        return posterior, acquisition, context


@dataclass(frozen=True)
class JointImprovement(Batch):
    """Batches whose joint log expected improvement, log E[max_j max(best - f(x_j), 0)], is locally largest.

    The expectation is a mean over functions drawn once, so that it is a smooth function of all points together. The
    start is the batch chosen point by point. Its first point, the one that would be tried alone, stays: it is exact
    where the mean over functions is not, and without it batches never come quite close (benchmarks/batch.py). Where
    little is left to gain the softened mean cannot tell points apart, and all of them stay.

    Args:
        samples: functions drawn.
        evaluations: of the joint quasi-Newton search.
    """

    samples: int = 128
    evaluations: int = 80

    def together(
        self, posterior: Posterior, acquisition: Acquisition, context: Context, points: np.ndarray, at: np.ndarray,
        domain: Domain, *, rng: np.random.Generator,
    ) -> np.ndarray:  # fmt: skip
        first, points = points[:1], points[1:]
        free = np.array([column.levels is None for column in domain.columns]) & ~np.isnan(points)
        faint = LogExpectedImprovement().values(posterior, first, context)[0] < math.log(FAINT)
        if not len(points) or not posterior.differentiable or not free.any() or faint:
            return np.vstack([first, points])
        draws = posterior.draw(self.samples, rng=rng)
        known = np.ravel(draws.own(context.best))  # of each draw, or of all
        if isinstance(acquisition, NoisyExpectedImprovement) and not acquisition.known(posterior, context):
            known = draws.values(acquisition.contenders(posterior, context)).min(axis=1)
        known = known - getattr(acquisition, "margin", 0.0)
        best = np.minimum(known, draws.values(np.vstack([at, first])).min(axis=1))

        def negative(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x = np.where(free, flat.reshape(points.shape), points)
            value, gradient = joint_improvement(draws, x, best)
            return np.array([-value]), -np.where(free, gradient, 0.0).reshape(1, -1)

        lower, upper = np.where(free[None], domain.bounds[:, None], 0.0).reshape(2, 1, -1)
        start = np.where(free, points, 0.0).reshape(1, -1)
        found = lbfgs.minimize(negative, start, lower, upper, evaluations=self.evaluations, value_tol=1e-6)
        moved = np.where(free, found.x.reshape(points.shape), points)
        return np.vstack([first, moved if domain.legal(moved).all() else points])


def joins(acquisition: Acquisition) -> bool:
    """Whether it is an expected improvement, of which there is a joint one."""
    return isinstance(acquisition, ExpectedImprovement | LogExpectedImprovement | NoisyExpectedImprovement)


def joint_improvement(draws: Draws, x: np.ndarray, best: np.ndarray) -> tuple[float, np.ndarray]:
    """log E[max_j max(best - f(x_j), 0)] over drawn functions, smoothed, and its derivative in the points [q, d].

    Maxima are softened at a hundredth of a standard deviation, so that points and functions without an improvement
    still pull (Ament et al., 2023, arXiv 2310.20708, section 4).

    Args:
        draws: s functions.
        x: points, [q, d].
        best: the incumbent of each function, [s].
    """
    value, pull = draws.values_and_pull(x)
    gain = (best[:, None] - value) / SOFT  # [s, q]
    # A soft maximum over points, then a soft positive part: log(1 + e^u) beyond which the tail falls like 1 / u^2, as
    # an exponential one would be lost to rounding.
    top = gain.max(axis=1, keepdims=True)
    share = np.exp(gain - top)
    total = share.sum(axis=1)
    u, share = top[:, 0] + np.log(total), share / total[:, None]
    log_part, slope = _log_positive_part(u)
    highest = log_part.max()
    weight = np.exp(log_part - highest)
    worth = float(highest + np.log(weight.mean()) + np.log(SOFT))
    by_u = weight * slope / weight.sum()
    return worth, pull(-by_u[:, None] * share / SOFT)


SOFT = 0.01
FAINT = 0.05  # expected improvement of the best single point, in standard deviations


def _log_positive_part(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log of softplus(u) + 0.1 / (1 + u^2) below 0, and its derivative: positive, growing, with a heavy left tail."""
    soft = np.logaddexp(0.0, u)
    rise = np.exp(u - soft)  # the logistic function, without overflow
    tail = np.where(u < 0.0, 0.1 / (1.0 + u * u), 0.1)
    bend = np.where(u < 0.0, -0.2 * u / (1.0 + u * u) ** 2, 0.0)
    total = soft + tail
    return np.log(total), (rise + bend) / total


def _lowest(posterior: Posterior, context: Context, at: np.ndarray) -> float | np.ndarray:
    law = posterior.marginal(at)
    if np.ndim(context.best):
        return np.minimum(context.best, law.mean.min(axis=1, keepdims=True))
    return min(float(context.best), float(law.moments()[0].min()))
