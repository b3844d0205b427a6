"""What several holders of one study may do to each other: spaces that change, params that objectives change, settings
that differ, replays of all of it."""

import gc

import numpy as np
import pytest

from presage import Choice, Constant, Float, Int, Space, Study, load_study
from presage.errors import SpaceError, SpaceExhausted, StudyError, TrialError
from presage.replay import replay
from presage.storage import MemoryStorage
from presage.suggester import Suggester

LINE = Space({"x": Float(0, 1)})


@pytest.fixture(params=["memory", "sqlite"])
def storage(request, tmp_path):
    return MemoryStorage() if request.param == "memory" else tmp_path / "study.db"


def bowl(params):
    return (params["x"] - 0.3) ** 2


# Spaces.
def test_what_was_checked_in_an_old_space_does_not_come_into_the_new_one(storage):
    a = Study(LINE, storage=storage, seed=0)
    b = load_study(storage)
    a.enqueue({"x": 0.2})
    a.tell(a.ask(), 0.5)
    a.update_space(Space({"x": Float(0, 0.5)}))
    for act in (lambda: b.enqueue({"x": 0.9}), lambda: b.tell_many([{"x": 0.9}], [1.0])):
        with pytest.raises(SpaceError, match=r"0\.5"):
            act()
    assert len(load_study(storage).trials) == 1
    a.update_space({"x": Float(0, 2), "y": Float(0, 1, default=0.5)})
    assert b.enqueue({"x": 1.5, "y": 0.2}).params == {"x": 1.5, "y": 0.2}


def test_a_suggestion_of_the_old_space_loses_to_the_change(storage, monkeypatch):
    a = Study(LINE, storage=storage, seed=0)
    b = load_study(storage)
    choose, wider = Suggester.choose, Space({"x": Float(0, 1), "y": Float(0, 1)})

    def meanwhile(self, history, *more, **settings):
        found = choose(self, history, *more, **settings)
        if a.space.dim == 1:
            a.update_space(wider)
        return found

    monkeypatch.setattr(Suggester, "choose", meanwhile)
    assert set(b.ask().params) == {"x", "y"}
    assert [set(t.params) for t in load_study(storage).trials] == [{"x", "y"}]


def test_a_change_of_the_space_looks_at_trials_made_meanwhile(storage, monkeypatch):
    a = Study(LINE, storage=storage, seed=0)
    b = load_study(storage)
    append, done = type(a._ledger).append, []

    def meanwhile(self, events, *more, **settings):
        if self is a._ledger and events[0]["type"] == "space" and not done:
            done.append(b.enqueue({"x": 0.9}))
        return append(self, events, *more, **settings)

    monkeypatch.setattr(type(a._ledger), "append", meanwhile)
    with pytest.raises(SpaceError, match="trial 0 must be legal in the new space"):
        a.update_space(Space({"x": Float(0, 0.5)}))
    assert load_study(storage).space.to_json() == a.space.to_json() == LINE.to_json()


def test_constraints_that_another_process_added_are_not_ignored(storage):
    a = Study(LINE, storage=storage, seed=0)
    b = load_study(storage)
    narrow = Space({"x": Float(0, 1)}, constraints=[lambda p: p["x"] < 0.1])
    for _ in range(3):
        a.tell(trial := a.ask(), bowl(trial.params))
    a.update_space(narrow)
    for act in (b.ask, lambda: b.enqueue({"x": 0.9}), lambda: b.tell_many([{"x": 0.9}], [1.0])):
        with pytest.raises(StudyError, match=r"open it again with load_study\(\.\.\., space=\)"):
            act()
    b = load_study(storage, space=narrow)
    for _ in range(3):
        b.tell(trial := b.ask(), bowl(trial.params))
        assert trial.params["x"] < 0.1
    assert replay(storage, "study", space=narrow).exact


def test_many_asked_where_few_are_found_are_replayed():
    storage, space = MemoryStorage(), Space({"x": Float(0, 1)}, constraints=[lambda p: p["x"] < 0.05])
    Study(space, storage=storage, seed=0).ask(50)
    assert replay(storage, "study", space=space).exact


