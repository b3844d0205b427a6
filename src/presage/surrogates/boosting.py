"""Gradient boosting of quantiles."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.tree import BaseDecisionTree, DecisionTreeRegressor

from presage.observations import Column, Observations
from presage.surrogates.base import Draws, Fit, Marginal, Posterior, State, Surrogate
from presage.surrogates.joint import AsOne
from presage.surrogates.trees import LEAST, Trees, calibrate, checked, generators, inputs


@dataclass(frozen=True)
class GradientBoosting(Surrogate):
    """A mixture of boosted models, each of which gives quantiles of the value and has left out a part of the data.

    The trees of a model are shared by its quantiles. Boosted quantiles lie too close together for values that were
    not seen (Romano et al., 2019, arXiv 1905.03222), so the parts left out say by how much their variance is to be
    inflated, and what is noise. A new observation moves f where it shares leaves with it.

    Args:
        quantiles: levels, placed symmetrically about 1/2.
        folds: models, and parts that the data are divided into.
        stages: trees per model.
        learning_rate: share of each tree's correction that is applied.
        max_depth: of the trees.
        least: values in a leaf.
    """

    quantiles: tuple[float, ...] = (0.16, 0.5, 0.84)
    folds: int = 5
    stages: int = 50
    learning_rate: float = 0.15
    max_depth: int = 4
    least: int = 2

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        """Boost (as in `previous`, if kept, on the data as they are now) and calibrate."""
        known = (previous or {}).get("boosting") if keep else None
        start, kept = (int(rng.integers(2**31)), None) if known is None else (int(known[0]), known[1:])
        x, y, noise = inputs(data.x[data.mask], data.columns), data.y[data.mask], data.noise[data.mask]
        rng, random_state = generators(start)
        held = np.zeros((min(self.folds, len(y)), len(y)), dtype=bool)
        if len(y) > 1:
            held[np.arange(len(y)) % len(held), rng.permutation(len(y))] = True
        with checked():
            parts = [self.boost(x[~out], y[~out], 1.0 / (1.0 + noise[~out]), random_state) for out in held]
        grown, value, first = ([part[i] for part in parts] for i in range(3))
        prior = Boosted(
            Trees.of([tree for trees in grown for tree in trees]), data.columns, np.concatenate(value), np.array(first),
            _scores(self.quantiles), (~held).sum(axis=1),
        )  # fmt: skip
        mean, spread = prior.moments(prior.leaves(x))
        found = calibrate(mean, spread, y, noise, held, kept=kept)
        posterior = BoostedPosterior(prior, found.inflation, found.noise, x, found.log_density)
        state = {"boosting": np.array([start, *np.log([found.inflation, found.noise])])}
        return Fit(posterior, state, {"inflation": found.inflation, "noise": found.noise})

    def boost(
        self, x: np.ndarray, y: np.ndarray, weight: np.ndarray, random_state: np.random.RandomState
    ) -> tuple[list[BaseDecisionTree], np.ndarray, np.ndarray]:
        """Trees, what their nodes add to the quantiles [nodes, q], and the quantiles that they start from [q].

        Friedman (2001), algorithm 1 with the pinball loss: a tree is grown on the gradient, which says whether a
        value lies above its quantile, and each leaf then adds the quantile of what is left.
        """
        level, some = np.array(self.quantiles), None if (weight == 1.0).all() else weight
        first = np.quantile(y, level)
        now = np.tile(first, (len(y), 1))
        grown, value = [], []
        for _ in range(self.stages):
            gradient = np.where(y[:, None] > now, level, level - 1.0)
            tree = DecisionTreeRegressor(
                max_depth=self.max_depth, min_samples_leaf=self.least, random_state=random_state
            ).fit(x, gradient, sample_weight=some, check_input=False)
            leaf = tree.tree_.apply(x)
            step = self.learning_rate * _quantiles(y[:, None] - now, leaf, level, tree.tree_.node_count)
            now = now + step[leaf]
            grown.append(tree)
            value.append(step)
        return grown, np.concatenate(value), first


def _scores(levels: tuple[float, ...]) -> np.ndarray:
    """Standard normal quantiles, [q]."""
    from scipy.special import ndtri

    return ndtri(np.array(levels))


def _quantiles(values: np.ndarray, group: np.ndarray, level: np.ndarray, groups: int) -> np.ndarray:
    """The quantile of column j of the values [n, q] at level j within each group [n], [groups, q]; 0 in empty ones."""
    count = np.bincount(group, minlength=groups)
    begin, at = np.cumsum(count) - count, np.maximum(count - 1, 0)
    result = np.zeros((groups, len(level)))
    for j, share in enumerate(level):
        ordered = np.append(values[np.lexsort((values[:, j], group)), j], 0.0)
        below = np.floor(share * at).astype(int)
        low, high = ordered[begin + below], ordered[begin + np.minimum(below + 1, at)]
        result[:, j] = np.where(count > 0, low + (share * at - below) * (high - low), 0.0)
    return result


class Boosted(NamedTuple):
    """Models that each sum trees to quantiles.

    Attributes:
        trees: of the first model, of the second, ...
        columns: what each column of the cube is.
        value: what each node adds to the quantiles, [nodes, q].
        first: the quantiles that each model starts from, [models, q].
        score: the standard normal quantiles at their levels, [q].
        seen: how many values each model has seen, [models].
    """

    trees: Trees
    columns: tuple[Column, ...]
    value: np.ndarray
    first: np.ndarray
    score: np.ndarray
    seen: np.ndarray

    def leaves(self, x: np.ndarray) -> np.ndarray:
        """The leaves that points with features [n, D] fall into, [models, stages, n]."""
        models = len(self.first)
        return self.trees.leaves(x).reshape(models, len(self.trees.root) // models, len(x))

    def moments(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the normal law nearest to the quantiles in each model, [models, n] each.

        Quantiles that cross are put in order (Chernozhukov et al., 2010). A few values that agree do not mean that f is
        constant: the variance is at least what the mean of all n values moves, 1/n, when one of them moves by 1.
        """
        quantiles = np.sort(self.value[leaves].sum(axis=1) + self.first[:, None], axis=2)
        variance = (quantiles @ self.score / (self.score @ self.score)) ** 2
        return quantiles.mean(axis=2), np.maximum(variance, 1.0 / self.seen[:, None] ** 2)


