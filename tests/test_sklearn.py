"""The estimators under scikit-learn's own rules, and what they add to them."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_moons
from sklearn.utils.estimator_checks import estimator_checks_generator

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


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"tails": True}, {"heteroskedastic": True}], ids=str)
def test_a_regressors_log_density_is_that_of_its_mean_and_spread(options, tmp_path):
    x, y = diabetes()
    estimator = VariationalRegressor((8,), steps=200, samples=2, rate=0.03, draws=20, random_state=0, **options)
    mean, stddev = estimator.fit(x[:100], y[:100]).predict(x[100:101], return_std=True)
    grid = np.linspace(mean[0] - 60.0 * stddev[0], mean[0] + 60.0 * stddev[0], 24_001)
    density = np.exp(estimator.log_density(np.repeat(x[100:101], len(grid), axis=0), grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-4)
    assert np.trapezoid(density * grid, grid) == pytest.approx(mean[0], rel=1e-3)
    assert estimator.freedom_ > 2.0
    if np.isinf(estimator.freedom_):
        assert np.trapezoid(density * (grid - mean[0]) ** 2, grid) == pytest.approx(stddev[0] ** 2, rel=1e-3)
    estimator.save(tmp_path / "estimator.npz")
    again = VariationalRegressor.load(tmp_path / "estimator.npz")
    assert np.array_equal(again.log_density(x, y), estimator.log_density(x, y))


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


# Rules that train nothing; each of the others compiles programs for tables of its own shape.
AT_ONCE = {
    "class_weight_classifiers", "classifiers_one_label", "complex_data", "do_not_raise_errors_in_init",
    "do_not_raise_errors_in_init_or_set_param", "estimator_cloneable", "estimator_repr", "estimator_tags_renamed",
    "estimators_empty_data_messages", "estimators_unfitted", "fit1d", "get_params_invariance",
    "mixin_order", "no_attributes_set_in_init", "parameters_default_constructible", "positive_only_tag",
    "requires_y_none", "set_params", "supervised_y_no_nan", "valid_tag_types",
}  # fmt: skip


def rules():
    for estimator in SMALL:
        for mine, check in estimator_checks_generator(estimator, legacy=True, mark="skip"):
            name = check.func.__name__.removeprefix("check_")
            marks = [] if name in AT_ONCE else [pytest.mark.slow]
            yield pytest.param(mine, check, marks=marks, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(rules()))
def test_estimators_keep_scikit_learns_rules(estimator, check):
    check(estimator)
