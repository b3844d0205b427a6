"""Random forests and extremely randomised trees: every tree is a draw."""

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from sklearn.tree import BaseDecisionTree, DecisionTreeRegressor, ExtraTreeRegressor

from presage.observations import Column, Observations
from presage.surrogates.base import Draws, Fit, Marginal, Posterior, State, Surrogate
from presage.surrogates.trees import LEAST, Trees, calibrate, checked, generators, inputs


@dataclass(frozen=True)
class Forest(Surrogate):
    """A mixture of trees, each grown on a bootstrap sample until a leaf holds one value.

    The samples shape the trees; the leaves then average all values that fall into them. In a tree f is constant on a
    leaf, with a Gaussian law about the leaf's mean; the mixture adds the differences between trees. A leaf with one
    value has no variance of its own, so it takes that of its parent's values, divided by the number of its own and
    multiplied by a factor that makes the values left out by the bootstrap most likely; so is the noise found.

    Args:
        trees: how many.
        max_features: share of the features that a split may choose from.
    """

    trees: int = 100
    max_features: float = 1.0

    @abstractmethod
    def tree(self, random_state: np.random.RandomState) -> BaseDecisionTree:
        """A tree of scikit-learn, not grown yet."""

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        """Grow the trees (those of `previous`, if kept, on the data as they are now) and calibrate their leaves."""
        known = (previous or {}).get("forest") if keep else None
        start, kept = (int(rng.integers(2**31)), None) if known is None else (int(known[0]), known[1:])
        x, y, noise = inputs(data.x[data.mask], data.columns), data.y[data.mask], data.noise[data.mask]
        rng, random_state = generators(start)
        weight = 1.0 / (1.0 + noise)
        times = np.array([np.bincount(rng.integers(len(y), size=len(y)), minlength=len(y)) for _ in range(self.trees)])
        with checked():
            grown = [self.tree(random_state).fit(x, y, sample_weight=weight * one, check_input=False) for one in times]
        trees = Trees.of(grown)
        leaves = trees.leaves(x)
        spread = _spread(trees, grown)
        held = times == 0
        count, mean = _leaf_statistics(trees, leaves, y, weight * ~held)
        found = calibrate(mean[leaves], (spread / count)[leaves], y, noise, held, kept)
        count, mean = _leaf_statistics(trees, leaves, y, np.broadcast_to(weight, held.shape))
        posterior = ForestPosterior(
            trees, data.columns, mean, np.maximum(found.inflation * spread / count, LEAST), count, found.noise, leaves,
            found.log_density,
        )  # fmt: skip
        state = {"forest": np.array([start, *np.log([found.inflation, found.noise])])}
        return Fit(posterior, state, {"inflation": found.inflation, "noise": found.noise})


@dataclass(frozen=True)
class RandomForest(Forest):
    """Each split is the best one (Breiman, 2001)."""

    def tree(self, random_state: np.random.RandomState) -> BaseDecisionTree:
        return DecisionTreeRegressor(max_features=self.max_features, random_state=random_state)


@dataclass(frozen=True)
class ExtraTrees(Forest):
    """Each split is the best of one random threshold per feature (Geurts et al., 2006); smoother than RandomForest."""

    def tree(self, random_state: np.random.RandomState) -> BaseDecisionTree:
        return ExtraTreeRegressor(max_features=self.max_features, random_state=random_state)


def _spread(trees: Trees, grown: list[BaseDecisionTree]) -> np.ndarray:
    """Variance of the values in the parent of each node, [nodes]; 1, that of all values, for a root."""
    variance = np.concatenate([one.tree_.impurity for one in grown])
    size = np.concatenate([one.tree_.n_node_samples for one in grown])
    parent = trees.parent
    spread = (variance * size / np.maximum(size - 1, 1))[parent]
    return np.where(parent == np.arange(len(parent)), 1.0, np.maximum(spread, LEAST))


