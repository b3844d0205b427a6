"""The seeds' experiments: cells that are kept, summaries worked out by hand, and the command that runs them."""

import json
import math
from importlib import import_module

import numpy as np
import pytest
from typer.testing import CliRunner

from presage.benchmarks import records, runner
from presage.cli._app import app
from presage.errors import PresageError
from presage.experiments import base, s1, s2, s3, s4, s4_studies
from presage.experiments.base import Experiment, Told


def squares(cells, measure=math.pow, draw=base.nothing):
    return Experiment(
        "squares", "Squares", cells, measure, lambda found: {"sum": sum(found.values())},
        lambda summary: Told((("sum", "5", f"{summary['sum']:g}"),), "None."), draw,
    )  # fmt: skip


# Cells.
def test_what_is_measured_is_kept(tmp_path):
    asked = []

    def measure(a, b):
        asked.append((a, b))
        return a**b

    one, two = squares(((1, 2),), measure), squares(((1, 2), (2, 2)), measure)
    assert base.run(one, tmp_path) == {(1, 2): 1}
    with (tmp_path / "squares.jsonl").open("a") as file:
        file.write('{"cell": [2, 2], "fou')  # killed while it wrote
    told = []
    assert base.run(two, tmp_path, tell=told.append) == {(1, 2): 1, (2, 2): 4}
    assert asked == [(1, 2), (2, 2)]
    assert told == [(1, 2), (2, 2)]
    assert base.run(two, tmp_path) == {(1, 2): 1, (2, 2): 4}
    assert len(asked) == 2


def test_processes_measure_the_same(tmp_path):
    cells = tuple((float(n), 2.0) for n in range(4))
    assert base.run(squares(cells), tmp_path / "a", jobs=2) == base.run(squares(cells), tmp_path / "b")


