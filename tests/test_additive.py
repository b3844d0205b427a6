"""Sums over groups of columns: the groups are found, and what looks for them computes what it says."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import presage
from presage.kernels import Matern, RationalQuadratic, Trend, additive
from presage.observations import Column, observe
from presage.surrogates import BY_NAME, AdditiveProcess, GaussianProcess
from presage.surrogates.additive import Parts, _Search, numbered, regroup
from presage.surrogates.gaussian import Table
from presage.testing.surrogates import SurrogateSuite, mixed_data

pytestmark = pytest.mark.usefixtures("one_thread")

TRUE = ((0, 2), (1,), (3, 4), (5,))


class TestAdditiveProcess(SurrogateSuite):
    def make(self):
        return AdditiveProcess()


def f(x):
    """Two products and a wave; the columns 3 and 4 have no effect of their own, the column 5 none at all."""
    return np.sin(6 * x[:, 0] * x[:, 2]) + np.cos(5 * x[:, 1]) + 1.5 * np.sin(2 * np.pi * (x[:, 3] + x[:, 4]))


def table(n, d=6, seed=0):
    x = np.random.default_rng([seed, n]).random((n, d))
    return observe(x, f(x), (Column("continuous"),) * d)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_groups_of_a_sum_are_found_and_predict_better_than_one_group(seed):
    data = table(90, seed=seed)
    fit = AdditiveProcess().fit(data, rng=np.random.default_rng(seed))
    assert fit.diagnostics["groups"] == [list(group) for group in TRUE]
    x = np.random.default_rng(99).random((300, 6))
    truth = (f(x) - data.center) / data.scale
    plain = GaussianProcess().fit(data, rng=np.random.default_rng(seed))
    error, usual = (np.sqrt(np.mean((one.posterior.predict(x)[0] - truth) ** 2)) for one in (fit, plain))
    assert error < 0.5 * usual


def test_a_fit_goes_on_from_the_groups_of_the_one_before_and_keeps_them_when_told_to():
    few, more = table(40), table(90)
    first = AdditiveProcess(moves=0).fit(few, rng=np.random.default_rng(0))
    assert first.diagnostics["groups"] == [[j] for j in range(6)]
    found = AdditiveProcess().fit(more, rng=np.random.default_rng(0), previous=first.state)
    assert found.diagnostics["groups"] == [list(group) for group in TRUE]
    later = AdditiveProcess(moves=0).fit(few, rng=np.random.default_rng(0), previous=found.state)
    kept = AdditiveProcess().fit(few, rng=np.random.default_rng(0), previous=found.state, keep=True)
    assert later.diagnostics["groups"] == kept.diagnostics["groups"] == found.diagnostics["groups"]
    np.testing.assert_array_equal(kept.state["theta"], found.state["theta"])
    other = observe(few.x[:, :3], few.y, few.columns[:3])  # the space has changed
    assert AdditiveProcess().fit(other, rng=np.random.default_rng(0), previous=found.state, keep=True)


def test_groups_are_no_larger_than_allowed():
    x = np.random.default_rng(0).random((60, 4))
    data = observe(x, np.sin(3 * x.sum(axis=1)), (Column("continuous"),) * 4)
    for largest in (1, 2, 4):
        groups = AdditiveProcess(largest=largest).fit(data, rng=np.random.default_rng(0)).diagnostics["groups"]
        assert max(map(len, groups)) <= largest
        assert sorted(j for group in groups for j in group) == [0, 1, 2, 3]
    assert len(groups) < 4


def test_the_search_sees_the_evidence_of_a_dense_normal_law():
    data = mixed_data(12)
    surrogate, groups = AdditiveProcess(warp=None), ((0, 2), (1,), (3,))
    model = surrogate.model(data.columns, groups)
    seen = Table.of(data, model.axes)
    theta = model.priors.center + 0.3 * np.random.default_rng(0).standard_normal(model.priors.size)
    parts = Parts.of(theta, groups)
    np.testing.assert_allclose(parts.theta(groups), theta, rtol=1e-12)
    search = _Search.of(model, seen, parts)
    for other in (groups, ((0, 1), (2, 3)), ((0, 1, 2, 3),)):
        kernel = additive(Matern(), other).evaluate(
            parts.theta(other)[: -len(parts.rest)], *[seen.features] * 2, model.axes
        )
        mine = np.add.reduce([search.kernel(list(group)) for group in other])
        np.testing.assert_allclose(mine, kernel.value, rtol=1e-9)
        noise = np.exp(theta[model.noise_at]) * np.eye(12)
        truth = multivariate_normal(np.full(12, theta[-1]), kernel.value + noise).logpdf(seen.y)
        # The jitter is 1e-10 of the variance, or less.
        assert search.evidence(mine) - 6 * np.log(2 * np.pi) == pytest.approx(truth, abs=1e-4)


def test_moves_are_counted_and_none_is_made_for_nothing():
    """A column joins another only for a gain, so regrouping with no evaluations left changes nothing."""
    data = table(60)
    surrogate, alone = AdditiveProcess(), tuple((j,) for j in range(6))
    model = surrogate.model(data.columns, alone)
    seen = Table.of(data, model.axes)
    parts = Parts.of(model.priors.center, alone)
    assert regroup(model, seen, parts, alone, 4, 0, np.random.default_rng(0)) == alone
    found = regroup(model, seen, parts, alone, 4, 300, np.random.default_rng(0))
    assert found != alone
    assert numbered(found, 6).tolist() == [[j in g for g in found].index(True) for j in range(6)]
    assert regroup(model, seen, parts, found, 4, 300, np.random.default_rng(1)) == found  # it had ended


def test_only_the_columns_that_matter_are_tried_where_there_are_many():
    """In 20 dimensions seven columns meet each other; those that f depends on are among them."""
    x = np.random.default_rng(0).random((60, 20))
    data = observe(x, np.sin(6 * x[:, 0] * x[:, 2]) + np.cos(5 * x[:, 1]), (Column("continuous"),) * 20)
    groups = AdditiveProcess(moves=49).fit(data, rng=np.random.default_rng(0)).diagnostics["groups"]
    assert any({0, 2} <= set(group) for group in groups)
    assert any(1 in group and 0 not in group for group in groups)
    assert sum(len(group) > 1 for group in groups) <= 3  # seven columns at most


def test_a_study_by_name():
    space = presage.Space({f"x{i}": presage.Float(0, 1) for i in range(4)})
    study = presage.Study(space, surrogate="additive", seed=0, initial=6)
    study.optimize(lambda p: (p["x0"] - p["x1"]) ** 2 + (p["x2"] - 0.3) ** 2, trials=12)
    assert study.best.value < 0.02
    assert isinstance(BY_NAME["additive"](), AdditiveProcess)
    assert "Matern" in repr(study.posterior())


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"largest": 0}, ValueError, "largest >= 1"),
        ({"moves": -1}, ValueError, "moves >= 0"),
        ({"kernel": Trend()}, TypeError, "stationary"),
        ({"kernel": Matern(on=(0,))}, ValueError, "found by the fit"),
        ({"kernel": Matern(shared=True)}, ValueError, "lengthscale per column"),
        ({"kernel": Matern(variance=None)}, ValueError, "a variance"),
        ({"kernel": RationalQuadratic()}, ValueError, "no other parameters"),
    ],
)
def test_what_it_cannot_do_is_said(settings, error, words):
    with pytest.raises(error, match=words):
        AdditiveProcess(**settings)
