"""Random search."""

from dataclasses import dataclass

import numpy as np

from presage.observations import Observations
from presage.proposers.base import Domain, Proposal, Proposer
from presage.surrogates.base import State


@dataclass(frozen=True)
class RandomSearch(Proposer):
    """Uniform points."""

    def propose(self, state: State, data: Observations, domain: Domain, count: int, *, rng: np.random.Generator) -> Proposal:
        if domain.remaining is not None:
            points = rng.permutation(domain.remaining)[:count]
        else:
            points = first_fresh(domain.random(max(64, 4 * count), rng), domain, count)
        return Proposal(points, state, {"source": "random"})


def first_fresh(points: np.ndarray, domain: Domain, count: int) -> np.ndarray:
    """The first `count` points that may be proposed and differ from each other."""
    chosen: list[np.ndarray] = []
    for point in points:
        if len(chosen) == count:
            break
        if domain.fresh(point) and not any(np.array_equal(point, other, equal_nan=True) for other in chosen):
            chosen.append(point)
    return np.array(chosen).reshape(len(chosen), len(domain.columns))
