"""The estimators under scikit-learn's own rules, and what they add to them."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_moons
from sklearn.utils.estimator_checks import parametrize_with_checks

from presage.sklearn import EnsembleClassifier, EnsembleRegressor, VariationalRegressor


def regressors():
    return [
        VariationalRegressor((8,), steps=300, samples=2, rate=0.03, draws=20, random_state=0),
        EnsembleRegressor(1, 16, members=4, keep=0.9, steps=300, random_state=0),
    ]


def diabetes():
    x, y = load_diabetes(return_X_y=True)
    return x[:120], y[:120]


@pytest.mark.parametrize("estimator", regressors(), ids=lambda e: type(e).__name__)
def test_a_regressor_predicts_and_comes_back_from_a_file(estimator, tmp_path):
    x, y = diabetes()
    mean, stddev = estimator.fit(x[:100], y[:100]).predict(x[100:], return_std=True)
    assert np.sqrt(np.mean((mean - y[100:]) ** 2)) < y.std()
    # Nearly all values lie within four standard deviations, and some outside half of one.
    z = np.abs(mean - y[100:]) / stddev
    assert (z < 4.0).mean() >= 0.9
    assert (z > 0.5).any()
    estimator.save(tmp_path / "estimator.npz")
    again = type(estimator).load(tmp_path / "estimator.npz")
    assert again.get_params() == estimator.get_params()
    for a, b in zip(again.predict(x, return_std=True), estimator.predict(x, return_std=True), strict=True):
        assert np.array_equal(a, b)
    with pytest.raises(ValueError, match="holds a"):
        EnsembleClassifier.load(tmp_path / "estimator.npz")


def test_a_classifier_learns_moons_and_comes_back_from_a_file(tmp_path):
    x, number = make_moons(100, noise=0.1, random_state=0)
    y = np.array(["no", "yes"])[number]
    estimator = EnsembleClassifier(1, 16, members=4, steps=400, random_state=0).fit(x, y)
    assert (estimator.predict(x) == y).mean() > 0.9
    share, stddev = estimator.predict_proba(x, return_std=True)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    assert stddev.shape == share.shape
    estimator.save(tmp_path / "estimator.npz")
    assert np.array_equal(EnsembleClassifier.load(tmp_path / "estimator.npz").predict_proba(x), share)


def test_experts_on_regions_learn_a_jump():
    """S2's further work: on a jump, experts err less than as many members that all see everything."""
    x = np.linspace(-1.0, 1.0, 120)[:, None]
    y = np.where(x[:, 0] > 0.2, 4.0, 0.0) + np.sin(3.0 * x[:, 0])
    usual = {"depth": 1, "width": 16, "members": 4, "steps": 300, "random_state": 0}
    errors = []
    for regions in (1, 2):
        mean = EnsembleRegressor(regions=regions, **usual).fit(x, y).predict(x)
        errors.append(np.sqrt(np.mean((mean - y) ** 2)))
    assert errors[1] < 0.5 * errors[0]


SMALL = [
    VariationalRegressor((8,), steps=300, samples=2, rate=0.03, draws=20, random_state=0),
    EnsembleRegressor(1, 16, members=3, steps=200, random_state=0),
    EnsembleClassifier(1, 16, members=3, steps=200, random_state=0),
]


@parametrize_with_checks(SMALL)
def test_estimators_keep_scikit_learns_rules(estimator, check):
    check(estimator)
