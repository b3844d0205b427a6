"""`presage.design.search` on small tables: what it returns is a law, can be saved, and a stopped search goes on."""

import json
import math

import numpy as np
import pytest
import typer
from scipy.stats import norm
from typer.testing import CliRunner

from presage import Float, Int, Space
from presage.cli._app import app
from presage.cli.design import budget_of, read, seconds
from presage.design import DesignedModel, search
from presage.design.networks import EnsembleObjective, VariationalObjective, folds_of, mixture_log_density
from presage.errors import PresageError, StudyError

SMALL = Space({"width": Int(2, 12)})  # one program


def rows(n=60, seed=0):
    """A table with everything that tables have."""
    rng = np.random.default_rng(seed)
    size, town = rng.random(n), rng.choice(["a", "b", "c"], n)
    y = 3.0 * size + (town == "a") + 0.1 * rng.standard_normal(n)
    holes = [None if rng.random() < 0.1 else value for value in size]
    return {"size": holes, "town": list(town), "same": [1] * n, "noise": rng.random(n)}, y


@pytest.fixture(scope="module")
def design():
    table, y = rows()
    return search(table, y, space=SMALL, steps=200, budget=1e6, most=8, seed=0)


NEW = {"size": [0.5, None], "town": ["a", "z"], "noise": [0.5, 0.1]}


def test_every_trial_has_a_curve_and_the_best_is_one_of_them(design):
    assert design.best in [trial.params for trial in design.history]
    assert sum(len(trial.reports) for trial in design.history) == 8
    assert any("same: constant" in note for note in design.notes)
    assert any("size" in note and "missing" in note for note in design.notes)
    assert len(design.shares) == 60
    assert ((design.shares >= 0) & (design.shares <= 1)).all()


def test_the_model_has_learned(design):
    """Against the law of all values, which has the mean log density of a constant prediction."""
    table, y = rows(seed=1, n=100)
    assert design.model.log_density(table, y).mean() > norm(y.mean(), y.std()).logpdf(y).mean()


def test_predictions_are_moments_and_quantiles_of_one_density(design):
    mean, stddev = design.model.predict(NEW, return_std=True)
    low, high = design.model.interval(NEW, 0.8)
    for i in range(2):
        grid = np.linspace(mean[i] - 30 * stddev[i], mean[i] + 30 * stddev[i], 20001)
        one = {name: [column[i]] * len(grid) for name, column in NEW.items()}
        density = np.exp(design.model.log_density(one, grid))
        step = grid[1] - grid[0]
        assert density.sum() * step == pytest.approx(1.0, abs=1e-6)
        assert (density * grid).sum() * step == pytest.approx(mean[i], abs=1e-4 * stddev[i])
        assert math.sqrt((density * (grid - mean[i]) ** 2).sum() * step) == pytest.approx(stddev[i], rel=1e-4)
        for bound, share in ((low[i], 0.1), (high[i], 0.9)):
            # The sum up to a bound misses at most one cell of the grid.
            assert density[grid <= bound].sum() * step == pytest.approx(share, abs=density.max() * step)


def test_a_saved_model_says_the_same(design, tmp_path):
    design.model.save(tmp_path / "model.npz")
    again = DesignedModel.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(NEW, return_std=True), design.model.predict(NEW, return_std=True))
    assert again.params == design.best


