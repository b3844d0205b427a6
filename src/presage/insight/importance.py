"""How much of the objective's variation each dimension explains: Sobol indices of draws from the surrogate."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from presage.insight.model import DRAWS, Model
from presage.sobol import sobol


class Importance(NamedTuple):
    """Indices of each dimension over draws of the surrogate; smaller than 0 and larger than 1 by sampling only.

    Attributes:
        names: of the dimensions.
        first: share of variance explained by the dimension alone, [draw, d].
        total: share that would remain unexplained if all others were known, interactions included, [draw, d].
    """

    names: tuple[str, ...]
    first: np.ndarray
    total: np.ndarray

    def summary(self) -> list[tuple[str, float, float, float, float]]:
        """Name, first, total, and the 5 % and 95 % quantiles of total; the most important first."""
        low, high = np.quantile(self.total, [0.05, 0.95], axis=0)
        first, total = self.first.mean(axis=0), self.total.mean(axis=0)
        rows = [
            (name, float(first[j]), float(total[j]), float(low[j]), float(high[j])) for j, name in enumerate(self.names)
        ]
        return sorted(rows, key=lambda row: -row[2])


def sobol_indices(
    function: Callable[[np.ndarray], np.ndarray], dim: int, num: int = 512, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """First-order and total Sobol indices of functions on the unit cube, [function, dim] both.

    With matrices A and B of independent points and A_j, which is A with column j of B:
    S_j = E[f(B) (f(A_j) - f(A))] / V (Saltelli et al. 2010, table 2 (b)),
    T_j = E[(f(A) - f(A_j))^2] / 2 V (Jansen 1999).

    Args:
        function: points [n, dim] in, values [function, n] out.
        dim: number of dimensions.
        num: points per matrix, a power of two.
        seed: of the points.
    """
    both = sobol(num, 2 * dim, np.random.default_rng(seed))
    a, b = both[:, :dim], both[:, dim:]
    blocks = [a, b]
    for j in range(dim):
        mixed = a.copy()
        mixed[:, j] = b[:, j]
        blocks.append(mixed)
    values = np.concatenate([function(block)[:, None] for block in blocks], axis=1)  # [function, block, point]
    values = values - values[:, :2].mean(axis=(1, 2), keepdims=True)  # the estimate of S is less noisy about 0
    variance = values[:, :2].var(axis=(1, 2))[:, None]
    variance = np.where(variance > 0.0, variance, 1.0)
    fa, fb, mixed = values[:, :1], values[:, 1:2], values[:, 2:]
    first = (fb * (mixed - fa)).mean(axis=2) / variance
    total = ((fa - mixed) ** 2).mean(axis=2) / (2.0 * variance)
    return first, total


def importance(model: Model, draws: int = DRAWS, num: int = 256, seed: int = 0) -> Importance:
    """Sobol indices of functions drawn from the surrogate, over the whole space, drawn evenly.

    Their spread over draws is what the data leave open. A conditional dimension counts where it exists.
    """
    drawn = model.draws(draws, seed)
    first, total = sobol_indices(lambda x: drawn(model.space.project(x)), model.space.dim, num, seed)
    return Importance(model.space.columns, first, total)