def test_a_record_names_what_made_it(tmp_path):
    told = base.write(squares(()), {(1, 2): 1, (2, 2): 4}, tmp_path, "a test")
    assert "| sum | 5 | 5 |" in told.markdown()
    record = json.loads((tmp_path / "squares.json").read_text())
    assert record["result"] == {"sum": 5}
    assert record["command"] == "a test"
    assert record["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize("seed", ["s1", "s2", "s3"])
@pytest.mark.parametrize("quick", [True, False])
def test_cells_are_json_and_all_different(seed, quick):
    made = import_module(f"presage.experiments.{seed}").experiments(quick)
    assert len({experiment.name for experiment in made}) == len(made)
    for experiment in made:
        assert len(set(experiment.cells)) == len(experiment.cells) > 0
        assert [tuple(cell) for cell in json.loads(json.dumps(experiment.cells))] == list(experiment.cells)


# S1.
def traces(**values):
    return {"gp": {"forrester": {str(i): {"values": row} for i, row in enumerate(values["gp"])}}}


def test_s1_counts_minima_found():
    least = s1.problem("forrester")[2]
    told = s1.tell_benchmark(traces(gp=[[9.0, least + 0.005], [9.0, least + 0.5], [least, 3.0]]))
    ((name, document, here),) = told.rows
    assert (name, document, here) == ("forrester", s1.WORDS["forrester"], "Gaussian process within 0.01 in 2 of 3")
    assert "0.005" in told.more


def test_s1_traces_begin_with_the_given_points():
    space, f, least = s1.problem("mccormick")
    given = s1.start("mccormick", 3)
    found = s1.trace("gp", "mccormick", 3)
    np.testing.assert_allclose(found["values"][:5], [f(space.decode(point)) for point in given], rtol=1e-9)
    assert len(found["values"]) == 30
    assert min(found["values"]) >= least - 1e-4  # the minimum is known to four digits


def test_s1_cliff_has_its_least_value_at_the_edge():
    x = np.random.default_rng(0).random((20_000, 2))
    values, least = s1.cliff(x), s1.problem("cliff")[2]
    assert least <= values.min() < least + 0.01
    along = x[values.argmin()] @ [1.0, 0.5]
    assert 0.9 < along < 0.93


def test_s1_step_units_jump():
    found = s1.prior(3)
    values = np.array(found["Cauchy, 10000 units"])
    assert values.shape == (3, 400)
    jumps = [float(row[2].split("%")[0]) for row in s1.tell_prior(found).rows]
    assert jumps[3] > 2 * jumps[1]  # one weight of a Cauchy law outweighs thousands of others, one of a Gaussian none
    assert len(s1.draw_prior(found)["s1_prior"].axes) == 4


# S2.
def test_s2_moments_of_a_known_law():
    """Members with variance 3 and correlation 0.4; standard errors by the variance of squares of normal numbers."""
    rng, sets, members, probes = np.random.default_rng(0), 4000, 5, 4
    shared = rng.standard_normal((sets, 1, probes)) * math.sqrt(3 * 0.4)
    found = shared + rng.standard_normal((sets, members, probes)) * math.sqrt(3 * 0.6)
    each, common = s2.moments(found)
    error = 3 * math.sqrt(2 / (sets * probes))  # of a variance of 3 from as many independent squares
    assert abs(each.mean() - 3.0) < 4 * error
    assert abs(common.mean() - 1.2) < 4 * error


def test_s2_functions():
    at = np.array([-12.0, -9.0, -7.0, 0.0, 3.0])
    np.testing.assert_allclose(s2.first(at), [-12.0, 9.0, -7.0, 18.0, 9 * math.sin(6.0)])
    np.testing.assert_allclose(s2.second(np.array([0.0, 1.0])), [10.0, 20.0])


def test_s2_tells_both_designs():
    mine = {"L": 5, "D": 15, "N": 24, "p": 1.0, "loss": 255.6}
    told = s2.tell_design({
        "experiment": 1, "best": mine, "iteration": 1, "trials": [mine | {"loss": 300.0}, mine], "true function": 66.9,
        "document": s2.DOCUMENT[1] | {"loss": 269.8}, "constant": 387.7, "seeds": [mine],
    })  # fmt: skip
    assert told.rows[0][1:] == ("(5, 15, 23, 0.949)", "(5, 15, 24, 1)")
    assert told.rows[1][1:] == ("13", "2 of 2")
    assert told.rows[2][1:] == ("269.8", "255.6")


# S3.
def test_s3_tail_of_made_curves():
    found = {("gp_path", 60, 8, seed): [2.0, 0.8 if seed < 3 else 0.6, 0.5] for seed in range(4)}
    told = s3.tails_of(found)
    assert told["gp_path"]["share"] == [1.0, 0.75, 0.0]
    assert (told["queries"], told["batch"]) == (60, 8)
    assert told["gp_path"]["rate"] is None  # too few points for a slope


def test_s3_searches_by_drawn_functions():
    found = s3.tail("gp_path", 60, 20, 0)
    assert len(found) == 5  # n = 20, 30, ..., 60
    assert found[-1] < found[0]
    assert found == s3.tail("gp_path", 60, 20, 0)


def test_s3_summaries():
    regret = [1.0] * 50 + [0.5] * 99 + [0.1]
    told = s3.by_name({("hartmann4", seed): {"regret": regret, "seconds": 2.0 + seed} for seed in range(3)})
    one = told["hartmann4"]
    assert (one["median_seconds"], one["median_least"], one["least"][0]) == (3.0, 0.1, 0.5)
    assert one["median_average_at_10_25_50_100"] == pytest.approx([0.5, 0.5, 0.5, 0.496])
    walls = s3.speedup({(1, 40, 2.0): {"wall": 80.0}, (4, 40, 2.0): {"wall": 20.0}})
    assert walls["speedup"] == 4.0
    assert "4.0 times" in s3.tell_workers(walls | {"4": {"trainings": 3}}).markdown()


# S4.
def test_s4_regret_along_the_budget():
    line = s4.curve({"found": [[1, 1.0, -3.0], [5, 6.0, -1.0]], "best": -1.0, "median": -2.0})
    at = lambda cost: line[int(np.argmin(np.abs(s4.GRID - cost)))]  # noqa: E731
    assert (at(0.5), at(1.0), at(5.5), at(6.0), at(12.0)) == (1.0, 1.0, 1.0, 0.0, 0.0)


def test_s4_verdicts_need_seeds():
    def sets(count):
        return {"yacht": {"a": {"area": [0.1 + 0.001 * i for i in range(count)]}, "b": {"area": [0.5] * count}}}

    assert s4.against(sets(8), "a", "b") == {"ahead": ["yacht"], "level": [], "behind": []}
    assert s4.against(sets(8), "b", "a")["behind"] == ["yacht"]
    assert s4.against(sets(4), "a", "b")["level"] == ["yacht"]


def test_s4_plays_see_no_other_sets_answer(monkeypatch):
    """What the default begins with on a set comes from the other sets alone."""
    load = s4.load
    monkeypatch.setattr(s4, "load", lambda name: load(name) if name != "yacht" else pytest.fail("looked"))
    assert len(s4.known("yacht")) == 3


def test_s4_plays_a_recorded_table():
    found = s4.played("energy", "random", 0)
    scores = [value for _, _, value in found["found"]]
    assert scores == sorted(scores)
    assert found["found"][0][:2] == [1, 1.0]  # random search trains every network to its end
    assert scores[-1] <= found["best"] + 1e-5
    told = s4.regrets({("energy", label, 0): found for label in s4.FEW})
    assert told["energy"]["random"]["area"] == [round(float(s4.curve(found).mean()), 5)]
    assert "level on 1" in s4.tell_search(told).rows[0][2]
    assert len(s4.draw_search(told)["s4_search"].axes) >= 1


def test_s4_tables_have_the_documents_order():
    labels = list(s4.choices("5.1"))
    assert (labels[0], labels[2], labels[7]) == ("eq(x)", "eq(x) + linear(y)", "eq(x) + linear(x) + linear(y) + eq(y)")
    found = {("5.2", "energy", 0): dict.fromkeys(labels, -1.0) | {"eq(x)": 0.0}}
    told = s4.tell_gpar(s4.densities(found))
    # Table 5.2 prints -96.6 for a non-linear kernel on the outputs in bold.
    ((_, theirs, ours),) = told.rows
    assert (theirs, ours) == ("eq(x) + eq(y), 1.0 of 8", "eq(x), 1.0 of 8")
    assert "| eq(x) | 0.00 ± 0.00 (-185) |" in told.more


def test_s4_needs_its_data(tmp_path):
    with pytest.raises(PresageError, match="--data"):
        s4.experiments(False)
    with pytest.raises(PresageError, match=r"boston_housing.*does not exist"):
        s4.experiments(False, data=tmp_path)
    assert s4.experiments(True)[0].cells[0] == ("designs", "diabetes", "quick")


def test_s4_tells_the_studies():
    def design(study, **more):
        return {
            "width": 20,
            "prior": 1.0,
            "noise": 0.1,
            "factor": 1.0,
            "seed": 0,
            "steps": [10],
            **more,
            "study": study,
        }

    designs = [design("width", width=w, validation=[-2.0 + (w == 4)], train=[0.0]) for w in (1, 4, 16)]
    designs += [design("prior", width=8, prior=p, validation=[-p], train=[0.0]) for p in (0.1, 1.0)]
    designs += [design("noise", noise=n, validation=[-n], train=[0.0]) for n in (0.001, 0.01, 1.0)]
    designs += [design("data", factor=f, validation=[-f], train=[f]) for f in (0.5, 1.0, 10.0)]
    pruning = [{"width": 4, "active": [4, 2], "log_likelihood": [-1.0, -1.5]}]
    told = s4_studies.tell({"sets": {"yacht": {"designs": designs, "pruning": pruning}}})
    said = [row[2] for row in told.rows]
    assert said[0] == "yacht: best at 4, at 16 lower by 1.00"
    assert said[3] == "yacht: 0.5 times +0.50, 10 times -9.00 (train +9.00)"
    assert said[4] == "yacht: 4.0+2.0 of 4; 0.500 lost"


# The command line.
def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_reproduce_tells_draws_and_goes_on(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    asked = []

    def measure(a, b):
        asked.append(a)
        if a == 2 and asked.count(2) == 1:
            raise KeyboardInterrupt
        return a**b

    made = squares(((1, 2), (2, 2)), measure, lambda summary: {"squares": Figure()})
    monkeypatch.setattr(s2, "experiments", lambda quick, seeds: [made])
    stopped = call("s2", "--out", tmp_path, code=130)
    assert "goes on from" in stopped.stderr
    said = call("s2", "--out", tmp_path)
    assert "2/2" in said.stderr
    assert "# S2" in said.stdout
    assert "| sum | 5 | 5 |" in said.stdout
    assert asked == [1, 2, 2]
    assert (tmp_path / "report.md").read_text() == said.stdout
    assert (tmp_path / "squares.png").stat().st_size > 0
    told = json.loads(call("s2", "--out", tmp_path, "--json").stdout)
    assert told["squares"]["rows"] == [["sum", "5", "5"]]


def test_s5_keeps_its_runs_as_a_benchmark_does(tmp_path, monkeypatch):
    def run(jobs, folder, **more):
        for job in jobs:
            if job.method != "optuna-tpe":
                regret = [1.0] * 52 + [0.5 if job.method == "presage" else 0.8]
                cell = {"problem": job.problem, "method": job.method, "seed": job.seed, "trials": 53}
                records.append(folder, {**cell, "regret": regret, "seconds": [0.1] * 53})
        return [runner.Failed(job, "no Optuna") for job in jobs if job.method == "optuna-tpe"][:1]

    monkeypatch.setattr(runner, "run", run)
    said = call("s5", "--quick", "--out", tmp_path)
    assert "Left out: no Optuna" in said.stderr
    assert "mean rank (95 %) of presage's default | not in the document | 3.00" in said.stdout
    assert "1.00 (1.00 to 1.00) after 53" in said.stdout
    assert len(records.read(tmp_path)) == 8 * 8  # eight problems, one seed, all methods but one
    assert said.stdout.index("against the thesis's package") < said.stdout.index("over presage's Gaussian process")
    assert all((tmp_path / f"{name}.png").stat().st_size > 0 for name in ("s5_package", "s5_ranks"))


def test_s5_without_its_package_says_so_and_goes_on(tmp_path, monkeypatch):
    def run(jobs, folder, **more):
        for job in jobs:
            if not job.method.startswith("pygpgo"):
                cell = {"problem": job.problem, "method": job.method, "seed": job.seed, "trials": 53}
                records.append(folder, {**cell, "regret": [1.0] * 53, "seconds": [0.1] * 53})
        return [runner.Failed(job, "no pyGPGO") for job in jobs if job.method.startswith("pygpgo")][:1]

    monkeypatch.setattr(runner, "run", run)
    said = call("s5", "--quick", "--out", tmp_path)
    assert "Left out: no pyGPGO" in said.stderr
    assert "thesis's package" not in said.stdout
    assert "Optuna TPE" in said.stdout


def test_reproduce_explains_mistakes(tmp_path):
    assert "must be one of s1, s2, s3, s4, s5" in call("s6", code=1).stderr
    assert "one of s2_variance, s2_design_1" in call("s2", "--only", "no", "--out", tmp_path, code=1).stderr
    assert "--data is for s4 only" in call("s1", "--data", tmp_path, code=1).stderr
    assert "--python is for s5 only" in call("s1", "--python", "python", code=1).stderr
    assert "--quick" in call("s4", "--out", tmp_path, code=1).stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["s1", "s2", "s3", "s4", "s5"])
def test_every_seed_is_reproduced_quickly(seed, tmp_path):
    text = call(seed, "--quick", "--out", tmp_path).stdout
    assert text.startswith(f"# {seed.upper()}")
    assert list(tmp_path.glob("*.png"))