def _leaf_statistics(trees: Trees, leaves: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """Total weight and mean of the values that fall into each leaf, [nodes] each; weights are [trees, n]."""
    nodes = len(trees.feature)
    count = np.bincount(leaves.ravel(), weights=weight.ravel(), minlength=nodes)
    total = np.bincount(leaves.ravel(), weights=(weight * y).ravel(), minlength=nodes)
    safe = np.where(count > 0.0, count, 1.0)  # inner nodes
    return safe, total / safe


@dataclass(frozen=True)
class ForestPosterior(Posterior):
    """A mixture with one component per tree, in which f is constant on each leaf.

    Attributes:
        trees: the forest.
        columns: what each column of the cube is.
        mean: of f in each leaf, [nodes].
        variance: of f about it, [nodes].
        count: how many values the leaf has seen, [nodes].
        observation_noise: variance of an observation about f.
        leaves: into which the observations fall, [trees, n].
        log_density: of each observation given the others, [n].
    """

    trees: Trees
    columns: tuple[Column, ...]
    mean: np.ndarray
    variance: np.ndarray
    count: np.ndarray
    observation_noise: float
    leaves: np.ndarray
    log_density: np.ndarray

    @property
    def differentiable(self) -> bool:
        return False

    def marginal(self, x: np.ndarray) -> Marginal:
        leaves = self.trees.leaves(inputs(x, self.columns))
        return Marginal(self.mean.take(leaves), self.variance.take(leaves), np.full(len(leaves), 1.0 / len(leaves)))

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        raise NotImplementedError("trees have no gradients; ask `differentiable` first")

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.draw(num, rng=rng).values(x)

    def draw(self, num: int, *, rng: np.random.Generator) -> "ForestDraws":
        count = len(self.trees.root)
        chosen = np.concatenate([rng.permutation(count) for _ in range(-(-num // count))])[:num]
        end = np.append(self.trees.root, len(self.mean))[1:]
        parts = [slice(self.trees.root[tree], end[tree]) for tree in chosen]
        size = end[chosen] - self.trees.root[chosen]
        value = np.concatenate([self.mean[part] for part in parts])
        value += np.sqrt(np.concatenate([self.variance[part] for part in parts])) * rng.standard_normal(size.sum())
        return ForestDraws(
            self.trees._replace(root=self.trees.root[chosen]), self.columns, value, np.cumsum(size) - size
        )

    def noise(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.observation_noise)

    def condition(self, x: np.ndarray, y: np.ndarray) -> "ForestPosterior":
        """Count the new observations in their leaves; the trees are not grown anew.

        The conjugate update of a Gaussian: a leaf that has seen c values knows f c times as well as one value would
        tell it.
        """
        new = self.trees.leaves(inputs(x, self.columns))
        every = np.broadcast_to(y, new.shape).ravel()
        more = np.bincount(new.ravel(), minlength=len(self.mean))
        total = np.bincount(new.ravel(), weights=every, minlength=len(self.mean))
        count = self.count + more
        return replace(
            self, mean=(self.mean * self.count + total) / count, variance=self.variance * self.count / count,
            count=count, leaves=np.hstack([self.leaves, new]),
            log_density=np.append(self.log_density, self.foretold(x, y, np.zeros(len(y)))[0]),
        )  # fmt: skip

    def leave_one_out(self) -> np.ndarray:
        """Out of bag: by the trees whose sample had left the observation out, or that were grown before it came."""
        return self.log_density

    def incumbent(self) -> float:
        return float(self.mean.take(self.leaves).mean(axis=0).min())


@dataclass(frozen=True)
class ForestDraws(Draws):
    """Trees with a value drawn for every leaf.

    Attributes:
        trees: one per function; a tree may occur often.
        columns: what each column of the cube is.
        value: of every node of the first function, of the second, ...
        start: where each function's values begin, [num].
    """

    trees: Trees
    columns: tuple[Column, ...]
    value: np.ndarray
    start: np.ndarray

    def values(self, x: np.ndarray) -> np.ndarray:
        leaves = self.trees.leaves(inputs(x, self.columns))
        return self.value.take(leaves + (self.start - self.trees.root)[:, None])

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError("trees have no gradients; ask `differentiable` first")
