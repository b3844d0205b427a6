"""`presage worker` and `presage replay`, and what they print."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from typer.testing import CliRunner

from presage.cli._app import app
from presage.cli._studies import shown
from presage.space import Float, Space
from presage.storage import open_storage
from presage.study import Study, load_study
from presage.testing.postgres import wait_until

MODULE = """
import os, time
from presage import Float, Space
SPACE = Space({"x": Float(0, 1)})
def f(params):
    time.sleep(float(os.environ.get("NAP", "0")))
    return params["x"]
def best_is_large(params):
    return -params["x"]
def bad(params):
    raise RuntimeError("no luck")
def ruled(params):
    return params["x"]
ruled.space = Space({"x": Float(0, 1)}, constraints=[lambda p: p["x"] < 0.5])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "objective_of_a_worker", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "objective_of_a_worker.py").write_text(MODULE)
    return tmp_path


def presage(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def work(function, *arguments):
    return presage("worker", f"objective_of_a_worker:{function}", "--storage", "study.db", *arguments)


def test_the_first_worker_makes_the_study_and_others_join():
    said = work("f", "--name", "a", "--trials", 3, "--surrogate", "random", "--seed", 5)
    assert said.exit_code == 0, said.output
    assert "Joined study 'a' in study.db: 0 trials done." in said.output
    assert "trial 2: value" in said.output
    said = work("f", "--name", "a", "--trials", 5, "--quiet")
    assert (said.exit_code, said.output) == (0, "")
    study = load_study("study.db", "a")
    assert (len(study.trials), study.seed) == (5, 5)
    assert study._history.settings["surrogate"] == "random", "as it was made"


def test_a_study_may_be_maximised_and_run_on_an_engine():
    said = work(
        "best_is_large", "--maximize", "--trials", 4, "--engine", "threads", "--jobs", 2, "--surrogate", "random"
    )
    assert said.exit_code == 0, said.output
    study = load_study("study.db")
    assert (study.direction, len(study.trials)) == ("maximize", 4)


def test_constraints_are_those_of_the_module():
    for trials in (3, 5):
        assert work("ruled", "--trials", trials, "--surrogate", "random").exit_code == 0
    said = presage("replay", "study", "--storage", "study.db")
    assert (said.exit_code, "pass space= again" in said.output) == (1, True)
    said = presage("replay", "study", "--storage", "study.db", "--objective", "objective_of_a_worker:ruled")
    assert said.output == "All 5 suggestions came out the same.\n"


def test_too_many_failures_end_a_worker():
    said = work("bad", "--surrogate", "random", "--max-failures", 2, "--trials", 9)
    assert said.exit_code == 1
    assert "failed 2 times in a row" in said.output
    assert "RuntimeError: no luck" in said.output


def test_a_worker_needs_a_storage_and_a_function(monkeypatch):
    monkeypatch.delenv("PRESAGE_STORAGE", raising=False)
    assert presage("worker", "objective_of_a_worker:f").exit_code == 2
    assert "there is no 'nowhere'" in presage("worker", "nowhere:f", "--storage", "study.db").output


def test_a_worker_that_is_told_to_end_gives_its_trial_back(folder):
    command = [sys.executable, "-c", "from presage.cli import main; main()", "worker", "objective_of_a_worker:f"]
    environment = os.environ | {"NAP": "60"}
    with subprocess.Popen(
        [*command, "--storage", "study.db", "--surrogate", "random"], env=environment, stderr=subprocess.PIPE, text=True
    ) as worker:
        wait_until(lambda: (folder / "study.db").exists() and owners(), 60, "the first trial")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 128 + signal.SIGTERM
    with closing(open_storage("study.db")) as storage:
        assert storage.living("study") == set()
        assert [trial.state for trial in load_study(storage).trials] == ["waiting"]


def owners():
    with closing(open_storage("study.db")) as storage:
        return load_study(storage)._history.owners if storage.studies() else {}


def test_replay_says_what_came_out_otherwise():
    Study(Space({"x": Float(0, 1)}), storage="study.db", name="tuning", seed=3).optimize(lambda p: p["x"], 8)
    assert presage("replay", "--storage", "study.db").output == "All 8 suggestions came out the same.\n"
    with closing(open_storage("study.db")) as source, closing(open_storage("other.db")) as target:
        snapshot = source.snapshot("tuning")
        events = json.loads(json.dumps(snapshot.events))
        event = next(payload for _, payload in events if payload.get("number") == 6)
        event["params"]["x"] = 0.125
        target.restore("tuning", snapshot._replace(events=[type(snapshot.events[0])(*event) for event in events]))
    said = presage("replay", "tuning", "--storage", "other.db")
    assert said.exit_code == 1
    assert "trial 6: stored x=0.125, computed x=" in said.output
    assert "of 8 suggestions came out otherwise" in said.output


@pytest.mark.parametrize(
    ("place", "as_shown"),
    [
        ("postgresql://me:s3cret@host:5432/db", "postgresql://***@host:5432/db"),
        ("postgresql://me:s3@cr/et@host/db?password=s3cret&sslmode=require", "postgresql://***@host/db"),
        ("--storage=postgresql://me:s3cret@host/db", "--storage=postgresql://***@host/db"),
        ("study.db", "study.db"),
        ("sqlite:///a?mode=ro", "sqlite:///a"),
        ("x={x}?", "x={x}?"),
    ],
)
def test_what_is_shown_of_an_address(place, as_shown):
    assert shown(place) == as_shown
