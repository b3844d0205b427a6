"""CMA-ES for acquisitions over posteriors without gradients, such as those of trees."""

from collections.abc import Callable

import numpy as np

from presage.proposers.base import Domain

STEP = 0.1  # initial standard deviation, as a share of the box


def evolve(
    values: Callable[[np.ndarray], np.ndarray], domain: Domain, points: np.ndarray, worth: np.ndarray,
    continuous: np.ndarray, generations: int, rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Better points [s, d] and their values [s], by CMA-ES over the continuous cells of each start.

    All starts move together, so that one call of `values` scores a generation of all of them. Cells of other columns
    stay; a start that gets no better stays where it is.

    Args:
        values: the acquisition at points [n, d].
        domain: where to look; points that break its constraints are worth nothing.
        points: starts, [s, d].
        worth: their values, [s].
        continuous: columns that may move, [d].
        generations: at most so many.
        rng: seeds the searches.
    """
    points, worth = points.copy(), worth.copy()
    if not generations:
        return points, worth
    searches = [_Search(point, continuous, domain.bounds, rng) for point in points]
    for _ in range(generations):
        asked = [search.ask() for search in searches]
        batch = np.concatenate(asked)
        legal = domain.legal(batch)
        found = np.full(len(batch), -np.inf)
        if legal.any():
            found[legal] = np.nan_to_num(values(batch[legal]), nan=-np.inf)
        ends = np.cumsum([len(part) for part in asked])[:-1]
        for i, (search, part, mine) in enumerate(zip(searches, asked, np.split(found, ends), strict=True)):
            search.tell(mine)
            best = int(np.argmax(mine)) if len(mine) else 0
            if len(mine) and mine[best] > worth[i]:
                points[i], worth[i] = part[best], mine[best]
    return points, worth


class _Search:
    """One run of CMA-ES over the continuous cells that exist at a point."""

    def __init__(self, point: np.ndarray, continuous: np.ndarray, bounds: np.ndarray, rng: np.random.Generator):
        from cmaes import CMA

        self.point, self.free = point, np.flatnonzero(continuous & ~np.isnan(point))
        seed = int(rng.integers(2**31))
        self.cma = None
        if not len(self.free):
            return
        lower, upper = bounds[:, self.free]
        self.lower, self.width = lower, np.maximum(upper - lower, 1e-12)
        # It needs two coordinates at least; a second one that nothing depends on does no harm.
        self.size = max(len(self.free), 2)
        start = np.full(self.size, 0.5)
        start[: len(self.free)] = np.clip((point[self.free] - lower) / self.width, 0.0, 1.0)
        box = np.array([[0.0, 1.0]] * self.size)
        self.cma = CMA(mean=start, sigma=STEP, bounds=box, seed=seed)
        self.asked: list[np.ndarray] = []

    def ask(self) -> np.ndarray:
        """A generation, [p, d]; none where nothing can move or the search has ended."""
        if self.cma is None or self.cma.should_stop():
            self.asked = []
            return np.empty((0, len(self.point)))
        self.asked = [self.cma.ask() for _ in range(self.cma.population_size)]
        batch = np.tile(self.point, (len(self.asked), 1))
        batch[:, self.free] = self.lower + self.width * np.array(self.asked)[:, : len(self.free)]
        return batch

    def tell(self, found: np.ndarray) -> None:
        if self.cma is not None and len(found):
            # Illegal points are worse than all others by a finite amount; a plateau of infinities would end the search.
            least = found[np.isfinite(found)].min(initial=0.0)
            cost = -np.where(np.isfinite(found), found, least - 1e3)
            self.cma.tell([(u, float(c)) for u, c in zip(self.asked, cost, strict=True)])
