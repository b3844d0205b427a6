"""What a new user came upon: mistakes that went unseen, that cost something, or that ended in a traceback."""

import json
import os
import sqlite3
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import presage
from presage import Choice, Float, Int, Space, advice, dimensions, load_study
from presage.advice import StopWhenDone
from presage.benchmarks import records
from presage.errors import PresageError, SpaceError, StudyError
from presage.executors import open_runner
from test_cli import _alone, call, flat  # noqa: F401  # the fixture is used by being there

QUICK = ("--surrogate", "random", "--seed", "1")
MODULES = {
    "one_axis": "import presage\nspace = {'x': presage.Float(0, 1)}\ndef loss(params):\n    return params['x']\n",
    "wider": "import presage\nspace = {'x': presage.Float(0, 2)}\ndef loss(params):\n    return params['x']\n",
    "ruled": (
        "import presage\nSPACE = presage.Space({'x': presage.Float(0, 1)}, constraints=lambda p: p['x'] < 0.5)\n"
        "def loss(params):\n    return params['x']\n"
    ),
    "bare": "def loss(params):\n    return sum(value for value in params.values())\n",
}


@pytest.fixture
def modules(monkeypatch, tmp_path):
    """Objectives in the current folder, imported anew."""
    for name, text in MODULES.items():
        monkeypatch.delitem(sys.modules, f"mends_{name}", raising=False)
        (tmp_path / f"mends_{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def tuned():
    """A study in tune.db that has four values."""
    study = presage.Study(
        Space({"lr": Float(0, 1), "layers": Int(1, 3)}), storage="tune.db", seed=0, surrogate="random"
    )
    study.optimize(lambda params: params["lr"], 4)
    study.storage.close()
    return study


def digest(file):
    return sha256(Path(file).read_bytes()).hexdigest()


# Workers and the study that they join.
def test_a_worker_joins_no_study_of_another_space(modules, tuned):
    said = call("worker", "mends_one_axis:loss", "-s", "tune.db", "-n", 6, code=1).output
    assert "study 'study' exists, so its space must be" in said
    assert len(load_study("tune.db").trials) == 4, "nothing was tried there"
    call("worker", "mends_one_axis:loss", "-s", "x.db", "-n", 1, *QUICK)
    assert "its space must be" in call("worker", "mends_wider:loss", "-s", "x.db", "-n", 2, code=1).output
    assert "its space must be" in call("run", "mends_wider:loss", "-s", "x.db", "-n", 2, code=1).output, "as run"
    assert len(load_study("x.db").trials) == 1


def test_a_worker_joins_studies_that_are_its_own(modules, tuned):
    call("worker", "mends_bare:loss", "-s", "tune.db", "-n", 5)  # a module without a space takes what there is
    assert load_study("tune.db").trials[-1].state == "complete"
    call("worker", "mends_one_axis:loss", "-s", "x.db", "-n", 1, *QUICK)
    said = call("worker", "mends_one_axis:loss", "-s", "x.db", "-n", 2).stderr
    assert "Joined study 'study' in x.db: 1 trial done." in said
    assert "The study has 2 finished trials." in said
    load_study("x.db").update_space(Space({"x": Float(0, 2)}))
    call("worker", "mends_wider:loss", "-s", "x.db", "-n", 3)
    assert len(load_study("x.db").trials) == 3
    assert "its space must be" in call("worker", "mends_one_axis:loss", "-s", "x.db", "-n", 4, code=1).output


def test_constraints_still_are_the_modules_to_give(modules):
    for trials in (1, 2):
        call("worker", "mends_ruled:loss", "-s", "ruled.db", "-n", trials, *QUICK[:2])
    said = call("worker", "mends_bare:loss", "-s", "ruled.db", "-n", 3, code=1).output
    assert "'mends_bare:loss' has none; in its module, write SPACE = presage.Space({...})" in said
    assert "its space must be" in call("worker", "mends_one_axis:loss", "-s", "ruled.db", "-n", 3, code=1).output


def test_maximize_joins_no_study_that_minimises(modules):
    call("worker", "mends_one_axis:loss", "-s", "low.db", "-n", 1, *QUICK)
    said = call("worker", "mends_one_axis:loss", "-s", "low.db", "-n", 2, "--maximize", code=1).output
    assert "its direction must be minimize, but got --maximize" in said
    for flags in (["--maximize"], ["--maximize"], []):
        call("worker", "mends_one_axis:loss", "-s", "high.db", "-n", 1, *QUICK, *flags)
    assert load_study("high.db").direction == "maximize"


def test_what_is_offered_where_there_is_no_space_is_what_the_command_has(modules):
    said = call("worker", "mends_bare:loss", "-s", "new.db", "--name", "tuning", code=1).output
    assert "there is no study 'tuning' in new.db that it could join: give the --name of one or, in its module" in said
    assert "--param" not in said
    assert "give --param NAME=KIND:... or, in its module" in call("run", "mends_bare:loss", code=1).output


# What is told of a study.
def test_show_and_export_tell_the_model_that_is_used(modules):
    call("run", "mends_one_axis:loss", "-s", "s.db", "-n", 2, "-q", *QUICK)
    call("run", "mends_one_axis:loss", "-s", "s.db", "-n", 2, "-q", "--surrogate", "rf", "--acquisition", "lcb")
    assert "surrogate rf, acquisition lcb" in call("show", "-s", "s.db").output
    told = json.loads(call("show", "-s", "s.db", "--json").stdout)
    assert (told["surrogate"], told["acquisition"], told["seed"]) == ("rf", "lcb", 1)
    assert json.loads(call("export", "-s", "s.db", "-f", "json").stdout)["surrogate"] == "rf"


def test_one_is_one(modules):
    call("run", "mends_one_axis:loss", "-s", "s.db", "-n", 1, "-q", *QUICK)
    assert "in s.db: 1 trial done, best" in call("run", "mends_one_axis:loss", "-s", "s.db", "-n", 2).stderr


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["-f", "slices", "-p", "foo"], 1, "--param must be one of lr, layers, but got 'foo'"),
        (["-f", "all", "-p", "foo"], 1, "--param must be one of lr, layers, but got 'foo'"),
        (
            ["-f", "history", "-p", "lr"],
            2,
            "posterior takes 1, steps takes 1, animation takes 1, contour takes 2, other",
        ),
        (["-f", "posterior", "-p", "lr", "-p", "layers"], 2, "but got lr, layers; leave out what is too many"),
    ],
)
def test_a_parameter_that_no_figure_uses_is_a_mistake(tuned, flags, code, said):
    assert said in flat(
        call("plot", "-s", "tune.db", *flags, "-o", "f.png" if "all" not in flags else "f", code=code).output
    )
    assert not Path("f.png").exists()


