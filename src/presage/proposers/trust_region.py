"""A trust region around the best point: a local search for many dimensions."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from presage.observations import Observations, observe
from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.model_based import FITTED, ModelBased
from presage.surrogates import State

LENGTH, GOOD, BAD, SEEN, BEST, SINCE = NAMES = ("length", "good", "bad", "seen", "best", "since")
SMALLEST, FIRST, LARGEST = 0.5**7, 0.8, 1.6


@dataclass(frozen=True)
class TrustRegion(Proposer):
    """Bayesian optimisation in a box around the best point, which grows with success and shrinks with failure.

    (Eriksson et al., 2019, arXiv 1910.01739, with one region.) When the box has become tiny, the search starts again
    with random points elsewhere, and what was seen before no longer counts.

    Args:
        base: model, acquisition and maximiser used inside the box.
        patience: successes in a row that double the box; failures in a row that halve it are as many as dimensions,
            this number at least.
        nearest: observations nearest to the centre that the model is fitted to.
    """

    base: ModelBased = field(default_factory=ModelBased)
    patience: int = 3
    nearest: int = 200

    def propose(
        self, state: State, data: Observations, domain: Domain, count: int, *, rng: np.random.Generator
    ) -> Proposal:
        region = _Region.read(state, data).after(data, max(self.patience, len(domain.columns)), self.patience)
        model = {name: array for name, array in state.items() if not name.startswith(PREFIX)}
        rows = np.flatnonzero(data.mask)[region.since :]
        fresh = max(2 * min(len(domain.columns), 10), 4)
        if len(rows) < fresh:  # a new start: points from everywhere first
            points = domain.fresh(domain.random(max(64, 4 * count), rng), count)
            return Proposal(points, {**model, **region.write()}, {"source": "restart"})
        center = data.x[rows[np.argmin(data.y[rows])]]
        inside = self._near(data, rows, center)
        box = np.clip(np.nan_to_num(center, nan=0.5) + 0.5 * region.length * np.array([[-1.0], [1.0]]), 0.0, 1.0)
        discrete = np.array([column.levels is not None or column.conditional for column in domain.columns])
        box[:, discrete] = [[0.0], [1.0]]  # levels have no nearness that could be trusted
        # The model counts the values that it was fitted to, of which it sees those nearby only.
        hidden = data.count - inside.count
        if FITTED in model:
            model[FITTED] = model[FITTED] - hidden
        found = self.base.propose(model, inside, replace(domain, box=box), count, rng=rng)
        kept = {**found.state, FITTED: found.state[FITTED] + hidden} if FITTED in found.state else found.state
        info = {**found.info, "source": "region", "length": region.length}
        return Proposal(found.points, {**kept, **region.write()}, info)

    def _near(self, data: Observations, rows: np.ndarray, center: np.ndarray) -> Observations:
        """The rows nearest to the centre, standardised anew, with all that failed or are pending."""
        distance = np.square(np.nan_to_num(data.x[rows] - center)).sum(axis=1)
        kept = data.failed | data.pending
        kept[rows[np.argsort(distance, kind="stable")[: self.nearest]]] = True
        values = np.where(data.mask, data.center + data.scale * data.y, np.nan)[kept]
        stddev = data.scale * np.sqrt(data.noise[kept])
        return observe(
            data.x[kept], values, data.columns, stddev=stddev, failed=data.failed[kept], pending=data.pending[kept],
            seconds=data.seconds[kept],
        )  # fmt: skip


PREFIX = "region."


@dataclass(frozen=True)
class _Region:
    """What the region remembers: its size, its luck, how many values it has seen, and since when they count."""

    length: float = FIRST
    good: int = 0
    bad: int = 0
    seen: int = 0
    best: float = np.inf
    since: int = 0

    @staticmethod
    def read(state: State, data: Observations) -> "_Region":
        if PREFIX + LENGTH not in state:
            return _Region(seen=data.count, best=_best(data, 0))
        values: dict[str, Any] = {name: state[PREFIX + name].item() for name in NAMES}
        return _Region(**values)

    def write(self) -> State:
        return {PREFIX + name: np.array(getattr(self, name)) for name in NAMES}

    def after(self, data: Observations, most_bad: int, most_good: int) -> "_Region":
        """The region after the values that have come in since it was last asked."""
        new = data.count - self.seen
        if new <= 0:
            return self
        best = _best(data, self.since)
        better = best < self.best - 1e-3 * abs(self.best) if np.isfinite(self.best) else True
        good, bad = (self.good + 1, 0) if better else (0, self.bad + new)
        length = self.length
        if good >= most_good:
            length, good = min(2.0 * length, LARGEST), 0
        elif bad >= most_bad:
            length, bad = 0.5 * length, 0
        if length < SMALLEST:
            return _Region(seen=data.count, since=data.count)
        return _Region(length, good, bad, data.count, min(best, self.best), self.since)


def _best(data: Observations, since: int) -> float:
    """The least value, in the user's units, not counting the first ones."""
    y = data.y[data.mask][since:]
    return data.center + data.scale * float(y.min()) if len(y) else np.inf
