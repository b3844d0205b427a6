"""The default with many values: what it looks at, and that nothing told is lost between fits."""

from dataclasses import replace

import numpy as np
import pytest

import presage
from presage import functions
from presage.observations import observe
from presage.surrogates import BestOf, Focused, GaussianProcess, automatic
from presage.testing.surrogates import PLAIN, SurrogateSuite, plain_points, smooth

FOCUSED = Focused(GaussianProcess(), most=10)
PROBE = plain_points(5, seed=7)
pytestmark = pytest.mark.usefixtures("one_thread")


class TestFocused(SurrogateSuite):
    def make(self):
        return Focused(GaussianProcess(), most=9)


def data(count):
    x = plain_points(40)[:count]
    return observe(x, smooth(x), PLAIN)


def fit(model, table, **how):
    return model.fit(table, rng=np.random.default_rng(0), **how)


def assert_same(one, other):
    for a, b in zip(one.marginal(PROBE), other.marginal(PROBE), strict=True):
        np.testing.assert_array_equal(a, b)


def test_up_to_twice_as_many_values_it_is_the_surrogate_itself():
    assert_same(fit(FOCUSED, data(20)).posterior, fit(GaussianProcess(), data(20)).posterior)


def test_beyond_it_looks_at_the_best_and_evenly_at_the_others():
    table = data(40)
    found = fit(FOCUSED, table)
    seen = FOCUSED.seen(table, found.state)
    assert seen.count == 10
    order = np.argsort(table.y)
    assert seen.mask[order[:5]].all()
    others = np.flatnonzero(seen.mask & ~np.isin(np.arange(40), order[:5]))
    rest = np.sort(order[5:])
    assert others[0] == rest[0]
    assert others[-1] == rest[-1]
    assert np.diff(np.searchsorted(rest, others)).max() <= 9
    assert_same(found.posterior, fit(GaussianProcess(), replace(table, mask=seen.mask)).posterior)


def test_values_that_come_between_fits_count_also_those_of_trials_that_were_under_way():
    table = data(40)
    late = table.mask.copy()
    late[[3, 39]] = False  # trial 3 was running when the fit was made, 39 did not exist
    before = replace(table, mask=late)
    state = fit(FOCUSED, before).state
    seen = FOCUSED.seen(table, state)
    assert seen.mask[[3, 39]].all()
    assert seen.count == 12
    kept = fit(FOCUSED, table, previous=state, keep=True)
    inner = fit(GaussianProcess(), replace(before, mask=FOCUSED.seen(before, state).mask)).state
    assert_same(kept.posterior, fit(GaussianProcess(), seen, previous=inner, keep=True).posterior)
    assert kept.state["focus.known"].tolist() == [40, 10]
    assert np.array_equal(kept.state["focus.left_out"], state["focus.left_out"])


def test_when_a_fit_is_due():
    table = data(40)
    assert FOCUSED.due(table, {}, 0)
    state = fit(FOCUSED, table).state
    assert not FOCUSED.due(table, state, 40)
    assert FOCUSED.due(data(30), state, 40), "values were taken back"
    more = observe(plain_points(45), smooth(plain_points(45)), PLAIN)
    assert FOCUSED.due(more, state, 40), "more than a tenth of the 15 is new"


def test_the_default_is_focused_and_a_study_of_many_values_says_so():
    default = automatic()
    assert isinstance(default.surrogate, BestOf)
    assert default.most == 500
    study = presage.Study(functions.branin.space, surrogate=Focused(default.surrogate, most=10), seed=0)
    rng = np.random.default_rng(0)
    points = [functions.branin.space.decode(x) for x in rng.random((40, 2))]
    study.tell_many(points, [functions.branin(point) for point in points])
    study.ask()
    said = study.explain()
    assert said.facts["seen"] == 10
    assert "looks at 10 of 40 values" in said.choices["surrogate"].why
    assert "were found from 10 values" in said.choices["surrogate"].why
    assert len(said.facts["leave_one_out"]) == 2