def test_stopped_and_resumed_it_goes_on(tmp_path):
    table, y = rows()
    whole = search(table, y, space=SMALL, steps=200, budget=1e6, most=5, seed=3)
    for most in (2, 5):
        again = search(table, y, space=SMALL, steps=200, budget=1e6, most=most, seed=3, folder=tmp_path)
    for one, other in zip(whole.runs.events, again.runs.events, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    np.testing.assert_array_equal(whole.model.predict(NEW), again.model.predict(NEW))
    with pytest.raises(StudyError, match="another table"):
        search(table, y + 1.0, space=SMALL, steps=200, budget=1e6, most=5, seed=3, folder=tmp_path)


def test_a_budget_in_steps_is_kept_to(design):
    """Of all networks together; a step then costs the same for all."""
    table, y = rows()
    found = search(table, y, space=SMALL, steps=200, budget=math.inf, total_steps=400, seed=0)
    trained = sum(trial.reports[-1][0] for trial in found.history)
    assert 300 <= trained <= 400  # stretches are of 50 to 100 steps
    assert (found.runs.board.cost == 1.0).all()
    assert (design.runs.board.cost > 1.0).all()  # multiplications, where the budget is in seconds


@pytest.mark.slow
def test_ensembles_are_designed_too():
    table, y = rows()
    space = Space({"depth": Int(1, 2), "width": Int(2, 8), "members": Int(3, 4), "keep": Float(0.5, 1.0)})
    found = search(table, y, family="ensemble", space=space, steps=100, budget=1e6, most=3, seed=0)
    assert set(found.best) == {"depth", "width", "members", "keep"}
    assert np.isfinite(found.model.log_density(NEW, [1.0, 2.0])).all()


@pytest.mark.slow
def test_few_rows():
    table, y = rows(n=9)
    found = search(table, y, space=SMALL, steps=50, budget=1e6, most=1, seed=0)
    assert np.isfinite(found.model.predict(NEW)).all()


def test_a_stretched_mixture_is_a_density_about_the_same_mean():
    mean, variance = np.array([[0.0], [3.0]]), np.array([[1.0], [0.25]])
    y = np.linspace(-30, 30, 60001)
    wide = np.exp(mixture_log_density(y, np.tile(mean, len(y)), np.tile(variance, len(y)), 2.0))
    step = y[1] - y[0]
    assert wide.sum() * step == pytest.approx(1.0)
    assert (wide * y).sum() * step == pytest.approx(1.5)
    assert (wide * (y - 1.5) ** 2).sum() * step == pytest.approx(4.0 * (0.625 + 2.25))
    plain = mixture_log_density(np.array([0.7]), mean, variance)
    assert plain[0] == pytest.approx(math.log(0.5 * norm(0, 1).pdf(0.7) + 0.5 * norm(3, 0.5).pdf(0.7)))


def test_folds_leave_every_row_out_once():
    folds = folds_of(100, np.random.default_rng(0))
    assert sorted(np.concatenate([rows for _, rows in folds]).tolist()) == list(range(100))
    for learn, rows_ in folds:
        assert not set(learn) & set(rows_)
    large = folds_of(20_000, np.random.default_rng(0))
    assert len(large) == 1
    assert len(large[0][1]) == 1000


def test_widths_weights_and_penalty():
    x, y = np.random.default_rng(0).random((20, 3)), np.arange(20.0)
    objective = VariationalObjective(x, y, 100, folds_of(20, np.random.default_rng(0)))
    assert objective.widths({"depth": 3, "width": 16, "shrink": 0.5}) == (16, 8, 4)
    assert objective.widths({"depth": 2, "width_1": 7, "width_2": 3}) == (7, 3)
    assert objective.weights({"depth": 2, "width_1": 7, "width_2": 3}) == 4 * 7 + 8 * 3 + 4
    ensemble = EnsembleObjective(x, y, 100, [])
    assert ensemble.weights({"depth": 1, "width": 5, "members": 3, "keep": 1.0}) == 3 * (4 * 5 + 6)
    assert objective.work({"depth": 1, "width": 100}) > objective.work({"depth": 1, "width": 10})


@pytest.mark.parametrize(("text", "value"), [("90", 90.0), ("90s", 90.0), ("10m", 600.0), (".5h", 1800.0)])
def test_times(text, value):
    assert seconds(text) == value


def test_budgets_in_steps():
    assert budget_of("300 steps") == (math.inf, 300)
    assert budget_of("2m") == (120.0, None)
    for text in ("0steps", "1.5steps", "-3steps"):
        with pytest.raises(typer.BadParameter, match="steps"):
            budget_of(text)


@pytest.mark.parametrize("text", ["", "ten", "-5s", "0", "5d"])
def test_wrong_times(text):
    with pytest.raises(typer.BadParameter, match="such as 10m"):
        seconds(text)


def test_wrong_files(tmp_path):
    path = tmp_path / "t.csv"
    for text, says in (("a,b\n", "header and rows"), ("a,a\n1,2\n", "more than once"), ("a,b\n1\n", "line 2")):
        path.write_text(text)
        with pytest.raises(PresageError, match=says):
            read(path)
    with pytest.raises(PresageError, match="cannot be read"):
        read(tmp_path / "none.csv")
    path.write_text("a,b\n1,2\n\n3,4\n")
    assert read(path) == {"a": ["1", "3"], "b": ["2", "4"]}
    result = CliRunner().invoke(app, ["design", str(path), "--target", "price"])
    assert result.exit_code == 1
    assert "no column 'price'; it has a, b" in result.output.replace("\n", " ")


@pytest.mark.slow
def test_the_command_writes_a_model_and_a_report_and_goes_on(tmp_path):
    table, y = rows()
    path = tmp_path / "houses.csv"
    lines = [",".join([*table, "price"])]
    lines += [",".join("" if v is None else str(v) for v in row) for row in zip(*table.values(), y, strict=True)]
    path.write_text("\n".join(lines))
    for budget in ("5s", "10s"):
        result = CliRunner().invoke(
            app, ["design", str(path), "--target", "price", "--budget", budget, "--steps", "100", "--json"]
        )
        assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    folder = tmp_path / "houses.csv.design"
    assert (folder / "report.html").read_text().count("data:image/png") == 3
    model = DesignedModel.load(folder / "model.npz")
    assert model.params == told["best"]
    assert np.isfinite(model.predict(NEW)).all()
