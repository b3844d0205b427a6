"""What a study says about itself is what it does."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from presage import Choice, Float, Int, Space, Study
from presage.cli._app import app
from presage.explain import _maximiser, explain
from presage.functions import branin
from presage.insight import Record
from presage.proposers import ModelBased, TrustRegion
from presage.surrogates import GaussianProcess

SPACE = Space({"x": Float(-1.0, 1.0), "n": Int(1, 50), "kind": Choice(["a", "b"])})


def told(trials, space=branin.space, f=branin, **settings):
    study = Study(space, seed=0, **settings)
    for _ in range(trials):
        trial = study.ask()
        study.tell(trial, f(trial.params))
    return study


def test_it_tells_the_figures_of_the_fit_in_use():
    study = told(10)
    said = study.explain()
    state = study._ledger.state()
    proposer = study._suggester.proposer
    assert said.facts["values"] == 10
    # The scores that chose the member, by a fit of each to all values at the kept hyperparameters.
    kept = proposer.fit(state, study._history.observations(), rng=np.random.default_rng(0))[0]
    chosen = int(state["chosen"])
    assert said.facts["leave_one_out"][chosen] == pytest.approx(float(kept.leave_one_out().mean()), rel=1e-9)
    assert len(said.facts["leave_one_out"]) == 2
    assert f"{said.facts['leave_one_out'][chosen]:.3g} against" in said.choices["surrogate"].why
    words = {0: "its own variance learned", 1: "the values' variance"}
    assert words[chosen] in said.choices["surrogate"].chosen
    assert said.choices["maximiser"].chosen == "L-BFGS from 8 starts"
    assert said.facts["suggestion_seconds"] > 0
    assert said.choices["next"].chosen == "a point of the model"


def test_looking_changes_nothing():
    looked, other = told(9), told(9)
    before = looked._history.seq
    looked.explain()
    looked.explain()
    assert looked._history.seq == before
    assert looked.ask().params == other.ask().params


def test_before_there_is_a_model():
    study = Study(branin.space, seed=0)
    assert study.explain().choices["next"].chosen == "a point of the initial design"
    assert "there is no value" in study.explain().choices["surrogate"].why
    study = told(2)
    assert study.explain().choices["next"].chosen == "point 3 of 5 of the initial design"
    study.enqueue(dict.fromkeys(study.space, 1.0))
    assert study.explain().choices["next"].chosen == "a trial that waits"


def test_failures_running_trials_and_noise_are_told():
    study, rng = Study(branin.space, seed=0), np.random.default_rng(1)
    for number in range(11):
        trial = study.ask()
        study.tell(trial, failed="no") if number == 4 else study.tell(trial, float(rng.standard_normal()))
    study.ask()
    said = study.explain()
    assert (said.facts["failures"], said.facts["running"]) == (1, 1)
    assert "1 trial failed" in said.choices["acquisition"].why
    assert "What runs (1 trial)" in said.choices["batch"].why
    assert said.facts["noise"] > 0.3  # values are nothing but noise
    assert "which point is the best is not known" in said.choices["acquisition"].why
    assert said.choices["acquisition"].chosen == "noisy expected improvement"


@pytest.mark.parametrize(
    ("surrogate", "acquisition", "part", "word"),
    [
        ("gp", "lcb", "surrogate", "As asked for."),
        ("gp", "lcb", "batch", "one after another"),
        ("random", "auto", "surrogate", "does not look at values"),
        ("auto", TrustRegion(), "proposer", "As asked for."),
        (GaussianProcess(), "auto", "surrogate", "As asked for."),
    ],
)
def test_every_kind_of_study_can_be_explained(surrogate, acquisition, part, word):
    said = told(9, SPACE, lambda p: p["x"] ** 2 + p["n"], surrogate=surrogate, acquisition=acquisition).explain()
    assert word in said.choices[part].why
    assert json.loads(json.dumps(said.to_json()))["choices"][part]["why"] == said.choices[part].why
    assert all(part in repr(said) for part in said.choices)
    assert said.study in said._repr_html_()


def test_small_spaces_are_tried_point_by_point():
    said = told(5, Space({"n": Int(1, 9)}), lambda p: abs(p["n"] - 4.0)).explain()
    assert said.facts["points"] == 9
    assert said.choices["maximiser"].chosen == "every point that is left"


def test_without_derivatives_another_search_is_told():
    facts = {"points": None, "kinds": {"Float": 2}}
    rough = SimpleNamespace(differentiable=False)
    assert _maximiser(ModelBased(), rough, facts).chosen == "steps along single columns and CMA-ES from 8 starts"


def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["show", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_the_command_tells_the_same(tmp_path):
    place = str(tmp_path / "study.db")
    study = told(9, storage=place)
    said = call("--storage", place, "--explain").stdout
    assert said.strip() == repr(explain(Record.open(study.storage, "study"))).strip()
    assert json.loads(call("--storage", place, "--explain", "--json").stdout)["facts"]["values"] == 9
    told(6, storage=place, name="own", surrogate=GaussianProcess())
    assert "not stored" in call("own", "--storage", place, "--explain", code=1).stderr
