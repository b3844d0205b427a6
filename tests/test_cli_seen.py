"""Commands for looking: plot, report, doctor, init, settings from files and the environment, and the live view."""

import json
import os
import re
import shutil
import sys
import time
from importlib.metadata import metadata

import pytest

import presage
from presage import Choice, Float, Space
from presage.cli import _app
from presage.progress import Live, sparkline
from presage.report import html
from presage.storage.schema import VERSION
from test_cli import _alone, call, flat  # noqa: F401  # the fixture is used by being there

HOSTILE = "<script>x</script>&\x1b[31m"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Quick to look at: random suggestions, one failure, names that mean harm."""
    made = presage.Study(
        Space({"x": Float(0, 1), HOSTILE: Choice([HOSTILE, "b"])}), storage=tmp_path_factory.mktemp("s") / "s.db",
        name="../a b", seed=0, initial=4, surrogate="random",
    )  # fmt: skip

    def loss(params):
        if params["x"] > 0.9:
            raise ValueError(HOSTILE)
        return params["x"] ** 2

    made.enqueue({"x": 0.95, HOSTILE: "b"})
    made.optimize(loss, trials=9)
    made.note(HOSTILE)
    return made


@pytest.fixture
def study(made):
    """The study, as s.db in the current folder."""
    made.storage.close()
    shutil.copy(made.storage.place, "s.db")
    return made


def test_plot_writes_the_figures_that_are_asked_for(study):
    result = call("plot", "--storage", "s.db")
    assert result.stdout == "a_b-history.png\n"
    with open("a_b-history.png", "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"
    files = json.loads(call("plot", "-s", "s.db", "-f", "parallel", "-f", "timeline", "-o", "figs", "--json").stdout)[
        "files"
    ]
    assert files == ["figs/a_b-parallel.png", "figs/a_b-timeline.png"]
    assert all(os.path.getsize(file) > 1000 for file in files)
    call("plot", "-s", "s.db", "-f", "posterior", "-p", HOSTILE, "-o", "p.svg")
    with open("p.svg") as file:
        assert "<script>" not in file.read()


def test_plot_says_what_is_wrong(study):
    assert "several figures need a folder" in flat(
        call("plot", "-s", "s.db", "-f", "all", "-o", "x.png", code=2).output
    )
    assert "png, svg or pdf" in flat(call("plot", "-s", "s.db", "-o", "x.exe", code=2).output)
    assert "must be one of" in flat(
        call("plot", "-s", "s.db", "-f", "posterior", "-p", "no", "-o", "x.png", code=1).output
    )
    assert "no study" in call("plot", "nothing", "-s", "s.db", code=1).output
    call("plot", "-s", "missing.db", code=1)
    call("plot", "-s", "s.db", "-f", "nonsense", code=2)


def test_a_report_is_one_file_and_its_texts_are_texts(study):
    told = json.loads(call("report", "-s", "s.db", "--json").stdout)
    assert told["file"] == "a_b.html"
    with open("a_b.html", encoding="utf-8") as file:
        text = file.read()
    assert "<script" not in text.lower()
    assert "\x1b" not in text
    assert text.count("&lt;script&gt;x&lt;/script&gt;&amp;") >= 4  # parameter, option, error, note
    assert not re.search(r'(src|href)=(?!"data:)', text)
    assert "http:" not in text.replace("http-equiv", "")
    assert "https:" not in text
    assert text.count("data:image/png;base64,") >= 6
    assert repr(study.best.value) in text


def test_a_report_of_a_study_that_has_hardly_begun():
    empty = presage.Study(Space({"x": Float(0, 1)}), seed=0, name="new")
    text = html(empty)
    assert "No trial has a value yet" in text
    assert "data:image/png" in text  # the empty history
    assert "Left out" in text


def test_doctor_tells_and_fails_where_something_is_broken(study):
    found = json.loads(call("doctor", "--no-devices", "--json", "-s", "s.db").stdout)
    assert found["versions"]["presage"] == presage.__version__
    assert found["storage"]["studies"] == 1
    assert found["storage"]["events"] == len(study.storage.read("../a b"))
    assert found["speed"]["suggestion_ms"] > 0
    assert found["problems"] == []
    declared = set(metadata("presage").get_all("Provides-Extra") or ()) - {"dev", "docs", "peers"}
    assert set(found["extras"]) == declared
    with open("broken.db", "w") as file:
        file.write("this is no database, however long one looks at it")
    result = call("doctor", "--no-devices", "-s", "broken.db", code=1)
    assert "file of another kind" in flat(result.output)


def test_init_writes_settings_that_are_read():
    call("init", "--storage", "mine.db", "--trials", "4")
    call("run", "-p", "x=float:0:1", "--surrogate", "random", "--", sys.executable, "-ISc", "print({x})")
    shown = json.loads(call("show", "--json").stdout)
    assert shown["complete"] == 4
    assert os.path.exists("mine.db")
    assert "must not be there yet" in flat(call("init", code=1).output)
    assert json.loads(call("init", "--force", "--json").stdout) == {"file": "presage.toml"}


def test_flags_win_over_the_environment_and_that_over_the_file():
    with open("presage.toml", "w") as file:
        file.write(
            'storage = "file.db"\n[run]\ntrials = 2\nmax-failures = 3\nparam = ["x=float:0:1"]\nsurrogate = "random"\n'
        )
    command = ["--", sys.executable, "-ISc", "print({x})"]

    def trials(*flags, **env):
        result = call("run", *flags, "--json", *command, env=env)
        return json.loads(result.stdout)["trials"]

    assert trials() == 2
    assert trials(PRESAGE_RUN_TRIALS="3") == 3
    assert trials("--trials", "4", PRESAGE_RUN_TRIALS="3") == 4
    assert trials(PRESAGE_RUN_TRIALS="5", PRESAGE_STORAGE="env.db") == 5
    assert os.path.exists("file.db")
    assert os.path.exists("env.db")
    assert trials("--name", "other", PRESAGE_RUN_PARAM="x=float:0:1") == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("trials = [", "must be TOML"),
        ("[walk]\ntrials = 1", "a section must be one of"),
        ("[run]\ntrails = 1", "but got 'trails'"),
        ("colour = 1", "no command has an option 'colour'"),
        ('[run]\ntrials = "many"', "Invalid value for '--trials'"),
    ],
)
def test_settings_that_are_wrong_are_wrong_usage(text, says):
    with open("presage.toml", "w") as file:
        file.write(text)
    result = call("run", "-p", "x=float:0:1", "--", sys.executable, "-ISc", "print({x})", code=2)
    assert says in flat(result.output)
    assert "cannot read" in flat(call("--config", "nowhere.toml", "list", code=2).output)


def test_every_command_has_an_example_and_json():
    names = [command.__name__.partition("_")[0] for command in _app.COMMANDS]
    for name in (*names, "storage check", "storage upgrade", "storage copy"):
        text = flat(call(*name.split(), "--help").output)
        assert re.search(rf"Examples?: presage {name}", text), name
        assert "--json" in text, name


def test_storages_and_replays_as_json(study):
    assert json.loads(call("storage", "check", "--json", "-s", "s.db").stdout) == {
        "problems": [], "studies": {"../a b": []}
    }  # fmt: skip
    events = len(study.storage.read(study.name))
    assert json.loads(call("storage", "copy", "t.db", "--json", "-s", "s.db").stdout) == {"../a b": events}
    assert json.loads(call("storage", "upgrade", "--json", "-s", "t.db").stdout)["is"] == VERSION
    found = json.loads(call("replay", "--json", "-s", "s.db").stdout)
    assert found["exact"]
    assert found["suggestions"] == 8  # one of nine was enqueued
    assert found["differences"] == []


def test_settings_reach_the_commands_inside_a_group(study):
    with open("presage.toml", "w") as file:
        file.write('storage = "s.db"\n')
    assert "sound" in call("storage", "check").stdout
    assert "there is no file other.db" in flat(call("storage", "check", "-s", "other.db", code=1).stderr)


def test_a_trial_whose_worker_has_left_is_waiting():
    study = presage.Study(Space({"x": Float(0, 1)}), storage="s.db", surrogate="random")
    study.ask()
    assert json.loads(call("show", "--json", "-s", "s.db").stdout)["running"] == 1
    study._hand.end()
    for command in ("show", "list"):
        found = json.loads(call(command, "--json", "-s", "s.db").stdout)
        found = found[0] if command == "list" else found
        assert (found["running"], found["waiting"]) == (0, 1)
    assert "1 waiting" in html(study)


def test_completion_can_be_installed():
    assert "--install-completion" in flat(call("--help").output)


def test_a_run_ends_when_little_is_left_to_gain():
    told = json.loads(
        call("run", "presage.functions:forrester", "-n", "60", "--seed", "0", "--worth", "0.05", "--json").stdout
    )
    assert told["stopped"] == "callback"
    assert told["trials"] < 60
    assert told["best"]["value"] < -6.0
    assert "worth > 0" in flat(call("run", "presage.functions:forrester", "--worth", "-1", code=2).output)


# The live view.
def test_sparklines():
    assert sparkline([]) == ""
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert len(sparkline([float(i) for i in range(1000)], 20)) == 20
    assert sparkline([3.0, 2.0, 1.0])[0] == "█"
    assert sparkline([3.0, 2.0, 1.0])[-1] == "▁"


def test_the_live_view_shows_the_best_the_outlook_and_what_runs(monkeypatch):
    from rich.console import Console

    study = presage.Study(Space({"x": Float(0, 1), HOSTILE: Choice(["[red]a", "b"])}), seed=0)
    for _ in range(8):
        trial = study.ask()
        study.tell(trial, trial.params["x"])
    view = Live(study, 20)
    view.began = time.monotonic() - 100.0
    view.update(study, study.trials[-1])
    study.ask()
    study.control("pause")
    console = Console(width=160, record=True, force_terminal=False, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        console.print(view)
        text = console.export_text()
    assert "8/20" in text
    assert f"best {study.best.value:.6g}" in text
    assert "chance of more than" in text
    assert re.search(r"\b8\s+\d+ s\s+x=", text)
    assert "\x1b" not in text
    assert "paused" in text
