"""Trials from CSV and scikit-optimize, and both ways to Optuna, from Python and on the command line."""

import doctest
import importlib
import json
import math
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import presage
from presage import Choice, Constant, Float, Int, Space
from presage.audit import audit
from presage.cli._app import app
from presage.cli._output import clean
from presage.errors import SpaceError, StudyError
from presage.integrations import MissingPackage, require
from presage.integrations.records import Record, study_of
from presage.integrations.skopt import from_skopt
from presage.integrations.tables import from_csv
from presage.table import as_csv
from presage.trial import Failure

SPACE = Space({
    "lr": Float(1e-5, 0.1, log=True), "value": Int(1, 8), "act": Choice(["relu", "007", None, (1, 2)]),
    "width": Int(8, 64, step=8, when={"act": "relu"}), "k": Constant("c, d"),
})  # fmt: skip


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(clean(result.output).replace("│", " ").split())


def made(tmp_path):
    """A study with one of every kind of trial."""
    study = presage.Study(SPACE, direction="maximize", seed=3, storage=tmp_path / "ours.db", name="tuning")
    for i in range(6):
        trial = study.ask()
        if i == 2:
            study.tell(trial, failed='a "quoted", long\nreason')
        elif i == 4:
            study.tell(trial, math.nan)
        else:
            trial.report(0, 0.5)
            study.tell(trial, i / 7, stddev=0.1 if i == 1 else None, metrics={"size": 10.0 + i, "lr": 2.0})
    study.enqueue({"lr": 0.01, "value": 2, "act": "007"})
    return study


def same(one, other, *fields):
    for a, b in zip(one.trials, other.trials, strict=True):
        for field in ("number", "params", "state", "values", "stddev", "metrics", *fields):
            assert getattr(a, field) == getattr(b, field), field
        for moment in ("suggested", "finished"):  # in CSV to the microsecond
            x, y = getattr(a, moment), getattr(b, moment)
            assert (x is None) == (y is None)
            assert x is None or abs(x - y) < 2e-6
        assert (a.failure and (a.failure.kind, a.failure.message)) == (
            b.failure and (b.failure.kind, b.failure.message)
        )


def test_an_exported_table_comes_back(tmp_path):
    study = made(tmp_path)
    (tmp_path / "t.csv").write_text(as_csv(study._history), newline="")
    again = from_csv(tmp_path / "t.csv", space=SPACE, direction="maximize", storage=tmp_path / "again.db")
    assert again.name == "t"
    same(study, again)
    assert again.best.number == study.best.number
    assert audit(again.storage, "t") == []
    assert as_csv(again._history).count("\n") == as_csv(study._history).count("\n")


