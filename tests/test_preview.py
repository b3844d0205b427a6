"""Reports of running trials."""

import pickle
import threading

import pytest

import presage.preview as preview
from presage import Float, Study, load_study
from presage.errors import StorageError
from presage.storage import MemoryStorage

SPACE = {"x": Float(0, 1)}


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(preview, "EVERY", 0.0)


def test_others_see_what_a_running_trial_reports(at_once, tmp_path):
    study = Study(SPACE, storage=tmp_path / "s.db", name="s", surrogate="random", seed=0)
    trial = study.ask()
    for step in range(5):
        assert trial.report(step, 1.0 / (1 + step)) == "go"
        (seen,) = load_study(tmp_path / "s.db").trials
        assert seen.state == "running"
        assert seen.reports == [(s, 1.0 / (1 + s)) for s in range(step + 1)] == study.trials[0].reports
    study.tell(trial, 0.2)
    (told,) = load_study(tmp_path / "s.db").trials
    assert told.reports == trial.reports
    assert len(told.reports) == 5


def test_reports_are_sent_now_and_then_and_all_in_the_end(tmp_path):
    study = Study(SPACE, storage=tmp_path / "s.db", name="s", surrogate="random", seed=0)

    def objective(params, trial):
        for step in range(300):
            trial.report(step, float(step))
        return 1.0

    study.optimize(objective, 3, progress=False)
    events = [payload["type"] for _, payload in study.storage.read("s")]
    assert events.count("reported") == 0, "within a second nothing is sent"
    assert [len(trial.reports) for trial in load_study(tmp_path / "s.db").trials] == [300] * 3


def test_a_training_does_not_wait_for_a_suggestion(at_once):
    study = Study(SPACE, storage=MemoryStorage(), surrogate="random", seed=0)
    trial = study.ask()
    with study._lock:
        other = threading.Thread(target=trial.report, args=(1, 0.5))
        other.start()
        other.join(20)
        assert not other.is_alive()
    assert study.trials[0].reports == [(1, 0.5)], "the record shares the list of who asked in this process"
    trial.report(2, 0.25)
    (event,) = [payload for _, payload in study.storage.read(study.name) if payload["type"] == "reported"]
    assert event["reports"] == [[1, 0.5], [2, 0.25]]


def test_a_storage_that_is_gone_is_no_matter_for_a_training(at_once, monkeypatch):
    study = Study(SPACE, storage=MemoryStorage(), surrogate="random", seed=0)
    trial = study.ask()

    def gone(*args, **kwargs):
        raise StorageError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(study.storage, "append", gone)
        trial.report(1, 0.5)
    study.tell(trial, 0.5)
    assert study.trials[0].reports == [(1, 0.5)]


def test_a_trial_that_starts_again_begins_its_curve_again(at_once):
    study = Study(SPACE, storage=MemoryStorage(), surrogate="random", seed=0)
    trial = study.ask()
    trial.report(1, 0.5)
    study.interrupt(trial)
    assert study.trials[0].reports == [(1, 0.5)]
    again = study.ask()
    assert again.number == trial.number
    assert study.trials[0].reports == []
    trial.report(2, 0.1)  # by whoever has it no more
    again.report(1, 0.4)
    study.tell(again, 0.4)
    assert load_study(study.storage).trials[0].reports == [(1, 0.4)]


def test_a_trial_travels_without_its_study(at_once):
    study = Study(SPACE, surrogate="random", seed=0)
    trial = study.ask()
    twin = pickle.loads(pickle.dumps(trial))  # noqa: S301 - our own
    assert twin == trial
    assert twin.live is None
    twin.report(1, 0.5)
    assert study.trials[0].reports == []
    del study
    trial.report(1, 0.5)
    assert trial.reports == [(1, 0.5)]
