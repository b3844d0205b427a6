import numpy as np
import pytest

import presage
from presage import functions
from presage.observations import observe
from presage.surrogates import BY_NAME, GaussianProcess, InBackground, NeuralBasis, Staged
from presage.testing.surrogates import PLAIN, plain_points, smooth

FEW, MANY = GaussianProcess(), NeuralBasis(widths=(8,), members=2, evaluations=5, again=3)
STAGED = Staged(FEW, MANY, limit=12)
PROBE = plain_points(5, seed=7)
pytestmark = pytest.mark.usefixtures("one_thread")


def data(count):
    x = plain_points(20)[:count]
    return observe(x, smooth(x), PLAIN)


def assert_same(one, other):
    for a, b in zip(one.marginal(PROBE), other.marginal(PROBE), strict=True):
        assert np.array_equal(a, b)


def fit(model, count, **how):
    return model.fit(data(count), rng=np.random.default_rng(0), **how)


@pytest.mark.parametrize(("count", "member"), [(12, FEW), (13, MANY)])
def test_each_answers_on_its_side_of_the_limit(count, member):
    mine, alone = fit(STAGED, count), fit(member, count)
    assert_same(mine.posterior, alone.posterior)
    assert mine.diagnostics == alone.diagnostics
    again = fit(STAGED, count, previous=mine.state)
    assert_same(again.posterior, fit(member, count, previous=alone.state).posterior)


def test_the_other_takes_over_when_a_fit_is_due_and_not_before():
    state = fit(STAGED, 11).state
    assert not STAGED.due(data(11), state, 11)
    assert STAGED.due(data(13), state, 13), "beyond the limit, though all values were seen"
    kept = fit(STAGED, 13, previous=state, keep=True)
    assert_same(kept.posterior, fit(FEW, 13, previous=state, keep=True).posterior)
    after = fit(STAGED, 13, previous=kept.state)
    assert_same(after.posterior, fit(MANY, 13).posterior)
    assert not STAGED.due(data(13), after.state, 13)
    assert STAGED.due(data(11), after.state, 11), "values were taken back"
    assert_same(fit(STAGED, 11, previous=after.state).posterior, fit(FEW, 11).posterior)


def test_the_first_serves_while_the_other_is_trained():
    model, rng = InBackground(STAGED), np.random.default_rng(0)
    first = model.fit(data(11), rng=rng)
    assert model.due(data(13), first.state, 11)
    meanwhile = model.fit(data(13), rng=rng, previous=first.state)
    assert_same(meanwhile.posterior, fit(FEW, 13, previous=first.state, keep=True).posterior)
    model.wait()
    after = model.fit(data(13), rng=rng, previous=meanwhile.state)
    assert len(after.posterior.members) == 2
    assert not model.due(data(13), after.state, 13)


def test_up_to_its_limit_a_study_by_name_is_no_worse_than_the_process():
    """Regret at n <= 200: the margin is 0, since the suggestions are the same."""
    assert BY_NAME["neural"]().limit >= 200
    found = []
    for name in ("neural", "gp"):
        study = presage.Study(functions.branin.space, surrogate=name, seed=0)
        found.append([trial.value for trial in study.optimize(functions.branin, trials=12).trials])
    assert found[0] == found[1]
