"""A surrogate that looks at some of the values when there are many."""

from dataclasses import dataclass, field, replace

import numpy as np

from presage.observations import Observations
from presage.surrogates.base import Fit, State, Surrogate
from presage.surrogates.gaussian_process import GaussianProcess

LEFT_OUT = "focus.left_out"  # in the state: bits of the rows with values that the last fit did not look at
KNOWN = "focus.known"  # and how many rows there were, and values that it did look at


@dataclass(frozen=True)
class Focused(Surrogate):
    """Fits another surrogate to the best values and to some of the others, so that its cost stops growing with n.

    Half of the rows are those of the least values, where a search needs to be exact; the other half are taken evenly
    from the rest, in the order of trials. Between fits every new value counts.

    Args:
        surrogate: what is fitted to them.
        most: rows of a fit where there are more than twice as many; up to that number all of them.
    """

    surrogate: Surrogate = field(default_factory=GaussianProcess)
    most: int = 500

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        previous = previous or {}
        keep = keep and KNOWN in previous
        inner = {name: array for name, array in previous.items() if name not in (LEFT_OUT, KNOWN)}
        if keep:
            mine = {name: previous[name] for name in (LEFT_OUT, KNOWN)}
            seen = self.seen(data, mine)
        else:
            rows = self._chosen(data)
            seen = replace(data, mask=rows)
            mine = {LEFT_OUT: np.packbits(data.mask & ~rows), KNOWN: np.array([len(rows), seen.count])}
        found = self.surrogate.fit(seen, rng=rng, previous=inner or None, keep=keep)
        return found._replace(state={**found.state, **mine})

    def due(self, data: Observations, state: State, fitted: int) -> bool:
        """As the surrogate finds of the values that it was fitted to and those that came since."""
        if KNOWN not in state or len(data.y) < state[KNOWN][0]:
            return True
        return self.surrogate.due(self.seen(data, state), state, int(state[KNOWN][1]))

    def seen(self, data: Observations, state: State) -> Observations:
        """The observations without the values that a fit left out."""
        left_out = np.zeros(len(data.y), dtype=bool)
        known = np.unpackbits(state[LEFT_OUT], count=int(state[KNOWN][0])).astype(bool)[: len(data.y)]
        left_out[: len(known)] = known
        return replace(data, mask=data.mask & ~left_out)

    def _chosen(self, data: Observations) -> np.ndarray:
        """Which rows a new fit looks at, [n]."""
        valued = np.flatnonzero(data.mask)
        if len(valued) <= 2 * self.most:
            return data.mask
        order = valued[np.argsort(data.y[valued], kind="stable")]
        best, rest = order[: self.most // 2], np.sort(order[self.most // 2 :])
        spread = np.linspace(0, len(rest) - 1, self.most - len(best)).round().astype(int)
        rows = np.zeros(len(data.y), dtype=bool)
        rows[best] = rows[rest[spread]] = True
        return rows
