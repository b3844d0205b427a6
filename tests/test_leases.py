"""Who works on a trial: a worker that is frozen, gone or away loses it, and nothing that it computed is lost."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from presage import leases
from presage.errors import TrialError
from presage.history import History
from presage.leases import Lease, by_hand, gone
from presage.space import Choice, Float, Int, Space
from presage.storage import MemoryStorage, open_storage
from presage.study import Study, load_study
from presage.testing.fleet import Fleet, broken
from presage.testing.postgres import wait_until
from presage.testing.wrapped import Wrapped
from presage.trial import Failure, Outcome

SPACE = Space({"x": Float(0, 1)})


def quick(storage=None, **settings):
    return Study(SPACE, surrogate="random", storage=storage, **{"seed": 0, **settings})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.fixture
def two(path, monkeypatch):
    """Two workers on one file, each a study and its lease; that of the first is never renewed, as if it were frozen."""
    monkeypatch.setattr(leases, "FRESH", 0.0)
    with closing(open_storage(path)) as one, closing(open_storage(path)) as other:
        mine, others = quick(one), quick(other)
        frozen, awake = Lease(one, mine.name, "loop", seconds=0.5), Lease(other, others.name, "loop")
        frozen.forget()
        yield (mine, frozen), (others, awake)
        awake.end()


def test_a_lease_that_runs_out_frees_the_trial(two):
    (mine, frozen), (others, awake) = two
    trial = mine.ask_as(frozen)[0]
    time.sleep(0.6)
    again = others.ask_as(awake)[0]
    assert (again.number, again.attempt) == (0, 2)
    # The first result counts, here that of the worker which had lost it; the second is kept.
    assert mine.tell_outcome(trial, Outcome(3.0), frozen)
    assert not others.tell_outcome(again, Outcome(4.0), awake)
    found = load_study(others.storage).trials[0]
    assert (found.state, found.value) == ("complete", 3.0)
    assert [(late.attempt, late.value, late.counts) for late in found.late] == [(1, 3.0, True), (2, 4.0, False)]
    assert found.to_json()["late"][1] == {"attempt": 2, "value": 4.0, "counts": False}


def test_a_late_failure_is_kept_and_a_late_loss_is_nothing(two):
    (mine, frozen), (others, awake) = two
    trial = mine.ask_as(frozen)[0]
    time.sleep(0.6)
    again = others.ask_as(awake)[0]
    assert not mine.tell_outcome(trial, Outcome(failure=Failure("lost", "its worker died")), frozen)
    assert others.trials[0].state == "running", "somebody else has it"
    assert others.tell_outcome(again, Outcome(4.0), awake)
    assert not mine.tell_outcome(trial, Outcome(failure=Failure("error", "too late")), frozen)
    late = mine.trials[0].late
    assert [(one.value, one.failure.message) for one in late] == [(None, "too late")]
    assert mine.trials[0].value == 4.0


def test_what_is_given_back_must_still_be_ones_own(two):
    (mine, frozen), (others, awake) = two
    trial = mine.ask_as(frozen)[0]
    time.sleep(0.6)
    others.ask_as(awake)
    mine.interrupt(trial, lease=frozen)
    assert mine.trials[0].state == "running"


def test_given_out_three_times_a_trial_is_given_up(path):
    with closing(open_storage(path)) as storage:
        study = quick(storage)
        for attempt in (1, 2, 3):
            lease = Lease(storage, study.name, "loop")
            trial = study.ask_as(lease)[0]
            assert (trial.number, trial.attempt) == (0, attempt)
            lease.end()
            storage.living(study.name)
        last = Lease(storage, study.name, "loop")
        assert study.ask_as(last)[0].number == 1
        assert study.trials[0].failure == Failure("lost", "its worker was lost 3 times")
        assert not study.tell_outcome(trial, Outcome(5.0), lease)
        assert [late.value for late in study.trials[0].late] == [5.0]
        last.end()


def test_a_lease_is_renewed_while_somebody_could_look(path):
    with closing(open_storage(path)) as storage, closing(open_storage(path)) as other:
        study = quick(storage)
        lease = Lease(storage, study.name, "loop", seconds=1.0)
        time.sleep(2.0)
        assert other.living(study.name) == {lease.owner}
        lease.end()
        assert other.living(study.name) == set()
    names = {thread.name for thread in threading.enumerate()}
    memory = quick()
    memory.ask()
    assert {thread.name for thread in threading.enumerate()} == names, "nobody else can look into memory"


def test_after_an_outage_others_get_time_to_say_that_they_live(path, monkeypatch):
    """All leases have run out, as after a minute without the database."""
    monkeypatch.setattr(leases, "FRESH", 0.0)
    with closing(open_storage(path)) as storage:
        study = quick(storage)
        one, two = (Lease(storage, study.name, "loop", seconds=2.0) for _ in range(2))
        for lease in (one, two):
            lease.forget()
            storage.renew(study.name, lease.owner, 0.0)  # as if its time had run out
        assert not two.lost(one.owner), "two had lost its own lease, so it cannot judge yet"
        time.sleep(2.0 / leases.BEATS + 0.1)
        assert two.lost(one.owner)
        one.renew()
        assert not two.lost(one.owner)


def test_beats_end_with_the_study_and_survive_a_storage_that_fails(path, caplog):
    class Failing(Wrapped):
        def renew(self, study, worker, seconds):
            if self.fail:
                raise leases.StorageError("the disk is full")
            return self.storage.renew(study, worker, seconds)

    with closing(open_storage(path)) as inner:
        storage = Failing(inner)
        storage.fail = False
        study = quick(storage)
        lease = Lease(storage, study.name, "loop", seconds=0.4)
        storage.fail = True
        wait_until(lambda: "the disk is full" in caplog.text, 10, "a message")
        storage.fail = False
        wait_until(lambda: inner.living(study.name), 10, "a beat")
        lease.forget()
        hand = weak_hand(study)
        del study
        wait_until(hand.is_set, 10, "the end of the study's own lease")


def weak_hand(study):
    study.ask()
    return study._hand._ended


def test_owners_name_machine_process_and_kind():
    lease = Lease(with_study(), "study", "loop")
    assert not by_hand(lease.owner)
    assert by_hand("old-host:12:34")
    assert by_hand("host/a-b:1:2:hand-00")
    assert not gone(lease.owner)
    machine, pid, birth, token = lease.owner.rsplit(":", 3)
    assert gone(f"{machine}:{pid}:{int(birth or 0) + 1}:{token}") is os.path.isdir("/proc/self")
    assert not gone(f"elsewhere/{machine.partition('/')[2]}:{pid}:1:{token}"), "only its lease can tell"
    for strange in ("", ":", "a:b:c:d", f"{machine}:x:1:loop-1", "1:2"):
        assert not gone(strange)


def with_study():
    storage = MemoryStorage()
    storage.create("study", {})
    return storage


# What optimize waits for.
ASKS = """
import sys, time
from presage.space import Float, Space
from presage.study import Study
study = Study(Space({"x": Float(0, 1)}), surrogate="random", storage=sys.argv[1])
print(study.ask().number, flush=True)
time.sleep(600)
"""


def test_optimize_does_not_wait_for_what_a_living_process_asked_for_and_forgot(path):
    quick(path)
    with subprocess.Popen([sys.executable, "-c", ASKS, str(path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "0\n"
            study = quick(path)
            assert study.optimize(lambda p: p["x"], 3).stopped == "trials"
            assert [trial.state for trial in study.trials] == ["running", "complete", "complete", "complete"]
        finally:
            other.kill()
    assert study.ask().number == 0, "its process is gone"


def test_a_loop_waits_for_the_others_and_takes_over_what_they_lose(path):
    """A finite space: the last point is held by a worker that goes away."""
    space = Space({"n": Int(0, 1), "c": Choice(["a", "b"])})
    with closing(open_storage(path)) as one, closing(open_storage(path)) as other:
        mine, others = (Study(space, surrogate="random", seed=0, storage=storage) for storage in (one, other))
        lease = Lease(other, others.name, "loop")
        held = others.ask_as(lease)[0]
        leaving = threading.Timer(1.0, lease.end)
        leaving.start()
        result = mine.optimize(lambda p: p["n"], 100)
        assert result.stopped == "exhausted"
        assert [trial.state for trial in mine.trials] == ["complete"] * 4
        assert mine.trials[held.number].attempt == 2
        leaving.join()


def test_a_trial_told_by_somebody_else_is_kept_twice_and_counts_once():
    study = quick()

    def objective(params, trial):
        if trial.number == 0:
            study.tell(0, 7.0)
        return 8.0

    study.optimize(objective, 3)
    assert study.trials[0].value == 7.0
    assert [late.value for late in study.trials[0].late] == [8.0]
    with pytest.raises(TrialError, match="told once"):
        study.tell(0, 9.0)


def test_the_time_of_a_trial_handed_out_again_is_that_of_the_last_time():
    study = quick()
    trial = study.ask()
    study.interrupt(trial)
    time.sleep(0.05)
    assert study.ask().suggested >= trial.suggested + 0.05


def test_settings_that_an_existing_study_does_not_have_are_refused(path):
    quick(path, initial=4, replicates=2)
    for given, message in (
        ({"initial": 5}, "its initial must be 4, but got 5"),
        ({"replicates": 1}, "its replicates must be 2, but got 1"),
        ({"seed": 9}, "its seed must be 0, but got 9"),
    ):
        with pytest.raises(ValueError, match=message):
            quick(path, **given)
    assert quick(path, initial=4, replicates=2)._history.header["initial"] == 4
    assert quick(path)._history.header["replicates"] == 2


def test_a_mistyped_path_makes_no_file(tmp_path):
    with pytest.raises(RuntimeError, match=r"must exist to be read, but there is no file .*tpyo\.db"):
        load_study(tmp_path / "tpyo.db")
    assert list(tmp_path.iterdir()) == []


# Real workers.
def test_a_frozen_worker_loses_its_trial_and_its_late_value_is_kept(tmp_path):
    fleet = Fleet(str(tmp_path / "study.db"), tmp_path, trials=4, seconds=1.0, lease=2.0)
    with fleet.at_work():
        fleet.hire(1)
        wait_until(lambda: Path(fleet.storage).exists() and owners(fleet.storage), 60, "the first trial")
        frozen = fleet.living[0]
        frozen.send_signal(signal.SIGSTOP)
        fleet.hire(1)
        wait_until(lambda: frozen not in fleet.living or not owners(fleet.storage), 60, "all of them")
        fleet.reap()
        frozen.send_signal(signal.SIGCONT)
        fleet.wait(60)
    account = fleet.account()
    assert broken(account) == {}, (account, fleet.errors())
    assert account["not stored"] == 0, "every value that was computed is kept"
    assert account["attempts"] == {1: 3, 2: 1}


def owners(place):
    with closing(open_storage(place)) as storage:
        history = History()
        for event in storage.read("fleet") if storage.studies() else []:
            history.apply(event)
        return history.owners


def test_workers_of_one_file_while_some_are_killed(tmp_path):
    check_kills(str(tmp_path / "study.db"), tmp_path)


@pytest.mark.needs("postgres")
def test_workers_of_one_server_while_some_are_killed(empty_postgres, tmp_path):
    check_kills(empty_postgres, tmp_path)


def check_kills(place, folder, workers=3, trials=120, kills=3):
    chance = random.Random(1)
    fleet = Fleet(place, folder, trials=trials, seconds=0.02)
    with fleet.at_work():
        fleet.hire(workers)
        for kill in range(1, kills + 1):
            wait_until(lambda kill=kill: len(fleet.evaluations()) > kill * trials / (kills + 2), 120, "some trials")
            if fleet.kill(chance.choice(fleet.living)):
                fleet.hire()
        fleet.wait(120)
    account = fleet.account()
    assert broken(account) == {}, (account, fleet.errors())
    assert account["workers killed"] >= 1
    # Each worker that was killed may have taken one value with it.
    assert account["evaluations"] - account["trials"] == account["not stored"] <= account["workers killed"]


@pytest.mark.needs("postgres")
def test_workers_while_the_server_restarts(postgres, empty_postgres, tmp_path):
    fleet = Fleet(empty_postgres, tmp_path, trials=60, seconds=0.02)
    with fleet.at_work():
        fleet.hire(2)
        for mode, done in (("fast", 10), ("immediate", 30)):
            wait_until(lambda done=done: len(fleet.evaluations()) > done, 120, "some trials")
            postgres.stop(mode)
            time.sleep(0.5)
            postgres.start()
        fleet.wait(120)
    account = fleet.account()
    assert broken(account) == {}, (account, fleet.errors())
    assert account["evaluations"] == 60, "nothing was computed twice"