def test_parameters_that_a_figure_uses_are_fine(tuned):
    call("plot", "-s", "tune.db", "-f", "contour", "-p", "lr", "-p", "layers", "-f", "history", "-o", "figs")
    assert {path.name for path in Path("figs").iterdir()} == {"study-contour.png", "study-history.png"}


def test_an_export_is_what_its_files_name_says(tuned):
    call("export", "-s", "tune.db", "-o", "a.json")
    assert len(json.loads(Path("a.json").read_text())["trials"]) == 4
    for flags in (["-o", "b.csv"], ["-o", "b.txt"], ["-f", "csv", "-o", "b.json"]):
        call("export", "-s", "tune.db", *flags)
        assert Path(flags[-1]).read_text().startswith("number,state,value,lr,layers")
    call("export", "-s", "tune.db", "-f", "json", "-o", "c.csv")
    assert json.loads(Path("c.csv").read_text())["name"] == "study"


# Optuna.
@pytest.mark.needs("optuna")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_import_writes_nothing_into_a_source_that_is_not_optunas(tuned):
    with sqlite3.connect("other.db") as other:
        other.execute("CREATE TABLE studies (id INTEGER)")
    other.close()
    for file, more in (("tune.db", "; it is one of presage's"), ("other.db", "")):
        before = digest(file)
        said = call("import", f"sqlite:///{file}", "-s", "new.db", code=1).output
        assert f"but sqlite:///{file} is no Optuna storage{more}" in said
        assert digest(file) == before
    assert {path.name for path in Path().iterdir()} == {"tune.db", "other.db"}
    Path("text.db").write_text("this is no database, however long one looks at it")
    assert "must be readable" in call("import", "sqlite:///text.db", "-s", "new.db", code=1).output