def test_anybodys_table_has_the_space_of_its_rows(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text(
        "\ufefflr,layers,opt,seed,loss\n0.1,2,adam,1,0.5\n.01,3,sgd,1,0.25\n\n1e-3,2,adam,1,nan\n0.5,4,sgd,1,\n"
    )
    study = from_csv(file, value="loss", seed=0)
    assert study.space == Space({
        "lr": Float(0.001, 0.5), "layers": Int(2, 4), "opt": Choice(["adam", "sgd"]), "seed": Constant(1)
    })  # fmt: skip
    assert [t.state for t in study.trials] == ["complete", "complete", "failed", "waiting"]
    assert study.best.params == {"lr": 0.01, "layers": 3, "opt": "sgd", "seed": 1}
    assert study.ask().params["lr"] == 0.5  # the row without a value is tried first
    assert study.ask().number == 4


@pytest.mark.parametrize(
    ("text", "space", "error"),
    [
        ("", None, "has no rows"),
        ("x,loss\n", None, "has no rows"),
        ("x,y\n1,2\n", None, "must be in a column 'loss', but .* has ['x', 'y']"),
        ("x,x,loss\n1,2,3\n", None, "names that differ"),
        ("x,loss\n1,2,3\n", None, "must have 2 cells, but row 2 .* has 3"),
        ("x,loss\n1,low\n2,1\n", None, "row 2: could not convert string to float: 'low'"),
        ("x,y,loss\n1,,2\n2,3,4\n", None, "'y' is empty in row 2"),
        ("x,loss\n1,2\n9,2\n", {"x": Float(0, 5)}, "row 3: 'x'"),
        ("x,loss\n1,2\n", {"x": Float(0, 5), "y": Float(0, 1)}, "no column for ['y']"),
        ("x,y,loss\n1,2,3\n", {"x": Float(0, 5)}, "columns ['y'], which are no params"),
    ],
)
def test_tables_that_make_no_sense(tmp_path, text, space, error):
    (tmp_path / "t.csv").write_text(text)
    wanted = error.replace("[", r"\[").replace("]", r"\]")
    with pytest.raises((StudyError, SpaceError), match=wanted):
        from_csv(
            tmp_path / "t.csv", value="loss", space=None if space is None else Space(space), storage=tmp_path / "s.db"
        )
    assert not (tmp_path / "s.db").exists()  # nothing of it is kept


def test_all_or_nothing_and_never_over_another(tmp_path):
    space, rows = (
        Space({"x": Float(0, 1)}),
        [Record({"x": 0.5}, 1.0), Record({"x": 0.25}, failure=Failure("error", "no"))],
    )
    with pytest.raises(StudyError, match="trial 2 must be one"):
        study_of(space, [*rows, Record({"x": 3.0}, 1.0)], storage=tmp_path / "s.db")
    study = study_of(space, rows, storage=tmp_path / "s.db", notes=["hello"])
    assert [note["text"] for note in study.notes] == ["hello"]
    with pytest.raises(presage.PresageError, match="must be new"):
        study_of(space, rows, storage=tmp_path / "s.db")


# scikit-optimize. A stand-in with its attributes, and the real one where it is.
class Real(SimpleNamespace):
    pass


class Integer(SimpleNamespace):
    pass


def test_a_result_of_scikit_optimize():
    axes = [
        Real(name="C", low=1e-6, high=100.0, prior="log-uniform"),
        Integer(name="degree", low=1, high=8, prior="uniform"),
        SimpleNamespace(name="kernel", categories=("linear", "rbf")), Real(name=None, low=0, high=1, prior="uniform"),
    ]  # fmt: skip
    points = [[100.0 * (1 + 1e-12), 3, "rbf", 0.5], [1e-6, 8, "linear", 0.25]]
    result = SimpleNamespace(space=SimpleNamespace(dimensions=axes), x_iters=points, func_vals=[0.5, math.inf])
    study = from_skopt(result, name="svm", seed=1)
    assert study.space == Space({
        "C": Float(1e-6, 100, log=True), "degree": Int(1, 8), "kernel": Choice(["linear", "rbf"]), "x3": Float(0, 1)
    })  # fmt: skip
    assert study.best.params == {"C": 100.0, "degree": 3, "kernel": "rbf", "x3": 0.5}
    assert study.trials[1].failure.kind == "invalid"
    with pytest.raises(StudyError, match="must have space"):
        from_skopt({"x": 1})


@pytest.mark.needs("skopt")
@pytest.mark.filterwarnings("ignore")
def test_a_real_result_of_scikit_optimize():
    from skopt.space import Categorical, Integer, Real
    from skopt.space import Space as Theirs
    from skopt.utils import create_result

    axes = [Real(1e-6, 1e2, "log-uniform", name="C"), Integer(1, 8, name="n"), Categorical(["a", "b"], name="c")]
    points = Theirs(axes).rvs(30, random_state=0)
    result = create_result(points, [point[0] + point[1] for point in points], Theirs(axes))
    study = from_skopt(result)
    assert study.best.value == result.fun
    assert [list(t.params.values()) for t in study.trials] == [list(p) for p in result.x_iters]


# On the command line.
def test_the_command_imports_a_table(tmp_path):
    file, there = tmp_path / "runs.csv", tmp_path / "s.db"
    file.write_text("lr,loss\n0.1,3\n0.01,2\n")
    said = call("import", file, "--value", "loss", "-p", "lr=log:1e-5:1", "--maximize", "-s", there, "--name", "mine")
    assert "2 trials, 2 with a value" in said
    study = presage.load_study(there, "mine")
    assert study.space == Space({"lr": Float(1e-5, 1, log=True)})
    assert study.best.value == 3
    told = json.loads(
        CliRunner().invoke(app, ["import", str(file), "--value", "loss", "-s", str(there), "--json"]).stdout
    )
    assert (told["name"], told["trials"], told["best"]) == ("runs", 2, 2.0)
    assert "must be new" in call("import", file, "--value", "loss", "-s", there, "--name", "mine", code=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runs.csv"], "--storage"),
        (["nothing.csv", "-s", "s.db"], "cannot read nothing.csv"),
        (["result.pkl", "-s", "s.db"], "looks like a pickle"),
        (["runs.csv", "-s", "s.db", "-p", "x"], "NAME=KIND"),
        (["runs.csv", "-s", "s.db", "--study", "a"], "for Optuna storages"),
    ],
)
def test_wrong_usage_is_explained(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRESAGE_STORAGE", raising=False)
    (tmp_path / "runs.csv").write_text("x,value\n1,2\n2,3\n")
    assert said in call("import", *arguments, code=2)


@pytest.mark.needs("optuna")
def test_the_command_goes_to_optuna_and_back(tmp_path):
    study, url = made(tmp_path), f"sqlite:///{tmp_path / 'optuna.db'}"
    ours, again = tmp_path / "ours.db", tmp_path / "again.db"
    assert "7 trials of 'tuning'" in call("export", "tuning", "-s", ours, "--format", "optuna", "--to", url)
    assert "must be new" in call("export", "tuning", "-s", ours, "--format", "optuna", "--to", url, code=1)
    assert "goes with --format optuna" in call("export", "tuning", "-s", ours, "--to", url, code=2)
    assert "7 trials, 4 with a value" in call("import", url, "-s", again)
    back = presage.load_study(again, "tuning")
    assert back.direction == "maximize"
    same(study, SimpleNamespace(trials=[t.but({"params": SPACE.complete(t.params)}) for t in back.trials]))
    assert [t.reports for t in back.trials] == [t.reports for t in study.trials]
    assert "must be one of ['tuning']" in call("import", url, "--study", "other", "-s", again, code=1)
    assert "there is no file" in call("import", "sqlite:///nowhere.db", "-s", again, code=1)


@pytest.mark.filterwarnings("ignore")  # of the libraries, while they are imported
@pytest.mark.parametrize(
    "module",
    [
        "tables", "skopt", "records",
        *(pytest.param(name, marks=pytest.mark.needs(what)) for name, what in (
            ("optuna", "optuna"), ("optuna_spaces", "optuna"), ("optuna_mirror", "optuna"),
            ("optuna_studies", "optuna"), ("ray_tune", "tune"), ("mlflow", "mlflow"))),
    ],
)  # fmt: skip
def test_examples_run(module):
    found = doctest.testmod(importlib.import_module(f"presage.integrations.{module}"))
    assert found.failed == 0


def test_a_missing_library_is_named_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingPackage, match=r"pip install 'presage\[optuna\]'") as caught:
        require("optuna", "optuna")
    assert isinstance(caught.value, ImportError)
