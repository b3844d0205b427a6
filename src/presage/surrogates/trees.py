"""Regression trees as flat arrays: growing, descending, and learning how far their leaves can be trusted."""

import math
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.tree import BaseDecisionTree

from presage import lbfgs
from presage.kernels import features
from presage.observations import Column

# Medians and spreads of the log-normal priors of the two factors that `calibrate` learns; a few held-out values
# outweigh them, and where there are none they are all that is known.
INFLATION, NOISE = (1.0, 1.5), (1e-3, 3.0)
LEAST = 1e-12  # a variance; the values have variance 1


class Trees(NamedTuple):
    """Any number of trees, their nodes numbered one after the other.

    Attributes:
        feature: the feature that a node asks for, [nodes].
        threshold: points whose feature is larger go right, [nodes].
        child: left and right child of each node, [2 nodes]; a leaf is its own child.
        root: [trees].
    """

    feature: np.ndarray
    threshold: np.ndarray
    child: np.ndarray
    root: np.ndarray

    @staticmethod
    def of(grown: list[BaseDecisionTree]) -> "Trees":
        """Flat copies of scikit-learn's trees."""
        trees = [one.tree_ for one in grown]
        size = np.array([tree.node_count for tree in trees])
        root = np.cumsum(size) - size
        left, right = (np.concatenate([getattr(t, f"children_{side}") for t in trees]) for side in ("left", "right"))
        leaf, own = left < 0, np.arange(size.sum())
        child = np.where(leaf, own, np.stack([left, right]) + np.repeat(root, size))
        feature = np.where(leaf, 0, np.concatenate([tree.feature for tree in trees]))
        return Trees(feature, np.concatenate([tree.threshold for tree in trees]), child.T.ravel(), root)

    @property
    def parent(self) -> np.ndarray:
        """The parent of each node, a root being its own, [nodes]."""
        size = len(self.feature)
        parent = np.arange(size)
        inner = np.flatnonzero(self.child[::2] != parent)
        parent[self.child[::2][inner]] = parent[self.child[1::2][inner]] = inner
        return parent

    def ancestry(self) -> tuple[np.ndarray, np.ndarray]:
        """The root above each node, and how far above, [nodes] each."""
        parent = self.parent
        top, depth = np.arange(len(parent)), np.zeros(len(parent), dtype=int)
        while (moved := parent[top] != top).any():
            top, depth = parent[top], depth + moved
        return top, depth

    def sums(self, leaves: np.ndarray, cells: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """What falls into each node, summed, [k, nodes].

        Args:
            leaves: of n points, [trees, n].
            cells: numbers that belong to the points, [k, n].
            weight: of each point in each tree, [trees, n].
        """
        size, parent, (_, depth) = len(self.feature), self.parent, self.ancestry()
        total = np.array([np.bincount(leaves.ravel(), (weight * row).ravel(), size) for row in cells])
        for level in range(depth.max(), 0, -1):
            at = np.flatnonzero(depth == level)
            for row in total:
                np.add.at(row, parent[at], row[at])
        return total

    def loosened(self, x: np.ndarray, seen: np.ndarray, rng: np.random.Generator) -> "Trees":
        """With thresholds anywhere between the two points that they divide, instead of halfway (Hutter et al., 2014).

        Trees then disagree about what lies between two points, the more the farther it is from both.

        Args:
            x: features of the points that the trees were grown on, [n, D].
            seen: whether a tree was grown on a point, [trees, n].
            rng: draws the thresholds.
        """
        size, parent, (_, depth) = len(self.feature), self.parent, self.ancestry()
        leaves, (tree, point) = self.leaves(x), np.nonzero(seen)
        least = np.full((size, x.shape[1]), np.inf)
        most = -least
        np.minimum.at(least, leaves[tree, point], x[point])
        np.maximum.at(most, leaves[tree, point], x[point])
        for level in range(depth.max(), 0, -1):
            at = np.flatnonzero(depth == level)
            np.minimum.at(least, parent[at], least[at])
            np.maximum.at(most, parent[at], most[at])
        inner = np.flatnonzero(self.child[::2] != np.arange(size))
        left, right, feature = self.child[2 * inner], self.child[2 * inner + 1], self.feature[inner]
        low, high = most[left, feature], least[right, feature]
        threshold = self.threshold.copy()
        threshold[inner] = low + rng.random(len(inner)) * (high - low)
        return self._replace(threshold=threshold)

    def leaves(self, x: np.ndarray) -> np.ndarray:
        """The leaf of each tree that points with features [n, D] fall into, [trees, n].

        All trees at once, one level per round; every other round those that have arrived are left out. With 1,500
        points and 100 trees this takes as long as a compiled loop over the levels, 10 to 20 ms.
        """
        n = len(x)
        # scikit-learn compares in single precision
        cells, offset = x.T.astype(np.float32).astype(float).ravel(), self.feature * n
        node, point = np.repeat(self.root, n), np.tile(np.arange(n), len(self.root))
        found, where = node, np.arange(len(node))
        while len(node):
            for _ in range(2):
                at = offset.take(node)
                at += point
                right = cells.take(at) > self.threshold.take(node)
                node = 2 * node
                node += right
                node = self.child.take(node)
            found[where] = node
            going = np.flatnonzero(self.child.take(2 * node) != node)
            if len(going) < 0.75 * len(node):
                node, point, where = node.take(going), point.take(going), where.take(going)
        return found.reshape(len(self.root), n)


def inputs(x: np.ndarray, columns: tuple[Column, ...]) -> np.ndarray:
    """What trees split on: numbers, one column per category, and whether a dimension exists, [n, D], float32."""
    return np.ascontiguousarray(features(x, columns), dtype=np.float32)


def generators(seed: int) -> tuple[np.random.Generator, np.random.RandomState]:
    """Ours and scikit-learn's; one of the latter for all trees, since making one takes as long as growing a tree."""
    rng = np.random.default_rng(seed)
    return rng, np.random.RandomState(int(rng.integers(2**31)))


def checked() -> AbstractContextManager[None]:
    """Within this scikit-learn does not check what is known to be right, which takes as long as growing a tree."""
    return config_context(assume_finite=True, skip_parameter_validation=True)


class Calibration(NamedTuple):
    """How far held-out values lay from what was foretold.

    Attributes:
        inflation: factor of the members' own variances.
        noise: variance of an observation about f.
        log_density: of each held-out value under the mixture of the members that had not seen it, [n]; under the
            standard normal law where every member had.
    """

    inflation: float
    noise: float
    log_density: np.ndarray


def calibrate(
    mean: np.ndarray, spread: np.ndarray, y: np.ndarray, known: np.ndarray, held: np.ndarray, *,
    noises: np.ndarray | float = 1.0, kept: np.ndarray | None = None,
) -> Calibration:  # fmt: skip
    """The inflation and noise under which held-out values are most likely, times their priors.

    The law of value i is the mixture over the members that did not see it of N(mean, inflation spread + noises noise +
    known). What differs from place to place is explained by the spread, what is the same everywhere by the noise.

    Args:
        mean: of each member at each point, [members, n].
        spread: its variance, up to a factor, [members, n].
        y: values, [n].
        known: their known noise variances, [n].
        held: whether the member has not seen the value, [members, n].
        noises: factor of the noise, [members, n]: that of the value, and that of what was averaged to foretell it.
        kept: log inflation and log noise, where they are not to be learned anew.
    """
    some = held.any(axis=0)
    noises = np.broadcast_to(noises, held.shape)[:, some]
    mean, spread, values, given = mean[:, some], spread[:, some], y[some], known[some]
    with np.errstate(divide="ignore"):
        log_weight = np.log(held[:, some] / held[:, some].sum(axis=0))
    center = np.log([INFLATION[0], NOISE[0]])
    width = np.array([INFLATION[1], NOISE[1]])

    def densities(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density of each value, [n], and its derivatives in theta, [2, n]."""
        inflation, noise = np.exp(theta)
        variance = np.maximum(inflation * spread + noise * noises + given, LEAST)
        square = (values - mean) ** 2 / variance
        parts = log_weight - 0.5 * (square + np.log(2.0 * math.pi * variance))
        highest = parts.max(axis=0)
        share = np.exp(parts - highest)
        sums = share.sum(axis=0)
        total = highest + np.log(sums)
        pull = share / sums * 0.5 * (square - 1.0) / variance
        return total, np.array([inflation * (pull * spread).sum(axis=0), noise * (pull * noises).sum(axis=0)])

    def energy(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = (theta - center) / width
        found = [densities(one) for one in theta]
        value = 0.5 * (z**2).sum(axis=1) - [total.sum() for total, _ in found]
        return value, z / width - [slope.sum(axis=1) for _, slope in found]

    if kept is None:
        starts = center + np.array([[0.0, 0.0], [0.0, 5.0]])
        found = lbfgs.minimize(energy, starts, center - 4.0 * width, center + 4.0 * width, gradient_tol=1e-3)
        kept = found.x[int(np.argmin(found.value))]
    log_density = -0.5 * (y**2 / (1.0 + known) + np.log(2.0 * math.pi * (1.0 + known)))
    log_density[some] = densities(kept)[0]
    return Calibration(math.exp(kept[0]), math.exp(kept[1]), log_density)