# Params.
def test_objectives_may_change_what_they_are_given(storage):
    space = Space({
        "x": Float(0, 1), "layers": Choice([[64], [64, 64]]), "made": Constant({"by": "hand"}),
    })  # fmt: skip
    study = Study(space, storage=storage, seed=0)
    for _ in range(12):
        trial = study.ask()
        value = bowl(trial.params)
        trial.params["x"] = 0.5
        trial.params["layers"].append(10)
        trial.params["made"]["by"] = "nobody"
        study.tell(trial, value)
    study.trials[3].params["layers"].append(10)  # of a copy that is the reader's own affair, not of the option
    assert study.space["layers"].options == ([64], [64, 64])
    opened = load_study(storage)
    assert [t.params["x"] for t in opened.trials] == [t.params["x"] for t in study.trials]
    assert opened.best.params == study.best.params
    assert all(t.params["made"] == {"by": "hand"} for t in opened.trials)
    assert replay(storage, "study").exact


# Telling.
def test_failures_keep_reports_and_metrics(storage):
    study = Study(LINE, storage=storage, seed=0)
    for outcome in ({"failed": "boom"}, {"value": np.nan}):
        trial = study.ask()
        trial.report(1, 0.5)
        study.tell(trial, **outcome, metrics={"loss": 2.0})
    for trial in (*study.trials, *load_study(storage).trials):
        assert (trial.state, trial.reports, trial.metrics) == ("failed", [(1, 0.5)], {"loss": 2.0})


def test_stddev_of_another_length_is_named():
    with pytest.raises(TrialError, match="stddev must be as many as params, 2, but got 1"):
        Study(LINE).tell_many([{"x": 0.1}, {"x": 0.2}], [1.0, 2.0], stddev=[1.0])


# States.
@pytest.mark.parametrize("other", ["student-t", "variational", "ensemble", "rf", "auto"])
def test_another_surrogate_does_not_take_over_what_one_has_learned(tmp_path, other):
    names = (other, "gp") if other in ("student-t", "auto") else ("gp", other)
    first = Study(LINE, storage=tmp_path / "study.db", seed=0, surrogate=names[0], initial=5)
    for _ in range(7):
        first.tell(trial := first.ask(), bowl(trial.params))
    opened = Study(LINE, storage=tmp_path / "study.db", surrogate=names[1])
    fresh = Study(LINE, seed=0, surrogate=names[1], initial=5)
    fresh.tell_many([t.params for t in first.trials], [t.value for t in first.trials])
    assert opened.predict({"x": 0.77}) == fresh.predict({"x": 0.77})
    opened.tell(trial := opened.ask(), bowl(trial.params))
    assert replay(tmp_path / "study.db", "study").exact


def test_a_wider_space_is_learned_anew():
    study = Study(LINE, seed=0, initial=5)
    study.optimize(bowl, 12)
    study.update_space(Space({"x": Float(0, 5)}))
    fresh = Study(Space({"x": Float(0, 5)}), seed=0, initial=5)
    fresh.tell_many([t.params for t in study.trials], [t.value for t in study.trials])
    assert study.predict({"x": 2.0}) == fresh.predict({"x": 2.0})


# Points that are left.
def test_conditional_spaces_are_counted_as_they_are():
    space = Space({"a": Int(0, 1999), "b": Float(0, 1, step=0.01, when={"a": 0})})
    assert space.size == 1999 + 101
    listed = space.points()
    assert len({str(space.decode(point)) for point in listed}) == len(listed)
    assert np.isnan(listed[:, 1]).sum() == 1999
    known = {"a": Int(0, 1), "c": Constant(3, when={"a": 0}), "b": Choice(["x", "y", "z"], when={"c": 3})}
    assert Space(known).size == 4
    assert Space({**known, "d": Float(0, 1, when={"b": "x"})}).size is None


def test_the_last_points_of_a_space_too_large_to_list_are_found():
    study = Study(Space({"n": Int(0, 20_499)}), seed=0, surrogate="random")
    study.tell_many([{"n": n} for n in range(20_500) if n % 4100], [1.0] * 20_495)
    left = set()
    for _ in range(5):
        study.tell(trial := study.ask(), 0.0)
        left.add(trial.params["n"])
    assert left == {0, 4100, 8200, 12_300, 16_400}
    with pytest.raises(SpaceExhausted, match="no point was found that has not been tried"):
        study.ask()


def test_the_trials_of_a_study_that_is_gone_are_given_to_another():
    storage, space = MemoryStorage(), Space({"n": Int(0, 1)})
    study = Study(space, storage=storage, seed=0)
    asked = study.ask(2)
    del study
    gc.collect()
    again = Study(space, storage=storage).ask(2)
    assert [t.params for t in again] == [t.params for t in asked]
    assert [t.attempt for t in again] == [2, 2]
