"""Random search."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.observations import Observations
from presage.proposers.base import Domain, Proposal, Proposer

if TYPE_CHECKING:
    from presage.surrogates.base import State

MORE = (1_000, 10_000, 100_000)  # points that are looked at where fewer had been tried before


@dataclass(frozen=True)
class RandomSearch(Proposer):
    """Uniform points."""

    def propose(
        self, state: "State", data: Observations, domain: Domain, count: int, *, rng: np.random.Generator
    ) -> Proposal:
        if domain.remaining is not None:
            points = domain.fresh(rng.permutation(domain.remaining), count)  # of a batch, some are taken by now
        else:
            points = domain.fresh(domain.random(max(64, 4 * count), rng), count)
            for drawn in MORE:  # nearly all have been tried
                if not len(points):
                    points = domain.fresh(domain.random(drawn, rng), count)
        return Proposal(points, state, {"source": "random"})
