"""Regions of the inputs on which experts learn: cuts that leave the values as near to piecewise linear as can be."""

from dataclasses import dataclass

import numpy as np

CUTS = 32  # thresholds tried for each input


@dataclass(frozen=True)
class Regions:
    """Boxes, found by cutting one of them after another.

    Attributes:
        parent: the region that each cut divides, [cuts]; the part above the threshold becomes region cut + 1.
        column: the input that is cut, [cuts].
        threshold: where, [cuts].
    """

    parent: np.ndarray
    column: np.ndarray
    threshold: np.ndarray

    @property
    def count(self) -> int:
        return len(self.parent) + 1

    def of(self, x: np.ndarray) -> np.ndarray:
        """The region of each point [n, d], [n]."""
        where = np.zeros(len(x), dtype=int)
        for cut, (parent, column, threshold) in enumerate(zip(self.parent, self.column, self.threshold, strict=True)):
            where[(where == parent) & (x[:, column] > threshold)] = cut + 1
        return where

    @staticmethod
    def piecewise(x: np.ndarray, y: np.ndarray, count: int) -> "Regions":
        """At most `count` regions, each cut being the one that lowers the squared error of linear fits most.

        Linear fits and not means, lest a steep slope be taken for a jump.

        Args:
            x: inputs, [n, d].
            y: values, [n, outputs].
            count: how many regions.
        """
        found = Regions(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
        for _ in range(count - 1):
            where = found.of(x)
            cuts = [(_best_cut(x[where == parent], y[where == parent]), parent) for parent in range(found.count)]
            options = [(*cut, parent) for cut, parent in cuts if cut is not None]
            if not options:
                break
            _, column, threshold, parent = max(options)
            found = Regions(
                np.append(found.parent, parent), np.append(found.column, column), np.append(found.threshold, threshold)
            )
        return found


def _best_cut(x: np.ndarray, y: np.ndarray) -> tuple[float, int, float] | None:
    """What the best cut gains, its column and its threshold; None where there are too few points to cut."""
    fewest = 2 * (x.shape[1] + 2)
    whole = _error(x, y)
    best: tuple[float, int, float] | None = None
    for column in range(x.shape[1]):
        order = np.unique(x[:, column])
        middles = 0.5 * (order[:-1] + order[1:])
        for threshold in middles[np.unique(np.linspace(0, len(middles) - 1, CUTS).astype(int))] if len(middles) else ():
            above = x[:, column] > threshold
            if min(above.sum(), (~above).sum()) < fewest:
                continue
            gain = whole - _error(x[above], y[above]) - _error(x[~above], y[~above])
            if best is None or gain > best[0]:
                best = (gain, column, float(threshold))
    return best


def _error(x: np.ndarray, y: np.ndarray) -> float:
    """Sum of squared residuals of a linear fit; a trace of ridge for inputs that do not vary."""
    design = np.column_stack([np.ones(len(x)), x - x.mean(axis=0)])
    gram = design.T @ design
    gram[np.diag_indices(len(gram))] += 1e-9 * np.trace(gram)
    residual = y - design @ np.linalg.solve(gram, design.T @ y)
    return float((residual**2).sum())
