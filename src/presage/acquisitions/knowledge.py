"""How much better the best known mean is expected to be after an observation."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from presage.acquisitions.base import TINY, Acquisition, Context, OfJoint, Scale, Unprepared, must_be_whole
from presage.acquisitions.improvement import log_improvement
from presage.acquisitions.representers import promising
from presage.surrogates.base import Marginal, Posterior
from presage.surrogates.joint import Joint


@dataclass(frozen=True)
class KnowledgeGradient(Unprepared):
    """E[min_z mean(z) - min_z mean(z after y is seen at x)] over a few promising z and x itself, exactly.

    (Frazier et al., 2009; each mean is a line in the standard score of y, and the least of lines is found in closed
    form.)

    Args:
        points: promising z.
    """

    scale: ClassVar[Scale] = "positive"
    points: int = 24

    def __post_init__(self) -> None:
        must_be_whole(1, points=self.points)

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        some = promising(posterior, context, rng)
        mean, variance = posterior.marginal(some).moments()
        half = self.points // 2  # half of them where the mean is lowest, half where it may become so
        ranks = [np.argsort(mean, kind="stable"), np.argsort(mean - 2.0 * np.sqrt(variance), kind="stable")]
        chosen = list(dict.fromkeys([*ranks[0][:half].tolist(), *ranks[1].tolist()]))[: self.points]
        z = some[chosen]
        joint = posterior.joint(z)
        return PreparedKnowledge(joint, joint.law(posterior.marginal(z)).mean)


@dataclass(frozen=True)
class PreparedKnowledge(OfJoint):
    """The knowledge gradient over points with these means, [c, m]."""

    scale: ClassVar[Scale] = "positive"
    joint: Joint
    mean: np.ndarray

    def score(
        self, law: Marginal, covariance: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        value, by_mean, by_variance = np.zeros(law.mean.shape[1]), *map(np.zeros_like, (law.mean, law.mean))
        by_covariance = np.zeros_like(covariance)
        for c, weight in enumerate(law.weight):
            total = law.variance[c] + noise
            root = np.sqrt(total)
            # Lines -(mean + slope w): those of the points, and that of x itself last.
            slope = np.column_stack([covariance[c], law.variance[c]]) / root[:, None]
            level = np.column_stack([np.broadcast_to(self.mean[c], covariance[c].shape), law.mean[c]])
            gain, by_level, by_slope = largest_gain(-level, -slope)
            value += weight * gain
            by_mean[c] = -weight * by_level[:, -1]
            by_covariance[c] = -weight * by_slope[:, :-1] / root[:, None]
            by_variance[c] = -weight * (by_slope[:, -1] / root - 0.5 * np.vecdot(by_slope, slope) / total)
        return value, by_mean, by_variance, by_covariance


def largest_gain(level: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[max_i level_i + slope_i w] - max_i level_i, w standard normal, [n], and its derivatives, [n, m] each.

    Line i is the largest between the last crossing with a less steep line and the first with a steeper one. At each
    crossing c the slope rises by some step, which adds step h(-|c|), h(z) = phi(z) + z Phi(z): all terms are positive,
    so that small gains keep their digits.
    """
    rise = level[:, None, :] - level[:, :, None]  # of line j over line i at w = 0, [n, i, j]
    steep = slope[:, :, None] - slope[:, None, :]
    parallel = np.abs(steep) < 1e-14 * np.abs(slope).max(axis=1, initial=0.0)[:, None, None] + TINY
    crossing = rise / np.where(parallel, 1.0, steep)
    last = np.where(~parallel & (steep > 0.0), crossing, -np.inf)
    start, end = last.max(axis=2), np.where(~parallel & (steep < 0.0), crossing, np.inf).min(axis=2)
    # Of parallel lines the highest counts, of equal ones the first.
    number = np.arange(level.shape[1])
    beaten = parallel & ((rise > 0.0) | ((rise == 0.0) & (number < number[:, None])))
    dead = beaten.any(axis=2) | (start >= end)
    begins = ~dead & np.isfinite(start)
    step = np.take_along_axis(steep, last.argmax(axis=2)[:, :, None], axis=2)[..., 0]
    value = np.sum(
        np.where(begins, step * np.exp(log_improvement(-np.abs(np.where(begins, start, 0.0)))[0]), 0.0), axis=1
    )
    # The line on top at w = 0 counts with what it has less than 1, and tails are taken from the side they are on.
    before, after = ndtr(start), ndtr(-end)
    top = ~dead & (start <= 0.0) & (end > 0.0)
    share = np.where(start > 0.0, ndtr(-start) - after, np.where(end < 0.0, ndtr(end) - before, 1.0 - before - after))
    share = np.where(top, -before - after, np.where(dead, 0.0, share))
    return value, share, np.where(dead, 0.0, _density(start) - _density(end))


def _density(z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