def shared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The share of the trees in which points fall into the same leaf, [models, n, m].

    Args:
        a: leaves, [models, stages, n].
        b: leaves, [models, stages, m].
    """
    total = np.zeros((len(a), a.shape[2], b.shape[2]))
    for stage in range(a.shape[1]):
        total += a[:, stage, :, None] == b[:, stage, None, :]
    return total / a.shape[1]


class News(NamedTuple):
    """Observations that came after the fit.

    Attributes:
        leaves: [models, stages, m].
        stddev: of f before they came, [models, m].
        value: [m].
        noise: variance with which they were seen, [models, m].
        inverse: inverse Cholesky factor of their covariance, [models, m, m].
        alpha: covariance^-1 (value - mean), [models, m].
    """

    leaves: np.ndarray
    stddev: np.ndarray
    value: np.ndarray
    noise: np.ndarray
    inverse: np.ndarray
    alpha: np.ndarray


@dataclass(frozen=True, repr=False)
class BoostedPosterior(Posterior):
    """In each model f = mean + stddev g, where g is a Gaussian process whose correlation is the share of common leaves.

    Attributes:
        prior: the models.
        inflation: of their variances.
        observation_noise: variance of an observation about f.
        x: features of the observations, [n, D].
        log_density: of each observation given the others, [n].
        news: observations after the fit.
    """

    prior: Boosted
    inflation: float
    observation_noise: float
    x: np.ndarray
    log_density: np.ndarray
    news: News | None = None

    def facts(self) -> dict[str, Any]:
        columns, trees = self.prior.columns, self.prior.trees
        return {"values": len(self.x), "dimensions": len(columns), "trees": len(trees.root)}

    @property
    def differentiable(self) -> bool:
        return False

    def marginal(self, x: np.ndarray) -> Marginal:
        return self._marginal(inputs(x, self.prior.columns))

    def _marginal(self, x: np.ndarray) -> Marginal:
        leaves = self.prior.leaves(x)
        mean, stddev = self._before(leaves)
        variance = stddev**2
        if self.news is not None:
            k = stddev[:, :, None] * shared(leaves, self.news.leaves) * self.news.stddev[:, None]
            mean = mean + np.einsum("bnm,bm->bn", k, self.news.alpha)
            explained = ((k @ self.news.inverse.transpose(0, 2, 1)) ** 2).sum(axis=2)
            variance = np.maximum(variance - explained, LEAST)
        return Marginal(mean, variance, np.full(len(mean), 1.0 / len(mean)))

    def _before(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation in each model before the news, [models, n] each."""
        mean, spread = self.prior.moments(leaves)
        return mean, np.sqrt(np.maximum(self.inflation * spread, LEAST))

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        raise NotImplementedError("trees have no gradients; ask `differentiable` first")

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.draw(num, rng=rng).values(x)

    def draw(self, num: int, *, rng: np.random.Generator) -> "BoostedDraws":
        models, nodes = len(self.prior.first), len(self.prior.value)
        chosen = np.concatenate([rng.permutation(models) for _ in range(-(-num // models))])[:num]
        draws = BoostedDraws(self, chosen, rng.standard_normal((num, nodes)), np.zeros((num, 0)))
        if self.news is None:
            return draws
        noise = np.sqrt(self.news.noise)[chosen] * rng.standard_normal((num, len(self.news.value)))
        error = self.news.value - draws.before(self.news.leaves)[0] - noise
        white = np.einsum("imk,ik->im", self.news.inverse[chosen], error)
        return replace(draws, weight=np.einsum("imk,im->ik", self.news.inverse[chosen], white))

    def noise(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.observation_noise)

    def condition(self, x: np.ndarray, y: np.ndarray) -> "BoostedPosterior":
        """The Gaussian update in each model.

        What was held out cannot tell noise from a poor fit, so a new value counts at least as much as the model.
        """
        new, old = inputs(x, self.prior.columns), self.news
        leaves = self.prior.leaves(new)
        y_all = y if old is None else np.append(old.value, y)
        leaves = leaves if old is None else np.concatenate([old.leaves, leaves], axis=2)
        mean, stddev = self._before(leaves)
        noise = np.clip(self.observation_noise, 1e-6 * stddev**2, stddev**2)
        K = stddev[:, :, None] * shared(leaves, leaves) * stddev[:, None]
        K[:, np.arange(len(y_all)), np.arange(len(y_all))] += noise
        inverse = np.linalg.inv(np.linalg.cholesky(K))
        alpha = np.einsum("bmk,bm->bk", inverse, np.einsum("bmk,bk->bm", inverse, y_all - mean))
        return replace(
            self, x=np.vstack([self.x, new]), news=News(leaves, stddev, y_all, noise, inverse, alpha),
            log_density=np.append(self.log_density, self.foretold(x, y, np.zeros(len(y)))[0]),
        )  # fmt: skip

    def joint(self, z: np.ndarray) -> AsOne:
        """In a model g has the share of common leaves as its correlation, less what the news have explained."""
        at = inputs(z, self.prior.columns)
        leaves = self.prior.leaves(at)
        stddev = self._before(leaves)[1]
        known = self._whitened(leaves, stddev)

        def within(x: np.ndarray) -> np.ndarray:
            mine = self.prior.leaves(inputs(x, self.prior.columns))
            here = self._before(mine)[1]
            prior = here[:, :, None] * shared(mine, leaves) * stddev[:, None]
            return prior - self._whitened(mine, here) @ known.transpose(0, 2, 1)

        return AsOne(self.marginal, self._marginal(at).mean, within)

    def _whitened(self, leaves: np.ndarray, stddev: np.ndarray) -> np.ndarray:
        """What the news explain at points in some leaves, as rows whose products are covariances, [models, n, m]."""
        if self.news is None:
            return np.zeros((*stddev.shape, 0))
        k = stddev[:, :, None] * shared(leaves, self.news.leaves) * self.news.stddev[:, None]
        return k @ self.news.inverse.transpose(0, 2, 1)

    def leave_one_out(self) -> np.ndarray:
        """By the model that had left the observation out, or by all before it came."""
        return self.log_density

    def incumbent(self) -> float:
        return float(self._marginal(self.x).moments()[0].min())


@dataclass(frozen=True)
class BoostedDraws(Draws):
    """Functions mean + stddev (sum of one weight per tree and leaf) + k(x, news) weight.

    Attributes:
        of: the posterior.
        chosen: the model of each function, [num].
        leaf: a standard normal number for each leaf, [num, nodes].
        weight: of the news, [num, m].
    """

    of: BoostedPosterior
    chosen: np.ndarray
    leaf: np.ndarray
    weight: np.ndarray

    def before(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The functions before the news and their models' standard deviations, [num, n] each."""
        mean, stddev = (moment[self.chosen] for moment in self.of._before(leaves))
        walk = np.array([leaf[leaves[model]].sum(axis=0) for model, leaf in zip(self.chosen, self.leaf, strict=True)])
        return mean + stddev * walk / math.sqrt(leaves.shape[1]), stddev

    def values(self, x: np.ndarray) -> np.ndarray:
        leaves = self.of.prior.leaves(inputs(x, self.of.prior.columns))
        value, stddev = self.before(leaves)
        news = self.of.news
        if news is None:
            return value
        k = shared(leaves, news.leaves)[self.chosen] * news.stddev[self.chosen, None]
        return value + stddev * np.einsum("inm,im->in", k, self.weight)

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError("trees have no gradients; ask `differentiable` first")
