"""Flat trees against scikit-learn's, their calibration against what it must find."""

import math

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from presage.surrogates.trees import Trees, calibrate, inputs
from presage.testing.surrogates import MIXED, mixed_points, smooth

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def forest():
    x = inputs(mixed_points(200), MIXED)
    return x, RandomForestRegressor(7, random_state=0).fit(x, smooth(mixed_points(200)))


def test_leaves_are_those_of_scikit_learn(forest):
    x, theirs = forest
    trees = Trees.of(theirs.estimators_)
    new = inputs(mixed_points(300, seed=1), MIXED)
    edges = x.copy()
    split = theirs.estimators_[0].tree_
    edges[:, split.feature[0]] = split.threshold[0]  # exactly on a threshold: to the left
    for points in (x, new, edges, new[:1], new[:0]):
        leaves = trees.leaves(points)
        assert leaves.shape == (7, len(points))
        if len(points):
            assert np.array_equal(leaves - trees.root[:, None], theirs.apply(points).T)


def test_a_tree_without_splits_has_one_leaf():
    trees = Trees.of([DecisionTreeRegressor().fit(np.zeros((3, 2)), np.zeros(3))] * 2)
    assert np.array_equal(trees.leaves(RNG.random((4, 2))), [[0] * 4, [1] * 4])


def test_sums_are_what_scikit_learn_counts(forest):
    x, theirs = forest
    trees = Trees.of(theirs.estimators_)
    times = np.array([np.bincount(drawn, minlength=len(x)) for drawn in theirs.estimators_samples_])
    total = trees.sums(trees.leaves(x), np.array([np.ones(len(x)), smooth(mixed_points(200))]), times)
    grown = [one.tree_ for one in theirs.estimators_]
    assert np.allclose(total[0], np.concatenate([tree.weighted_n_node_samples for tree in grown]))
    assert np.allclose(total[1] / total[0], np.concatenate([tree.value[:, 0, 0] for tree in grown]))


def test_ancestry_is_a_walk_up(forest):
    trees = Trees.of(forest[1].estimators_)
    top, depth = trees.ancestry()
    for node in RNG.integers(len(top), size=50):
        at, steps = node, 0
        while at not in trees.root:
            (at,) = {i // 2 for i in np.flatnonzero(trees.child == at)} - {at}
            steps += 1
        assert (at, steps) == (top[node], depth[node])


def laws(n, members=8):
    """Members' means, the variances of the values about them, and which members did not see a value."""
    mean, spread = RNG.normal(size=(members, n)), np.exp(RNG.normal(size=n)) * np.ones((members, 1))
    held = np.zeros((members, n), dtype=bool)
    held[RNG.integers(members, size=n), np.arange(n)] = True
    return mean, spread, held


def test_calibration_finds_the_factors_that_made_the_data():
    """Values drawn with inflation 3 and noise 0.2; the standard errors of the logarithms are about 0.1."""
    n = 2000
    mean, spread, held = laws(n)
    y = mean[held.argmax(axis=0), np.arange(n)] + np.sqrt(3.0 * spread[0] + 0.2 * 2.0) * RNG.normal(size=n)
    found = calibrate(mean, spread, y, np.zeros(n), held, noises=2.0)
    assert abs(math.log(found.inflation / 3.0)) < 0.3
    assert abs(math.log(found.noise / 0.2)) < 0.6
    again = calibrate(mean, spread, y, np.zeros(n), held, noises=2.0, kept=np.log([found.inflation, found.noise]))
    assert again[:2] == pytest.approx(found[:2])
    assert np.array_equal(again.log_density, found.log_density)


def test_calibrated_densities_are_those_of_the_mixture():
    n, known = 30, RNG.random(30)
    mean, spread, held = laws(n)
    held[2:4] = True
    held[:, 5] = False  # seen by all: nothing but the standard normal law is left
    y = RNG.normal(size=n)
    theta = np.log([0.7, 0.1])
    found = calibrate(mean, spread, y, known, held, kept=theta)
    for i in range(n):
        law = [(mean[t, i], 0.7 * spread[t, i] + 0.1 + known[i]) for t in range(8) if held[t, i]] or [(0, 1 + known[i])]
        density = np.mean([math.exp(-0.5 * (y[i] - m) ** 2 / v) / math.sqrt(2 * math.pi * v) for m, v in law])
        assert found.log_density[i] == pytest.approx(math.log(density))


def test_calibration_is_at_a_maximum():
    """Of the held-out densities times the priors, here computed from the outside."""
    mean, spread, held = laws(60)
    y = RNG.normal(size=60)

    def objective(theta):
        prior = 0.5 * (theta[0] / 1.5) ** 2 + 0.5 * ((theta[1] - math.log(1e-3)) / 3.0) ** 2
        return calibrate(mean, spread, y, np.zeros(60), held, kept=theta).log_density.sum() - prior

    found = calibrate(mean, spread, y, np.zeros(60), held)
    best = np.log([found.inflation, found.noise])
    for step in (0.05, -0.05):
        for axis in np.eye(2):
            assert objective(best + step * axis) < objective(best) + 1e-4
