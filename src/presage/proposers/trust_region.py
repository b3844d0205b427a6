"""A trust region around the best point: a local search for many dimensions."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from presage.observations import Observations, observe
from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.model_based import FITTED, ModelBased
from presage.proposers.nested import check, equal, joined, split
from presage.proposers.random import RandomSearch
from presage.surrogates import State

LENGTH, GOOD, BAD, SEEN, BEST, SINCE = NAMES = ("length", "good", "bad", "seen", "best", "since")
LEFT = "left"
SMALLEST, FIRST, LARGEST = 0.5**7, 0.8, 1.6


@dataclass(frozen=True)
class TrustRegion(Proposer):
    """Bayesian optimisation in a box around the best point, which grows with success and shrinks with failure.

    (Eriksson et al., 2019, arXiv 1910.01739, with one region.) When the box has become tiny, the search starts again
    with random points elsewhere, and what was seen before, or was pending then, no longer counts.

    Args:
        base: model, acquisition and maximiser used inside the box.
        patience: successes in a row that double the box; failures in a row that halve it are as many as dimensions,
            this number at least.
        nearest: observations nearest to the centre that the model is fitted to.
    """

    base: ModelBased = field(default_factory=ModelBased)
    patience: int = 3
    nearest: int = 200

    def __post_init__(self) -> None:
        check(self, patience=1, nearest=1)

    def propose(
        self, state: State, data: Observations, domain: Domain, count: int, *, rng: np.random.Generator
    ) -> Proposal:
        region = _Region.read(state, data).after(data, max(self.patience, len(domain.columns)), self.patience)
        model, rows = split(state, PREFIX)[1], region.rows(data)
        fresh = max(2 * min(len(domain.columns), 10), 4)
        if len(rows) < fresh:  # a new start: points from everywhere first
            points = RandomSearch().propose({}, data, domain, count, rng=rng).points
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
    """What the region remembers: its size, its luck, how many values it has seen, and since when they count.

    Points of the region before, those that were pending when it ended, are left out wherever values are counted: some
    of them end after the first ones of this region.
    """

    length: float = FIRST
    good: int = 0
    bad: int = 0
    seen: int = 0
    best: float = np.inf
    since: int = 0
    left: np.ndarray = field(default_factory=lambda: np.empty((0, 0)), compare=False)  # points left out, [p, d]

    @staticmethod
    def read(state: State, data: Observations) -> "_Region":
        stored = split(state, PREFIX)[0]
        if LENGTH not in stored:
            return _Region(seen=data.count, best=_best(data, data.mask))
        values: dict[str, Any] = {name: stored[name].item() for name in NAMES}
        return _Region(**values, left=stored.get(LEFT, data.x[:0]))  # older states lack it

    def write(self) -> State:
        return joined(PREFIX, {name: np.array(getattr(self, name)) for name in (*NAMES, LEFT)}, {})

    def rows(self, data: Observations) -> np.ndarray:
        """The rows whose values count."""
        return np.flatnonzero(data.mask & ~equal(data.x, self.left).any(axis=1))[self.since :]

    def after(self, data: Observations, most_bad: int, most_good: int) -> "_Region":
        """The region after the values that have come in since it was last asked."""
        rows = self.rows(data)
        seen = self.since + len(rows)
        new = seen - self.seen
        if new <= 0:
            return self
        best = _best(data, rows)
        better = best < self.best - 1e-3 * abs(self.best) if np.isfinite(self.best) else True
        good, bad = (self.good + 1, 0) if better else (0, self.bad + new)
        length = self.length
        if good >= most_good:
            length, good = min(2.0 * length, LARGEST), 0
        elif bad >= most_bad:
            length, bad = 0.5 * length, 0
        if length < SMALLEST:
            again = _Region(left=data.x[data.pending])
            count = len(again.rows(data))
            return replace(again, seen=count, since=count)
        return _Region(length, good, bad, seen, min(best, self.best), self.since, self.left)


def _best(data: Observations, rows: np.ndarray) -> float:
    """The least value of some rows, in the user's units."""
    y = data.y[rows]
    return data.center + data.scale * float(y.min()) if len(y) else np.inf
