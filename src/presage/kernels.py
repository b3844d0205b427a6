"""Covariance functions: features whose distances matter, and functions of a squared distance.

Plain NumPy with derivatives written out. The default surrogate refits at every trial; compiled code would make a
user wait seconds for its compilation to save milliseconds.
"""

import math

import numpy as np

from presage.observations import Column

ABSENT = 0.5  # how far, in cube units, the absence of a dimension lies from the middle of its range


def feature_owners(columns: tuple[Column, ...]) -> np.ndarray:
    """For each feature of `features` the column it comes from, [D]; features share their column's lengthscale.

    The features of numeric columns come first, in the order of the columns.
    """
    numeric = [j for j, c in enumerate(columns) if c.kind != "categorical"]
    categorical = [j for j, c in enumerate(columns) if c.kind == "categorical" for _ in range(c.levels or 0)]
    absent = [j for j, c in enumerate(columns) if c.conditional]
    return np.array(numeric + categorical + absent, dtype=int)


def features(x: np.ndarray, columns: tuple[Column, ...]) -> np.ndarray:
    """Euclidean features, [n, D], whose squared distances are the distances of mixed, conditional points, [n, d].

    A number is its distance from the middle; two categories are 1 apart; a dimension that does not exist sits at the
    middle of its range, ABSENT away on an axis of its own. (A constant covariance between present and absent would
    not be positive definite.)
    """
    numeric = [j for j, c in enumerate(columns) if c.kind != "categorical"]
    absent = [j for j, c in enumerate(columns) if c.conditional]
    if len(numeric) == len(columns) and not absent:
        return x - 0.5
    missing = np.isnan(x)
    filled = np.where(missing, 0.5, x)
    parts = [filled[:, numeric] - 0.5]
    for j, column in enumerate(columns):
        if column.kind == "categorical":
            levels = column.levels or 0
            level = np.clip(np.floor(filled[:, j] * levels), 0, levels - 1)
            hot = (level[:, None] == np.arange(levels)) & ~missing[:, j, None]
            parts.append(np.where(hot, math.sqrt(0.5), 0.0))
    parts.append(np.where(missing[:, absent], ABSENT, 0.0))
    return np.concatenate(parts, axis=1)


def squared_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a_i - b_j|^2 for features [n, D] and [m, D], by one matrix product.

    The rounding error is about 1e-16 |a|^2, and the kernels are smooth in the squared distance, so it stays there.
    """
    square = np.einsum("nk,nk->n", a, a)[:, None] + np.einsum("mk,mk->m", b, b)[None, :]
    square -= 2.0 * (a @ b.T)
    return np.maximum(square, 0.0, out=square)


def matern52(square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(1 + r + r^2/3) exp(-r) with r^2 = 5 |a - b|^2, and its derivative in |a - b|^2.

    Rasmussen & Williams, eq. 4.17.
    """
    r = np.sqrt(5.0 * square)
    decay = np.exp(-r)
    slope = (1.0 + r) * decay
    value = slope + (5.0 / 3.0) * square * decay
    slope *= -5.0 / 6.0
    return value, slope


def squared_exponential(square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp(-|a - b|^2 / 2), and its derivative in |a - b|^2 (Rasmussen & Williams, eq. 4.9)."""
    value = np.exp(-0.5 * square)
    return value, -0.5 * value


KERNELS = {"matern52": matern52, "squared_exponential": squared_exponential}