@pytest.mark.needs("optuna")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_export_to_optuna_takes_a_file_and_explains_what_cannot_be(tuned):
    said = call("export", "-s", "tune.db", "--format", "optuna", "--to", "shown.db").stderr
    assert "4 trials of 'study' written to shown.db." in said
    back = call("import", "sqlite:///shown.db", "-s", "back.db").output
    assert "'study' in back.db: 4 trials, 4 with a value." in back
    call("import", "shown.db", "-s", "back.db", "--name", "again")
    assert load_study("back.db", "again").best.value == tuned.best.value
    for place in ("sqlite:////nosuch/x.db", "nosuch/x.db", "nonsense://x"):
        said = call("export", "-s", "tune.db", "--format", "optuna", "--to", place, code=1).output
        assert "an Optuna storage must be writable, but: " in said
    assert "--format optuna needs --to" in flat(call("export", "-s", "tune.db", "-f", "optuna", code=2).output)
    assert "goes with --format optuna only" in flat(call("export", "-s", "tune.db", "--to", "x.db", code=2).output)


@pytest.mark.needs("optuna")
def test_a_sampler_takes_a_dictionary_of_dimensions():
    from optuna.distributions import CategoricalDistribution, IntDistribution
    from optuna.logging import WARNING, set_verbosity
    from optuna.study import create_study

    from presage.integrations.optuna import PresageSampler

    set_verbosity(WARNING)
    axes = {"x": Float(0, 1), "c": presage.Constant(3)}
    found = []
    for space in (axes, Space(axes)):
        study = create_study(sampler=PresageSampler(seed=0, space=space))
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
        found.append([trial.params for trial in study.trials])
    assert found[0] == found[1]
    assert PresageSampler(space={"x": Float(0, 1), "n": IntDistribution(1, 3)})._space == Space(
        {"x": Float(0, 1), "n": Int(1, 3)}
    )
    for space, said in (
        ([1], r"space must be a presage.Space, or a dictionary .* but got \[1\]"),
        ({"x": 1}, "but got 1 for 'x'"),
        ({}, "non-empty dictionary"),
        ({"c": CategoricalDistribution(["a"])}, "must have a distribution that varies"),
    ):
        with pytest.raises(SpaceError, match=said):
            PresageSampler(space=space)
    for seed in ("a", 1.5, float("inf"), float("nan"), True, -1, [1]):
        with pytest.raises(StudyError, match="seed must be a whole number of 0 or more"):
            PresageSampler(seed=seed)
    assert (PresageSampler(seed=3.0)._seed, PresageSampler(seed=np.int64(3))._seed) == (3, 3)


# Folders are looked at before anything is computed.
@pytest.mark.parametrize("place", ["file", "file/inside"])
def test_results_need_a_folder_before_they_are_made(place, monkeypatch):
    Path("file").write_text("")
    monkeypatch.setattr("presage.benchmarks.runner.run", None)  # that is too late
    monkeypatch.setattr("presage.experiments.base.run", None)
    for command in (
        ["bench", "run", "-p", "branin", "-m", "random", "-s", "0"],
        ["bench", "ablate", "-s", "0:1"],
        ["bench", "latency", "-m", "presage:gp"],
        ["reproduce", "s3", "--quick"],
        ["reproduce", "s5", "--quick"],
    ):
        said = flat(call(*command, "--out", place, code=2).output)
        assert f"it must be a folder, but {place} is none" in said
    with pytest.raises(PresageError, match="results are kept in a folder, but file is a file"):
        records.done(Path(place), ["random"], {"branin": 30})
    assert records.done(Path("new/folder"), ["random"], {"branin": 30}) == set()


def test_figures_of_a_benchmark_need_a_folder():
    made = {
        "problem": "branin",
        "method": "random",
        "seed": 0,
        "trials": 2,
        "regret": [2.0, 1.0],
        "seconds": [0.1, 0.1],
    }
    records.append(Path("b1"), made)
    Path("file").write_text("")
    for place in ("file", "file/x"):
        said = flat(call("bench", "plot", "--out", "b1", "--to", place, code=2).output)
        assert f"it must be a folder, but {place} is none" in said


def test_a_list_that_has_a_default_is_not_all_there_is():
    assert "All that" not in flat(call("bench", "run", "--help").output)
    assert "All that have results, if left out." in flat(call("bench", "table", "--help").output)


