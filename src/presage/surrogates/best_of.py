"""Several surrogates, and the one that predicts best."""

from dataclasses import dataclass

import numpy as np

from presage.observations import Observations
from presage.surrogates.base import Fit, State, Surrogate

CHOSEN = "chosen"  # in the state: the member whose posterior was taken


@dataclass(frozen=True)
class BestOf(Surrogate):
    """Fits every member and takes the one with the largest leave-one-out log predictive density.

    Args:
        members: surrogates whose posteriors know their leave-one-out density.
    """

    members: tuple[Surrogate, ...]

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        parts = _split(previous, len(self.members))
        if keep and previous and CHOSEN in previous:
            chosen = int(previous[CHOSEN])
            posterior, _, report = self.members[chosen].fit(data, rng=rng, previous=parts[chosen], keep=True)
            return Fit(posterior, previous, {**report, CHOSEN: chosen})
        fits = [member.fit(data, rng=rng, previous=part) for member, part in zip(self.members, parts, strict=True)]
        scores = [float(fit.posterior.leave_one_out().sum()) for fit in fits]
        chosen = int(np.argmax(scores))
        state = {f"{i}.{name}": array for i, fit in enumerate(fits) for name, array in fit.state.items()}
        report = {**fits[chosen].diagnostics, CHOSEN: chosen, "leave_one_out": scores}
        return Fit(fits[chosen].posterior, {**state, CHOSEN: np.array(chosen)}, report)

    def due(self, data: Observations, state: State, fitted: int) -> bool:
        if CHOSEN not in state:
            return True
        chosen = int(state[CHOSEN])
        return self.members[chosen].due(data, _split(state, len(self.members))[chosen] or {}, fitted)


def _split(state: State | None, count: int) -> list[State | None]:
    """Each member's part of a joint state."""
    if not state:
        return [None] * count
    return [
        {name.partition(".")[2]: array for name, array in state.items() if name.startswith(f"{i}.")} or None
        for i in range(count)
    ]
