"""Random search."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.observations import Observations
from presage.proposers.base import Domain, Proposal, Proposer

if TYPE_CHECKING:
    from presage.surrogates.base import State


@dataclass(frozen=True)
class RandomSearch(Proposer):
    """Uniform points."""

    def propose(
        self, state: "State", data: Observations, domain: Domain, count: int, *, rng: np.random.Generator
    ) -> Proposal:
        if domain.remaining is not None:
            points = rng.permutation(domain.remaining)[:count]
        else:
            points = domain.fresh(domain.random(max(64, 4 * count), rng), count)
        return Proposal(points, state, {"source": "random"})
