"""The few points that sampled acquisitions reason about: where the minimum may well be."""

import numpy as np

from presage.acquisitions.base import Context
from presage.surrogates.base import Posterior

LOOKED_AT = 256  # points at which functions are drawn jointly: a Cholesky factor of this size takes a few milliseconds


def promising(posterior: Posterior, context: Context, rng: np.random.Generator, count: int = LOOKED_AT) -> np.ndarray:
    """Candidates at which f may be low, most of them by mean - 2 sigma and a quarter at random, [count, d]."""
    points = context.points(rng)
    mean, variance = posterior.marginal(points).moments()
    order = np.argsort(mean - 2.0 * np.sqrt(variance), kind="stable")
    top = order[: count - count // 4]
    rest = rng.permutation(order[len(top) :])[: count - len(top)]
    return points[np.concatenate([top, rest])]


def representers(posterior: Posterior, context: Context, rng: np.random.Generator, count: int) -> np.ndarray:
    """Different points that are the least of functions drawn from the posterior, most frequent first, [<= count, d]."""
    points = promising(posterior, context, rng)
    lowest = posterior.sample(points, 8 * count, rng=rng).argmin(axis=1)
    often = np.bincount(lowest, minlength=len(points))
    order = np.argsort(-often, kind="stable")  # promising points that no draw has its minimum at fill what is left
    return points[order[: min(count, len(points))]]
