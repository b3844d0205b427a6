"""One surrogate while values are few, another when there are many."""

from dataclasses import dataclass, field

import numpy as np

from presage.observations import Observations
from presage.surrogates.base import Fit, State, Surrogate
from presage.surrogates.gaussian_process import GaussianProcess
from presage.surrogates.neural_basis import NeuralBasis

STAGE = "stage"  # in the state: 0 where it is of the surrogate for few values, 1 for many


@dataclass(frozen=True)
class Staged(Surrogate):
    """A Gaussian process up to some hundred values, a network, whose cost is linear in n, beyond (docs/neural.md).

    A kept fit stays with the surrogate that its state is of, so that one serves on while the other is trained
    (`InBackground`).

    Args:
        few: the surrogate up to `limit` values.
        many: the surrogate beyond.
        limit: how many values are few; a choice, not a measured optimum.
    """

    few: Surrogate = field(default_factory=GaussianProcess)
    many: Surrogate = field(default_factory=NeuralBasis)
    limit: int = 300

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        stage, known = self._stage(data), _stage_of(previous)
        if keep and known is not None:
            stage = known
        found = self._member(stage).fit(data, rng=rng, previous=previous if known == stage else None, keep=keep)
        return found._replace(state={**found.state, STAGE: np.array(stage)})

    def due(self, data: Observations, state: State, fitted: int) -> bool:
        """As the surrogate in charge finds, and when another one takes over."""
        stage = self._stage(data)
        return _stage_of(state) != stage or self._member(stage).due(data, state, fitted)

    def _stage(self, data: Observations) -> int:
        return int(data.count > self.limit)

    def _member(self, stage: int) -> Surrogate:
        return (self.few, self.many)[stage]


def _stage_of(state: State | None) -> int | None:
    return int(state[STAGE]) if state and STAGE in state else None
