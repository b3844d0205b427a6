"""Workers of one SQLite study are killed at random moments: nothing told is lost, no trial is run by two at once."""

import sqlite3
from contextlib import closing

import pytest

import presage.testing.kills as kills
from presage.history import History
from presage.space import Float, Space
from presage.storage import Event, open_storage
from presage.study import Study
from presage.testing.kills import Report, integrity, kill_test
from presage.testing.wrapped import Wrapped


def test_nothing_is_lost_in_thirty_kills(tmp_path):
    path = tmp_path / "study.db"
    report = kill_test(path, kills=30, workers=4, seed=1, sound=lambda: integrity(path))
    assert report.broken == {}
    assert report.kills == 30
    assert report.told >= report.acknowledged > 0
    assert all(report.checks[rule] for rule in kills.RULES if rule != "a trial is lost only with three workers")


# The tool must see what it is there to see.
def damaging(path, statement):
    """Called after each kill; damages the storage once there is something to damage."""

    def tamper():
        with closing(sqlite3.connect(path, timeout=30)) as raw:
            raw.execute(statement)
            raw.commit()

    return tamper


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("UPDATE presage_events SET payload = json_set(payload, '$.values', json('[2.0]')) "
         "WHERE payload LIKE '%\"told\"%'", "no told value is lost"),
        ("DELETE FROM presage_events WHERE seq = 2", "the storage opens and replays"),
    ],
)  # fmt: skip
def test_the_tool_notices_a_storage_that_forgets(tmp_path, statement, rule):
    path = tmp_path / "study.db"
    report = kill_test(path, kills=5, workers=2, sound=damaging(path, statement))
    assert report.faults[rule]
    assert report.kills < 5


def test_the_tool_notices_damage(tmp_path):
    path = tmp_path / "study.db"

    def sound():
        raise RuntimeError("a page is torn")

    report = kill_test(path, kills=5, workers=2, sound=sound)
    assert report.broken == {"the storage finds itself sound": ["RuntimeError('a page is torn')"]}


def suggested(number, owner="a"):
    return {"type": "suggested", "number": number, "owner": owner}


def started(number, owner):
    return {"type": "started", "number": number, "owner": owner}


def told(number):
    return {"type": "told", "number": number, "values": [0.5]}


lost = {"type": "failed", "number": 0, "kind": "lost"}


@pytest.mark.parametrize(
    ("payloads", "rule"),
    [
        ([suggested(0), started(0, "b"), started(0, "c"), told(0), suggested(1, "d")], None),
        ([suggested(0), started(0, "b"), started(0, "c"), lost], None),
        ([suggested(0), suggested(0)], "no trial number is used twice"),
        ([suggested(0), suggested(2)], "no trial number is used twice"),
        ([suggested(0), told(0), told(0)], "no trial is told twice"),
        ([suggested(0), told(0), lost], "no trial is told twice"),
        ([suggested(0, "d"), started(0, "a")], "no trial is taken from a living worker"),
        ([suggested(0), told(0), started(0, "b")], "no trial is taken from a living worker"),
        ([suggested(0), started(0, "b"), lost], "a trial is lost only with three workers"),
        ([suggested(0), started(0, "b"), started(0, "d"), lost], "a trial is lost only with three workers"),
    ],
)
def test_the_tool_knows_the_rules_of_trials(payloads, rule):
    report = Report()
    kills._Account(report, {"a", "b", "c"}).take([Event(seq, payload) for seq, payload in enumerate(payloads, 2)])
    assert rule in report.broken if rule else not report.broken


# Two processes that find the same orphan, interleaved as a scheduler might.
class Delayed(Wrapped):
    """Lets somebody else go first, once, before an event of a certain type is appended."""

    def __init__(self, storage, kind, first):
        super().__init__(storage)
        self.kind, self.first = kind, first

    def append(self, study, payloads, *, claims=(), state=None):
        payloads = list(payloads)
        if self.first and any(payload["type"] == self.kind for payload in payloads):
            first, self.first = self.first, None
            first()
        return self.storage.append(study, payloads, claims=claims, state=state)


SPACE = Space({"x": Float(0, 1)})


def shared(deaths):
    """A storage with a study whose trial 0 was left behind by so many workers that are lost."""
    storage = open_storage(None)
    for _ in range(deaths):
        study = Study(SPACE, surrogate="random", seed=0, storage=storage)
        assert study.ask().number == 0
        storage.renew(study.name, study._hand.owner, 0.0)
    return storage


def opened(storage):
    return Study(SPACE, surrogate="random", storage=storage)


def test_an_orphan_is_given_to_one_of_two():
    storage = shared(deaths=1)
    fast = opened(storage)

    def go_first():
        fast.tell_many([{"x": 0.5}], [1.0])  # so that the two have seen different last events
        assert fast.ask().number == 0

    slow = opened(Delayed(storage, "started", go_first))
    assert slow.ask().number == 2
    fast.tell(0, 1.0)
    assert [trial.state for trial in slow.trials] == ["complete", "complete", "running"]


def test_an_orphan_that_is_given_up_by_two_at_once_is_given_up():
    storage = shared(deaths=3)
    fast = opened(storage)
    slow = opened(Delayed(storage, "failed", lambda: fast.ask()))
    assert slow.ask().number == 2
    assert [trial.state for trial in slow.trials] == ["failed", "running", "running"]


def test_an_orphan_told_at_the_last_moment_is_not_run_again():
    storage = shared(deaths=1)
    slow = opened(Delayed(storage, "started", lambda: opened(storage).tell(0, 1.0)))
    assert slow.ask().number == 1
    assert [trial.state for trial in slow.trials] == ["complete", "running"]


def test_interrupted_again_and_again_a_trial_is_still_handed_out():
    study = Study(SPACE, surrogate="random", seed=0)
    study.enqueue({"x": 0.5})
    for _ in range(5):
        trial = study.ask()
        assert trial.number == 0
        study.interrupt(trial)
    study.tell(0, 1.0)
    assert study.ask().number == 1


def test_what_comes_after_the_end_of_a_trial_does_not_undo_it():
    study = Study(SPACE, surrogate="random", seed=0)
    study.tell(study.ask(), 1.0)
    events = study.storage.read(study.name)
    for payload in (
        {"type": "started", "number": 0, "attempt": 2, "owner": "late:1:1", "at": 0.0},
        {"type": "interrupted", "number": 0, "lost": True, "at": 0.0},
    ):
        history = History()
        for event in [*events, Event(len(events) + 1, payload)]:
            history.apply(event)
        assert history.trials == study.trials
        assert history.owners == {}
