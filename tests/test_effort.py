"""What suggestions may cost follows what evaluations take, and is on record."""

import itertools
from types import SimpleNamespace

import pytest

from presage import Study, effort, load_study
from presage.effort import CHEAP, DEAR, FROM, LATELY, affordable
from presage.errors import StorageError
from presage.functions import branin
from presage.history import History
from presage.proposers import ModelBased
from presage.replay import replay
from presage.trial import Trial


def past(count, seconds, latency, **fields):
    """A study of so many trials that took so long to evaluate and to suggest."""
    made = {"state": "complete", "values": (1.0,), "suggested": 100.0, "finished": 100.0 + seconds, **fields}
    return SimpleNamespace(trials=[Trial(number, {}, latency=latency, **made) for number in range(count)])


def test_quick_where_many_evaluations_take_next_to_no_time():
    assert affordable(past(FROM, 0.9 * CHEAP, 1.0)) == "quick"
    assert affordable(past(FROM - 1, 0.0, 1.0)) == "usual"
    assert affordable(past(FROM, 1.1 * CHEAP, 1.0)) == "usual"
    assert affordable(past(FROM, 3600.0, 0.1)) == "usual"


def test_a_decision_near_the_limit_is_kept():
    between = 0.5 * (CHEAP + DEAR)
    assert affordable(past(FROM, between, 1.0)) == "usual"
    assert affordable(past(FROM, between, 1.0, effort="quick")) == "quick"
    assert affordable(past(FROM, 1.1 * DEAR, 1.0, effort="quick")) == "usual"


@pytest.mark.parametrize("fields", [{"source": "told", "suggested": None}, {"values": ()}, {"source": "initial"}])
def test_only_evaluated_suggestions_of_the_model_count(fields):
    assert affordable(past(FROM, 0.0, 1.0)) == "quick"
    assert affordable(past(FROM, 0.0, 1.0, **fields)) == "usual"


def test_single_slow_evaluations_do_not_matter():
    slow = past(FROM, 0.0, 1.0)
    for number in range(FROM - LATELY // 2 + 1, FROM):
        slow.trials[number] = slow.trials[number].but({"finished": 1e6})
    assert affordable(slow) == "quick"
    slow.trials[FROM - LATELY // 2] = slow.trials[FROM - LATELY // 2].but({"finished": 1e6})
    slow.trials[FROM - LATELY // 2 - 1] = slow.trials[FROM - LATELY // 2 - 1].but({"finished": 1e6})
    assert affordable(slow) == "usual"


@pytest.fixture
def soon(monkeypatch):
    """Studies of 30 trials are long ones."""
    monkeypatch.setattr(effort, "FROM", 30)
    monkeypatch.setattr("presage.explain.FROM", 30)


def clock(monkeypatch, step):
    """Time goes on by so many seconds whenever somebody looks."""
    ticks = itertools.count()
    monkeypatch.setattr("presage.ledger.time.time", lambda: 1e9 + step * next(ticks))


def run(study, upto):
    while len(study.trials) < upto:
        trial = study.ask()
        study.tell(trial, branin(trial.params))


def test_it_is_on_record_and_replayed(soon, monkeypatch, tmp_path):
    clock(monkeypatch, 0.0)
    path = tmp_path / "a.db"
    study = Study(branin.space, seed=0, storage=path)
    run(study, 36)
    assert [trial.effort for trial in study.trials] == ["usual"] * 30 + ["quick"] * 6
    assert [trial.effort for trial in load_study(path).trials] == [trial.effort for trial in study.trials]
    assert study.trials[-1].to_json()["effort"] == "quick"
    # The rule may change; what was decided then is what is computed again.
    monkeypatch.setattr(effort, "FROM", 10**6)
    assert replay(path, "study").exact


def test_quick_points_come_from_fewer_candidates(soon, monkeypatch):
    clock(monkeypatch, 0.0)
    study = Study(branin.space, seed=0)
    run(study, 30)
    seen = []
    monkeypatch.setattr(ModelBased, "propose", lambda self, *a, **k: seen.append(self.maximiser) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        study.ask()
    usual = ModelBased().maximiser
    assert (seen[0].spread, seen[0].local, seen[0].starts) == (usual.spread // 4, usual.local // 4, 2)


def test_the_same_with_and_without_a_break(soon, monkeypatch, tmp_path):
    clock(monkeypatch, 0.0)
    whole = Study(branin.space, seed=0)
    run(whole, 36)
    run(Study(branin.space, seed=0, storage=tmp_path / "a.db"), 33)
    resumed = load_study(tmp_path / "a.db")
    run(resumed, 36)
    assert [trial.params for trial in resumed.trials] == [trial.params for trial in whole.trials]


def test_usual_where_evaluations_take_long_or_parts_are_named(soon, monkeypatch):
    clock(monkeypatch, 60.0)
    study = Study(branin.space, seed=0)
    run(study, 31)
    assert study.trials[-1].effort == "usual"
    clock(monkeypatch, 0.0)
    named = Study(branin.space, seed=0, acquisition="logei")
    run(named, 31)
    assert named.trials[-1].effort == "usual"


def test_it_explains_itself(soon, monkeypatch):
    clock(monkeypatch, 0.0)
    study = Study(branin.space, seed=0)
    run(study, 29)
    assert "from trial 30 on" in study.explain().choices["time"].why
    run(study, 30)
    said = study.explain()
    assert "fewer candidates" in said.choices["time"].why
    assert said.choices["maximiser"].chosen == "L-BFGS from 2 starts"
    named = Study(branin.space, seed=0, acquisition="logei")
    run(named, 12)
    assert "parts were named" in named.explain().choices["time"].why


def test_an_unknown_effort_is_damage():
    study = Study(branin.space, seed=0)
    study.ask()
    events = study.storage.read(study.name)
    damaged = [e._replace(payload={**e.payload, "effort": "none"}) if e.seq == 2 else e for e in events]
    history = History()
    history.apply(damaged[0])
    with pytest.raises(StorageError, match="effort must be one of"):
        history.apply(damaged[1])
