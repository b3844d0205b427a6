"""Euclidean features of points of the unit cube, in which every kernel is written."""

import math
from functools import cached_property

import numpy as np

from presage.observations import Column

ABSENT = 0.5  # how far, in cube units, the absence of a dimension lies from the middle of its range


class Axes:
    """The features of a table with some columns: numbers first, then categories one-hot, then absences.

    A number is its distance from the middle; two categories are 1 apart; a dimension that does not exist sits at the
    middle of its range, ABSENT away on an axis of its own. (A constant covariance between present and absent would
    not be positive definite.)

    Attributes:
        columns: the columns.
        numeric: which of them are numbers; their features move with them at unit speed.
        owner: for each feature the column it comes from, [D]; features share their column's lengthscale.
    """

    def __init__(self, columns: tuple[Column, ...]):
        self.columns = columns
        self.numeric = [j for j, c in enumerate(columns) if c.kind != "categorical"]
        self._absent = [j for j, c in enumerate(columns) if c.conditional]
        hot = [j for j, c in enumerate(columns) if c.kind == "categorical" for _ in range(c.levels or 0)]
        self.owner = np.array(self.numeric + hot + self._absent, dtype=int)

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def plain(self) -> bool:
        """Whether every column is one feature."""
        return len(self.numeric) == len(self.columns) and not self._absent

    def features(self, x: np.ndarray) -> np.ndarray:
        """The features of points [n, d], [n, D]."""
        if self.plain:
            return x - 0.5
        missing = np.isnan(x)
        filled = np.where(missing, 0.5, x)
        parts = [filled[:, self.numeric] - 0.5]
        for j, column in enumerate(self.columns):
            if column.kind == "categorical":
                levels = column.levels or 0
                level = np.clip(np.floor(filled[:, j] * levels), 0, levels - 1)
                hot = (level[:, None] == np.arange(levels)) & ~missing[:, j, None]
                parts.append(np.where(hot, math.sqrt(0.5), 0.0))
        parts.append(np.where(missing[:, self._absent], ABSENT, 0.0))
        return np.concatenate(parts, axis=1)

    def gradient(self, by_features: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Derivatives in x, [..., n, d], from those in the features, [..., n, D]; 0 where nothing can move."""
        if self.plain:
            return by_features
        found = np.zeros((*by_features.shape[:-1], len(self.columns)))
        found[..., self.numeric] = by_features[..., : len(self.numeric)]
        found[..., np.isnan(x)] = 0.0
        return found


def features(x: np.ndarray, columns: tuple[Column, ...]) -> np.ndarray:
    """Euclidean features, [n, D], whose squared distances are the distances of mixed, conditional points, [n, d]."""
    return Axes(columns).features(x)


def feature_owners(columns: tuple[Column, ...]) -> np.ndarray:
    """For each feature of `features` the column it comes from, [D]; those of numeric columns come first."""
    return Axes(columns).owner