# Mistakes in Python cost no evaluation.
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"target": "a"}, "target must be a number, but got 'a'"),
        ({"target": float("nan")}, "target must be a number, but got nan"),
        ({"trials": "5"}, "trials must be a number, but got '5'"),
        ({"seconds": "1"}, "seconds must be a number, but got '1'"),
        ({"patience": True}, "patience must be a number, but got True"),
        ({"max_failures": None}, "max_failures must be a number, but got None"),
        ({"lease": "1"}, "lease must be a number, but got '1'"),
        ({"seconds": 0}, "seconds > 0 must hold, but got 0"),
        ({"timeout": "1"}, "timeout must be a positive number of seconds, but got timeout='1'"),
        ({"callbacks": [3]}, "a callback must be a function of study and trial, but got 3"),
        ({"callbacks": print}, "callbacks must be a list of functions of study and trial, but got <built-in function"),
    ],
)
def test_a_run_looks_at_its_rules_before_it_begins(wrong, said):
    tried = []
    with pytest.raises(StudyError, match=said):
        presage.minimize(tried.append, {"x": Float(0, 1)}, **{"trials": 3, "progress": False, **wrong})
    assert tried == []


def test_rules_may_be_numbers_of_numpy():
    result = presage.minimize(
        lambda params: params["x"], {"x": Float(0, 1)}, np.int64(50), seconds=np.float32(60), target=np.array(0.9),
        seed=0, surrogate="random", progress=False, callbacks=iter([lambda study, trial: None]),
    )  # fmt: skip
    assert result.stopped == "target"


def test_timeouts_are_numbers():
    for wrong in ("1", True, float("nan"), float("inf"), -1):
        with pytest.raises(StudyError, match="timeout must be a positive number of seconds"):
            open_runner("processes", 1, wrong)


def test_looking_needs_a_study():
    for wrong in (None, "study.db", Float(0, 1)):
        with pytest.raises(StudyError, match=r"a Study, a Result or a Record is needed, but got .*load_study"):
            presage.plots.history(wrong)
    for wrong in ("a", 0, float("nan"), True):
        with pytest.raises(StudyError, match="worth > 0 must hold, but got"):
            advice.remaining(presage.Study({"x": Float(0, 1)}, seed=0), worth=wrong)
        with pytest.raises(StudyError, match="worth > 0 must hold, but got"):
            StopWhenDone(worth=wrong)
    for wrong in ({"probability": "a"}, {"patience": None}, {"after": "3"}):
        with pytest.raises(StudyError, match=f"{next(iter(wrong))} must be a number"):
            StopWhenDone(**wrong)


def test_constraints_are_callables_one_or_many():
    axes = {"x": Float(0, 1)}

    def half(params):
        return params["x"] < 0.5

    assert Space(axes, constraints=half).constraints == (half,) == Space(axes, constraints=[half]).constraints
    with pytest.raises(SpaceError, match="constraints must be a list of callables, but got 3"):
        Space(axes, constraints=3)
    with pytest.raises(SpaceError, match="a constraint must be callable"):
        Space(axes, constraints=[3])


def test_log_is_true_or_false():
    for wrong in ("no", 1, None, 0.0):
        for kind in (Float, Int):
            with pytest.raises(SpaceError, match="log must be True or False, but got"):
                kind(1, 8, log=wrong)
    assert Float(1, 2, log=np.bool_(True)) == Float(1, 2, log=True)
    assert Float(1, 2, log=np.bool_(False)).to_json() == Float(1, 2).to_json()
    old = {"type": "Float", "low": 1.0, "high": 2.0, "log": "no"}  # a study that was made with it can still be read
    assert dimensions.from_json(old) == Float(1, 2, log=True)


def test_options_have_an_order():
    for wrong in ({"relu", "tanh"}, frozenset({1, 2})):
        with pytest.raises(SpaceError, match="in an order that stays, but got the set"):
            Choice(wrong)
    assert Choice({"relu": 0, "tanh": 1}.keys()).options == ("relu", "tanh")


def test_a_condition_that_is_a_set_is_the_same_in_every_process():
    code = (
        "from presage import Choice, Float, Space\n"
        "options = [*'abcdefgh']\n"
        "axes = {'c': Choice(options), 'x': Float(0, 1, when={'c': set(options[::-1])})}\n"
        "print(Space(axes).to_json()['dimensions'][1][1]['when']['c'])"
    )
    for seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
        assert told.stdout.strip() == str([*"abcdefgh"])
