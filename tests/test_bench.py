"""Benchmarks: problems whose minima are true, measures against hand-computed examples, runs that can be cut short."""

import json
import multiprocessing
import runpy
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from typer.testing import CliRunner

from presage.benchmarks import ablations, figures, formulas, measures, mixed, peers, physical, records, runner, tabular
from presage.benchmarks.methods import Elsewhere, MissingPeer, check, start
from presage.benchmarks.problem import KINDS
from presage.benchmarks.problems import DEVELOPMENT, LISTS, PROBLEMS, REPORTED, TUNING, choose
from presage.benchmarks.runner import Job, play
from presage.benchmarks.summary import markdown, select, two_by_two
from presage.cli._app import app
from presage.cli.bench import pythons_of, seeds_of
from presage.errors import PresageError
from presage.experiments import s5
from presage.functions import branin
from presage.space import Choice, Float, Int, Space
from presage.study import Study

ALL = list(PROBLEMS.values())
HASTEN = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "hasten.py"))


# Problems.
@pytest.mark.parametrize("problem", ALL, ids=lambda p: p.name)
def test_no_point_is_below_the_minimum(problem):
    assert problem.kind in KINDS
    assert 20 <= problem.trials <= 60
    for seed in (0, 1):
        instance = problem.make(seed)
        rng = np.random.default_rng(seed)
        for point in rng.random((20, instance.space.dim)):
            assert instance.value(instance.space.decode(point)) >= instance.minimum - 1e-12 * abs(instance.minimum)


def test_lists_share_nothing():
    """Not a function, a data set or a system; the tables' data sets are the last words of their names."""
    assert len(REPORTED) >= 20
    assert len(TUNING) == 20
    words = [
        {word.rstrip("0123456789") for p in many for word in p.name.split("_")} for many in (DEVELOPMENT, REPORTED)
    ]
    generic = {"noisy", "mixed", "in", "", "svm", "gbm", "mlp", "knn", "curve", "selection", "camel", "hump"}
    assert not (words[0] & words[1]) - generic
    assert {p.kind for p in REPORTED} == set(KINDS)
    assert len(PROBLEMS) == sum(map(len, LISTS.values()))


@pytest.mark.parametrize("function", formulas.FORMULAS, ids=lambda f: f.name)
def test_minimisers_are_stationary_and_no_local_search_finds_less(function):
    low, high = function.formula.box(function.num_dims)
    rng = np.random.default_rng(0)
    starts = [*rng.uniform(low, high, (30, function.num_dims)), *(list(m.values()) for m in function.minimizers)]
    for begin in starts:
        found = minimize(lambda x: function.on_array(x[None])[0], begin, bounds=list(zip(low, high, strict=True)))
        assert found.fun >= function.minimum - 1e-9
    for point in function.minimizers:
        assert function(point) == pytest.approx(function.minimum, abs=1e-12)


@pytest.mark.parametrize("problem", [p for p in REPORTED if p.kind == "smooth"], ids=lambda p: p.name)
def test_seeds_move_the_minimum(problem):
    """The middle of the box must not be a good guess."""
    value = [problem.make(seed).value(problem.make(seed).space.decode([0.5] * 20)) for seed in range(3)]
    assert len(set(value)) == 3


def test_noise_is_the_same_for_all_methods_and_is_not_in_the_regret():
    problem = PROBLEMS["mccormick_noisy"]
    first, again = (play(Job(problem.name, "random", 3), trials=6) for _ in range(2))
    other = play(Job(problem.name, "sobol", 3), trials=6)
    assert first["values"] == again["values"]
    noise, others = (np.array(r["values"]) - r["regret"] - r["minimum"] for r in (first, other))
    np.testing.assert_allclose(noise, others, atol=1e-3)  # regrets up to 100 are kept to six digits
    draws = [problem.disturbance(seed, n) for seed in range(50) for n in range(20)]
    assert np.std(draws) == pytest.approx(problem.noise, rel=4 / np.sqrt(2 * 1000))  # four standard errors


def test_the_cheapest_vessel_keeps_the_rules_and_nothing_near_is_cheaper():
    cost = mixed.vessel_cost(mixed.CHEAPEST)
    assert cost == pytest.approx(6059.714, abs=0.001)  # as in the literature since 2000
    volume = np.pi * mixed.CHEAPEST["radius"] ** 2 * (mixed.CHEAPEST["length"] + 4 / 3 * mixed.CHEAPEST["radius"])
    assert volume == pytest.approx(1_296_000, rel=1e-9)
    for shell in range(10, 21):
        for head in range(5, 12):

            def of(x, shell=shell, head=head):
                radius, length = np.clip(x, [10, 10], [200, 200])
                return mixed.vessel_cost({"shell": shell, "head": head, "radius": radius, "length": length})

            # Along the edge of the rules: the radius that shell and head allow, and the length that gives the volume.
            radius = min(shell * mixed.STEEL / 0.0193, head * mixed.STEEL / 0.00954)
            for r in (radius, 0.99 * radius, 1.001 * radius):
                length = 1_296_000 / (np.pi * r**2) - 4 / 3 * r
                assert of((r, length)) >= cost - 1e-6
                assert of((r, 0.999 * length)) >= cost - 1e-6


def test_the_reactor_conserves_matter_and_agrees_with_closed_forms():
    a, b, waste = physical._react(2.0, 0.0, 0.0, 0.7, 0.3, 0.0, 1.5)
    assert a == pytest.approx(2.0 * np.exp(-0.7 * 1.5), rel=1e-9)
    assert b == pytest.approx(2.0 * 0.7 / (0.3 - 0.7) * (np.exp(-0.7 * 1.5) - np.exp(-0.3 * 1.5)), rel=1e-9)
    assert a + b + waste == pytest.approx(2.0, rel=1e-12)
    a, _, waste = physical._react(2.0, 0.0, 0.0, 0.0, 0.0, 0.25, 3.0)
    assert a == pytest.approx(1 / (1 / 2.0 + 2 * 0.25 * 3.0), rel=1e-7)  # da/dt = -2 k a^2
    assert a + 2 * waste == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("name", ["reactor", "cartpole"])
def test_recorded_minima_of_simulations_hold(name):
    """Local searches from the best of random points end above the recorded minimum, and one of them close to it."""
    instance = PROBLEMS[name].make(0)
    rng = np.random.default_rng(1)
    points = rng.random((60, instance.space.dim))
    if name == "reactor":
        points[:, 0] = 0.99  # the best catalyst
    values = [instance.value(instance.space.decode(p)) for p in points]
    free = range(1 if name == "reactor" else 0, instance.space.dim)

    def of(u, fixed):
        point = fixed.copy()
        point[list(free)] = np.clip(u, 0.0, 1.0)
        return instance.value(instance.space.decode(point))

    best = points[int(np.argmin(values))]
    found = minimize(of, best[list(free)], args=(best,), method="Nelder-Mead", options={"maxfev": 200})
    assert found.fun >= instance.minimum
    assert found.fun <= instance.minimum + 0.05 * (np.median(values) - instance.minimum)


# Minima of composed problems are attained, so that no method is charged with regret that nobody can avoid.
LINE = np.linspace(-5.0, 5.0, 4001)  # a parabola's minimum is missed by 1.25e-3 at most


def test_the_wells_are_as_deep_as_told():
    instance = PROBLEMS["wells_mixed"].make(4)
    base = {"x1": 0.0, "x2": 0.0, "n1": 0, "n2": 0, "label": "amber"}
    axes = {"x1": LINE.tolist(), "x2": LINE.tolist(), "n1": range(-5, 6), "n2": range(-5, 6), "label": mixed.LABELS}
    least = instance.value(base)
    for name, values in axes.items():  # a sum over coordinates
        least += min(instance.value(base | {name: value}) for value in values) - instance.value(base)
    assert least == pytest.approx(instance.minimum, abs=2 * 0.5 * 35 * 1.25e-3**2)  # the wells' curvature is below 35


def test_stages_bring_what_is_told():
    instance = PROBLEMS["stages"].make(4)
    totals = []
    for count in range(1, 5):
        names = [f"{what}{i}" for i in range(1, count + 1) for what in ("mode", "x")]
        params = {"stages": count} | {name: "steady" if name.startswith("mode") else 0.0 for name in names}
        for i in range(1, count + 1):
            tried = [
                params | {f"mode{i}": mode, f"x{i}": x} for mode in ("pulsed", "steady") for x in LINE[::4].tolist()
            ]
            params = min(tried, key=instance.value)
        totals.append(instance.value(params))
    assert min(totals) == pytest.approx(instance.minimum, abs=4 * 30 / 8 * 5e-3**2)
    assert np.argmin(totals) == 2  # three stages


def test_branches_are_lowest_where_their_functions_are():
    instance = PROBLEMS["branches"].make(2)
    point = branin.shifted(mixed.STREAM + 2).minimizers[0]
    best = {"branch": "branin"} | {f"branin_{name}": value for name, value in point.items()}
    assert instance.value(best) == pytest.approx(instance.minimum, abs=1e-12)


def test_labels_hide_the_minimum_of_a_function_and_nothing_else():
    instance = PROBLEMS["ackley_mixed"].make(2)
    found = []
    for label in mixed.LABELS:

        def of(x, label=label):
            names = [name for name, axis in instance.space.items() if isinstance(axis, Float)]
            return instance.value({"x1": 0, "x2": 0, "x3": label} | dict(zip(names, map(float, x), strict=True)))

        grid = [(a, b) for a in np.linspace(-30, 30, 31) for b in np.linspace(-30, 30, 31)]
        start = min(grid, key=of)
        found.append(minimize(of, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}).fun)
    assert min(found) == pytest.approx(instance.minimum, abs=1e-3)
    assert sum(value > 1.0 for value in found) == len(mixed.LABELS) - 1


def test_a_hidden_function_has_few_coordinates():
    instance = PROBLEMS["camel_in_100"].make(3)
    middle = instance.space.decode([0.5] * 100)
    value = instance.value(middle)
    matter = [n for n, a in instance.space.items() if instance.value(middle | {n: 0.9 * a.high}) != value]
    assert len(matter) == 2


# Tables.
def test_interpolation_is_exact_at_nodes_and_linear_between():
    table = tabular.Table(
        {"a": np.array([1.0, 10.0, 100.0]), "b": np.array([0.0, 1.0])}, np.array([[1.0, 2], [3, 5], [0, 9]])
    )
    axes = {"a": Float(1, 100, log=True), "b": Float(0, 1)}
    assert tabular.interpolate(table, axes, {"a": 10.0, "b": 1.0}) == 5.0
    assert tabular.interpolate(table, axes, {"a": 10.0**0.5, "b": 0.5}) == pytest.approx((1 + 2 + 3 + 5) / 4)
    assert tabular.interpolate(table, axes, {"a": 100.0, "b": 0.25}) == pytest.approx(2.25)


def test_a_missing_table_says_what_there_is():
    with pytest.raises(PresageError, match="knn_lsvt"):
        tabular.tuning("svm_nothing")


# Methods.
MIXED = Space({"n": Int(1, 4), "c": Choice(["a", "b"]), "x": Float(1e-3, 1.0, log=True, when={"c": ["b"]})})


def test_the_cube_of_peers_is_inverse_to_itself():
    cube = peers.Cube(peers.Task(MIXED.to_json(), 5, 0))
    assert cube.dim == 4
    for params in ({"n": 3, "c": "a"}, {"n": 1, "c": "b", "x": 0.02}, {"n": 4, "c": "b", "x": 1.0}):
        back = cube.decode(cube.encode(params))
        assert back.keys() == params.keys()
        assert all(back[k] == pytest.approx(v) if k == "x" else back[k] == v for k, v in params.items())
    for point in np.random.default_rng(0).random((50, 4)):
        MIXED.check(cube.decode(point))


@pytest.mark.parametrize("method", ["presage", "presage:gp:lcb0.5", "random", "sobol", "cmaes"])
def test_methods_at_hand_are_repeatable(method):
    first, again = (play(Job("stages", method, 1), trials=12) for _ in range(2))
    assert first["regret"] == again["regret"]
    assert len(first["regret"]) == len(first["seconds"]) == 12
    assert {"python", "numpy"} <= first["versions"].keys()


def test_the_same_peer_here_and_elsewhere():
    """Another process gives the same points, and legal ones."""
    here = start("cmaes", MIXED, 8, 3)
    there = start("cmaes", MIXED, 8, 3, sys.executable)
    assert isinstance(there, Elsewhere)
    for _ in range(8):
        params = here.ask()
        assert there.ask() == params == MIXED.check(params)
        value = float(params["n"])
        here.tell(value)
        there.tell(value)
    assert here.versions == there.versions
    assert there.spent is not None
    assert 0.0 < there.spent < 1.0


def test_duplicates_that_are_looked_up_are_those_of_all_pairs():
    """What benchmarks/hasten.py puts in the place of pymoo's search marks the same candidates."""
    module = types.SimpleNamespace(MixedVariableDuplicateElimination=type("Elimination", (), {}))
    HASTEN["mixed"](module)
    find = module.MixedVariableDuplicateElimination()._do
    rng = np.random.default_rng(0)

    def some(count):
        cells = zip(rng.choice([0.0, -0.0, 0.25, 1e-300], count), rng.integers(2, size=count), strict=True)
        return [types.SimpleNamespace(X={"x": x, "c": int(c)}) for x, c in cells]

    for count, others in [(0, 3), (1, 0), (2, 2), (12, 1), (12, 5), (40, 40)]:
        mine, other = some(count), some(others)
        later = [any(a.X == b.X for b in mine[i + 1 :]) for i, a in enumerate(mine)]
        assert list(find(mine, None, np.full(count, False))) == later
        assert list(find(mine, other, np.full(count, False))) == [any(a.X == b.X for b in other) for a in mine]


class Candidate:
    """As pymoo's are."""

    default_config = staticmethod(lambda: {"eps": 0.0})

    def __init__(self, config=None, **given):
        self._X, self._F, self.evaluated, self.data = None, None, set(), {}
        self.config = Candidate.default_config() if config is None else config
        for name, value in given.items():
            if name in self.__dict__ or "_" + name in self.__dict__:
                self.__dict__[name if name in self.__dict__ else "_" + name] = value
            else:
                self.data[name] = value


def test_candidates_made_fast_are_the_same_and_share_nothing_that_changes():
    givens = [{}, {"X": {"a": 1}}, {"F": 2, "rank": 3}, {"config": {"eps": 1.0}}, {"evaluated": {"F"}}]
    wanted = [vars(Candidate(**given)) for given in givens]
    quick = type("Quick", (Candidate,), {})
    HASTEN["individual"](types.SimpleNamespace(Individual=quick, default_config=Candidate.default_config))
    found = [quick(**given) for given in givens]
    assert [vars(one) for one in found] == wanted
    found[0].data["rank"] = 1
    found[0].evaluated.add("F")
    assert vars(quick()) == wanted[0]


def test_kernels_looked_through_fast_have_the_same_hyperparameters():
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    module = types.SimpleNamespace(Kernel=type("Kernel", (), {}))
    HASTEN["kernels"](module)
    for kernel in [kernels.Matern([1.0, 2.0]), kernels.RBF(0.1), kernels.WhiteKernel(), kernels.RationalQuadratic()]:
        for _ in range(2):
            assert module.Kernel.hyperparameters.fget(kernel) == kernel.hyperparameters


def test_likelihoods_without_a_copy_of_the_kernel_are_the_same():
    process = pytest.importorskip("sklearn.gaussian_process")
    rng = np.random.default_rng(0)
    x, y = rng.random((9, 2)), rng.random(9)
    kernel = process.kernels.Matern([1.0, 2.0]) + process.kernels.WhiteKernel(0.1)
    quick = type("Quick", (process.GaussianProcessRegressor,), {})
    HASTEN["process"](types.SimpleNamespace(GaussianProcessRegressor=quick))
    plain, fast = (kind(kernel, optimizer=None).fit(x, y) for kind in (process.GaussianProcessRegressor, quick))
    assert plain.log_marginal_likelihood() == fast.log_marginal_likelihood()
    for theta in rng.normal(size=(3, 3)):
        wanted, found = (one.log_marginal_likelihood(theta, eval_gradient=True) for one in (plain, fast))
        assert wanted[0] == found[0]
        np.testing.assert_array_equal(wanted[1], found[1])
    fast.kernel.theta = theta  # as SMAC3 ends: the kernel that it holds is fitted anew
    plain.kernel.theta = theta
    assert plain.fit(x, y).predict(x[:1] + 0.1) == fast.fit(x, y).predict(x[:1] + 0.1)


@pytest.mark.parametrize("python", [None, sys.executable])
def test_a_missing_peer_is_named(python, monkeypatch):
    monkeypatch.setitem(sys.modules, "hebo", None)
    with pytest.raises(MissingPeer, match="hebo"):
        start("hebo", MIXED, 5, 0, python)


NUMBERS = Space({"a": Float(1e-3, 10.0, log=True), "b": Int(2, 9)})
SPACES = {"pygpgo": NUMBERS, "pygpgo-ucb0.5": NUMBERS, "pygpgo-ucb1.5": NUMBERS}  # of peers that know no choices


@pytest.mark.parametrize("name", ["optuna-tpe", "optuna-gp", "botorch", "ax", "smac", "skopt", "nevergrad", *SPACES])
def test_peers_give_legal_params(name):
    space = SPACES.get(name, MIXED)
    try:
        session = start(name, space, 6, 0)
    except MissingPeer as error:
        pytest.skip(str(error))
    for i in range(6):
        space.check(session.ask())
        session.tell(float(i))
    if space is not MIXED:
        with pytest.raises(ValueError, match="is a choice"):
            start(name, MIXED, 6, 0)


def test_pygpgo_is_given_values_in_its_own_units():
    peer = object.__new__(peers.PyGPGO)  # without the package
    peer.task = peers.Task(NUMBERS.to_json(), 5, 0)
    peer.give([{"a": 1e-3, "b": 2}, {"a": 10.0, "b": 9}], [3.0, 4.0])
    np.testing.assert_allclose(peer.x, [[-3.0, 2.0], [1.0, 9.0]])
    assert peer.y == [3.0, 4.0]


def test_finite_spaces_may_run_out():
    record = play(Job("knn_lsvt_53", "presage:gp", 0))
    assert len(record["regret"]) == 41
    assert min(record["regret"]) == 0.0


@pytest.mark.parametrize("name", ["presag", "presage:no", "presage:gp:no", "random:gp", "optuna"])
def test_unknown_methods(name):
    with pytest.raises(PresageError, match=name.rpartition(":")[2]):
        check(name)


# Measures, against examples worked out by hand.
def test_ranks_share_ties():
    values = np.array([[1.0, 2.0], [1.0 + 1e-12, 5.0], [0.5, 2.0]])
    np.testing.assert_array_equal(measures.ranks(values, tie=1e-9), [[2.5, 1.5], [2.5, 3.0], [1.0, 1.5]])


def test_seconds_to_a_target():
    regret = np.array([[4.0, 1.0, 3.0], [4.0, 4.0, 4.0]])
    seconds = np.array([[0.5, 0.25, 1.0], [1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(measures.seconds_to(regret, seconds, 1.0), [0.75, np.inf])
    np.testing.assert_array_equal(measures.evaluations_to(regret, 3.5), [2, np.inf])


def made(problem, method, seed, regret):
    return {
        "problem": problem, "method": method, "seed": seed, "trials": len(regret), "minimum": 0.0, "regret": regret,
        "seconds": [0.1] * len(regret),
    }  # fmt: skip


def example(seeds=8):
    """On p, a is always lower than b; on q they win every other seed; c is missing on q."""
    rows = []
    for seed in range(seeds):
        rows += [made("p", "a", seed, [4.0, 1.0]), made("p", "b", seed, [4.0, 2.0]), made("p", "c", seed, [4.0, 3.0])]
        rows += [made("q", "a", seed, [2.0, float(seed % 2)]), made("q", "b", seed, [2.0, 1.0 - seed % 2])]
    return rows


def test_mean_ranks_count_problems_alike():
    rows = example()
    runs = measures.gather([r for r in rows if r["method"] != "c"], ["a", "b"])
    assert [r.problem for r in runs] == ["p", "q"]
    a, b = measures.mean_ranks(runs)
    assert (a.mean, b.mean) == (1.25, 1.75)
    assert a.low <= a.mean <= a.high
    assert a.low >= 1.0
    # If the bootstrap draws p twice, a has rank 1, and that happens in a quarter of all draws.
    assert a.low == 1.0


def test_duels():
    runs = measures.gather(example(), ["a", "b"])
    won, even = (measures.duel(r, ["a", "b"], "a") for r in runs)
    assert (won.verdict, won.won.mean, won.rival) == ("ahead", 1.0, "b")
    assert (even.verdict, even.won.mean) == ("level", 0.5)
    assert measures.duel(runs[0], ["a", "b"], "b").verdict == "behind"
    few = measures.gather(example(seeds=5), ["a", "b"])
    assert measures.duel(few[0], ["a", "b"], "a").verdict == measures.TOO_FEW
    assert "verdicts need 6." in markdown(example(seeds=5), methods=["a", "b"], ours="a")


@pytest.mark.parametrize(("wins", "losses", "ties", "verdict"), [
    (14, 5, 1, "level"), (4, 0, 16, "level"), (6, 0, 14, "ahead"), (16, 4, 0, "ahead"), (4, 16, 0, "behind"),
    (0, 0, 20, "level"),
])  # fmt: skip
def test_a_verdict_needs_the_exact_sign_test(wins, losses, ties, verdict):
    ours = [0.0] * wins + [2.0] * losses + [1.0] * ties
    rows = [made("p", "b", seed, [4.0, 1.0]) for seed in range(len(ours))]
    rows += [made("p", "a", seed, [4.0, regret]) for seed, regret in enumerate(ours)]
    (runs,) = measures.gather(rows, ["a", "b"])
    assert measures.duel(runs, ["a", "b"], "a").verdict == verdict


def test_noisy_problems_tell_what_a_user_would_pick():
    rows = [
        {**made("p", m, seed, [3.0, 1.0, 2.0]), "values": [3.0, 2.5, 2.0 + (m == "b")]}
        for m in "ab"
        for seed in range(2)
    ]
    (runs,) = measures.gather(rows, ["a", "b"])
    np.testing.assert_array_equal(runs.picked(), [[2.0, 2.0], [1.0, 1.0]])
    assert "| p | 3 | 2 | 2 | **1** |" in markdown(rows)


def test_runs_that_do_not_depend_on_the_seed_are_named():
    assert "a is one run for all seeds on p" in markdown(example(), methods=["a", "b"])


def test_the_rival_is_the_best_other():
    runs = measures.gather(example(), ["a", "b", "c"])
    assert measures.duel(runs[0], ["a", "b", "c"], "c").rival == "a"


def test_markdown_says_what_is_left_out():
    text = markdown(example(), ours="a")
    assert "Left out, since not every method has been run on them: q." in text
    assert "| a | 1.00 (1.00 to 1.00) |" in text
    assert "| p | 2 | 8 | **1** | 2 | 3 |" in text
    assert "ahead on 1, level on 0, behind on 0" in text
    with pytest.raises(PresageError, match="not \\['z'\\]"):
        markdown(example(), methods=["a", "z"])


def test_two_by_two_uses_the_seeds_of_each_pair():
    rows = [row for row in example() if row["method"] != "c" or row["seed"] < 3]
    rows += [made("p", "d", seed, [4.0, 1.0]) for seed in range(6)]
    told = {
        line.split(" | ")[0].strip("| "): line
        for line in two_by_two(measures.pairs(rows, list("abcde"), "a"), "a").splitlines()
        if line[:1] == "|"
    }
    assert told["b"].startswith("| b | 2 | 8 | 16 | 12 | 0 | 4 | 0.75 (")
    assert told["b"].endswith("| 1 | 1 | 0 |")
    assert told["c"] == "| c | 1 | 3 | 3 | 3 | 0 | 0 | 1.00 (1.00 to 1.00) | - | - | - |"  # too few for a verdict
    assert told["d"] == "| d | 1 | 6 | 6 | 0 | 6 | 0 | 0.50 (0.50 to 0.50) | 0 | 1 | 0 |"
    assert list(told)[2:] == ["d", "b", "c"]  # the nearest rival first; with e it has nothing in common
    # Seeds 0 to 3 with b, 4 to 7 with c: no seed is common to all three.
    apart = [row for row in rows if row["method"] == "a" or (row["method"] == "b") == (row["seed"] < 4)]
    assert [pair.seeds for pair in measures.pairs(apart, list("abd"), "a")] == [(2, 2), (4, 4)]


def test_versions_are_told_of_runs_in_the_table_only():
    rows = [{**row, "versions": {"code": f"{row['problem']}-{row['seed'] // 4}"}} for row in example()]
    assert "the runs of a were made by 4 different versions" in markdown(rows, methods=["a", "b"], ours="a")
    assert "the runs of a were made by 2 different versions" in markdown(rows, problems=["p"], ours="a")
    once = [row for row in rows if row["method"] == "a" or row["seed"] < 4]
    assert "different versions" not in markdown(once, problems=["p"], ours="a")


def test_figures():
    runs, names, _ = select(example(), [], ["a", "b"])
    curves, ranks = figures.curves(runs, names), figures.rank_curves(runs, names)
    assert [axis.get_title() for axis in curves.axes[:2]] == ["p (8)", "q (8)"]
    assert len(ranks.axes[0].lines) == 2
    np.testing.assert_allclose(ranks.axes[0].lines[0].get_ydata()[-1], 1.25)


# Runs.
def test_runs_are_kept_and_not_made_again(tmp_path):
    jobs = list(runner.jobs_for(["forrester", "curve_yacht"], ["random", "sobol"], [0, 1], {}))
    made = []
    assert runner.run(jobs[:5], tmp_path, workers=2, command="a test", tell=lambda job, _: made.append(job)) == []
    assert sorted(made) == sorted(jobs[:5])
    file = records.file_of(tmp_path, "random")
    before = file.read_text()
    assert json.loads(before.splitlines()[0])["command"] == "a test"
    with file.open("a") as stream:
        stream.write('{"problem": "forrester", "met')  # killed while it wrote
    made.clear()
    runner.run(jobs, tmp_path, tell=lambda job, _: made.append(job))
    assert sorted(made) == sorted(jobs[5:])
    assert file.read_text().startswith(before)
    found = {(r["problem"], r["method"], r["seed"]) for r in records.read(tmp_path)}
    assert found == {(j.problem, j.method, j.seed) for j in jobs}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_a_killed_run_leaves_no_process_and_what_was_finished(tmp_path):
    wanted = ["--list", "forrester", "--methods", "presage", "--seeds", "0:500", "--jobs", "2", "--out", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "presage", "bench", "run", *wanted], stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        while b"1/500" not in process.stderr.readline():
            assert process.poll() is None
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        process.kill()
    assert len(children) >= 2
    until = time.monotonic() + 20
    while any(running(pid) for pid in children):
        assert time.monotonic() < until, "a worker outlived the run"
        time.sleep(0.05)
    assert len(records.read(tmp_path)) >= 1


def test_an_interrupted_pool_ends_at_once():
    """Ctrl-C in the block must not wait for an hour's sleep, neither now nor when the interpreter ends."""
    children, others = [], {child.pid for child in multiprocessing.active_children()}  # of earlier tests

    def interrupted():
        with runner.processes(1) as pool:
            pool.submit(time.sleep, 3600)
            children.extend(child for child in multiprocessing.active_children() if child.pid not in others)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert children
    # Not by `join`: the pool's own thread waits for them too, and whoever comes second is told nothing.
    until = time.monotonic() + 60
    while any(running(child.pid) for child in children):
        assert time.monotonic() < until, "a process outlived its pool"
        time.sleep(0.05)


def running(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends while it is read
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_another_budget_is_another_run(tmp_path):
    records.append(tmp_path, made("forrester", "random", 0, [1.0]))
    assert records.done(tmp_path, ["random"], {"forrester": 20}) == set()
    assert records.done(tmp_path, ["random"], {"forrester": 1}) == {("forrester", "random", 0)}


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    jobs = [
        Job("forrester", "hebo", 0, sys.executable),
        Job("forrester", "hebo", 1, sys.executable),
        Job("forrester", "random", 0),
    ]
    failed = runner.run(jobs, tmp_path)
    assert [(f.job.seed, "hebo" in f.reason) for f in failed] == [(0, True)]  # asked once
    assert len(records.read(tmp_path)) == 1


# The command line.
def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_run_table_and_plot(tmp_path):
    wanted = ("run", "--list", "forrester", "--methods", "random,sobol", "--seeds", "0:2", "--out", tmp_path / "b")
    assert "4/4" in call(*wanted).stderr
    assert "4 of them there already" in call(*wanted).stderr
    said = call("table", "--out", tmp_path / "b", "--list", "development").stdout
    assert "1 problems, 2 seeds each, 2 methods." in said
    said = call("table", "--out", tmp_path / "b", "--two-by-two", "--ours", "sobol").stdout
    assert "| random | 1 | 2 | 2 | " in said
    call("plot", "--out", tmp_path / "b", "--two-by-two", "--ours", "sobol", "--to", tmp_path / "pairs")
    assert [path.name for path in (tmp_path / "pairs").iterdir()] == ["shares.png"]
    assert "--ours must be one of" in call("table", "--out", tmp_path / "b", "--two-by-two", code=1).stderr
    call("plot", "--out", tmp_path / "b", "--to", tmp_path / "figures")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"regrets.png", "ranks.png"}


def test_list_tells_all():
    told = json.loads(call("list", "--json", "--list", "branin,stages,reactor").stdout)
    assert [row["dimensions"] for row in told["problems"]] == [2, 9, 6]
    assert "optuna-tpe" in told["methods"]
    assert "presage:SURROGATE" in call("list", "--list", "branin").stdout


def test_mistakes_are_explained(tmp_path):
    assert "one of development, reported" in call("run", "--list", "reportd", code=1).stderr
    assert "a method must be one of" in call("run", "--methods", "bo", code=1).stderr
    assert "there is none" in call("table", "--out", tmp_path / "none", code=1).stderr
    for text in ("a", "1:b", "", "5:2"):
        with pytest.raises(Exception, match="seed"):
            seeds_of(text)
    with pytest.raises(Exception, match="METHOD=PATH"):
        pythons_of(["bo=python"])
    assert pythons_of(["hebo=a=b"]) == {"hebo": "a=b"}
    assert [p.name for p in choose("branin, reported")][:2] == ["branin", "goldstein_price"]


# The seeds' experiments.
def test_s5_ranks_after_20_and_53():
    rows = [
        made("p", name, seed, [4.0] * 20 + [last] * 33)
        for seed in range(3)
        for name, last in (("presage", 1.0), ("random", 2.0))
    ]
    runs, names, _ = select(rows, [], [])
    found = s5.ranks(runs)
    assert [[i.mean for i in found[after]] for after in (20, 53)] == [[1.5, 1.5], [1.0, 2.0]]
    said = s5.tell(runs, names).markdown()
    assert (
        "presage's default | not in the document | 1.50 (1.50 to 1.50) after 20; 1.00 (1.00 to 1.00) after 53 |" in said
    )
    assert len(s5.problems(False)) == 20
    assert set(s5.problems(True)) < set(s5.problems(False)) <= set(PROBLEMS)


def test_records_name_no_path_of_the_machine(monkeypatch):
    from presage.cli.bench import typed

    words = [
        "bench",
        "run",
        "--out",
        "/home/me/runs/one",
        "--python",
        "ax=/opt/ax/bin/python",
        "--out=/a/b",
        "-o",
        "here/it",
    ]
    monkeypatch.setattr(sys, "argv", ["presage", *words])
    assert typed() == "presage bench run --out one --python ax=python --out=b -o here/it"


# Ablations.
SMALL = Space({"x": Float(-1.0, 1.0), "y": Float(-1.0, 1.0)})


@pytest.mark.parametrize("name", ablations.VARIANTS)
def test_every_change_is_one(name):
    check(f"presage@{name}")
    change, default = ablations.variant(name), Study(SMALL, seed=0)
    study = Study(SMALL, seed=0, **change.settings(SMALL))
    settings = [(s._history.settings, s._history.header["initial"]) for s in (study, default)]
    assert (settings[0] != settings[1]) or not change.middle or change.together > 1


@pytest.mark.parametrize("name", ["smoother", "no-middle", "batch-4-believed"])
def test_changes_can_be_run(name):
    session = start(f"presage@{name}", SMALL, 8, 0)
    for _ in range(8):
        params = SMALL.check(session.ask())
        session.tell(params["x"] ** 2 + params["y"])
    assert session.study.trials[-1].source == "model"


def test_a_design_with_and_without_the_middle():
    wide = Space({f"x{i}": Float(0.0, 1.0) for i in range(6)})
    found = []
    for method in ("presage", "presage@no-middle"):
        session = start(method, wide, 9, 0)
        found.append([])
        for _ in range(9):
            found[-1].append(session.ask())
            session.tell(1.0)
    middle = dict.fromkeys(wide, 0.5)
    assert found[0].index(middle) == 1
    assert middle not in found[1]
    assert [found[0][0], *found[0][2:]] == found[1][:8]


def test_batches_are_asked_for_together():
    session = start("presage@batch-4", SMALL, 12, 0)
    for number in range(8):
        params = session.ask()
        assert len(session.study.trials) == 4 * (number // 4 + 1)
        session.tell(params["x"])


def test_ablations_are_told_against_the_default():
    rows = []
    for seed in range(8):
        rows += [made("p", "presage", seed, [4.0, 1.0]), made("p", "presage@gp", seed, [4.0, 2.0])]
        rows += [made("p", "presage@ei", seed, [4.0, float(seed % 2) * 2])]
    runs, names, _ = select(rows, [], ["presage", "presage@gp", "presage@ei"])
    text = ablations.markdown(runs, names)
    # On even seeds ei, the default and gp are first, second and third; on odd ones the others share the second place.
    default, ei, gp = text.splitlines()[2:5]
    assert default.startswith("| **the default** |  | 1.50 (")
    assert ei.startswith("| `ei` | EI, not its logarithm | 1.75 (")
    assert ei.endswith("| 0 | 1 | 0 |")
    assert gp.startswith("| `gp` | a plain Gaussian process | 2.75 (")
    assert gp.endswith("| 1 | 0 | 0 |")


def test_ablations_stay_on_the_development_list(tmp_path, monkeypatch):
    def run(jobs, folder, **more):
        for job in jobs:
            records.append(folder, made(job.problem, job.method, job.seed, [1.0] * 20))
        return []

    monkeypatch.setattr(runner, "run", run)
    said = call("ablate", "--changes", "ei", "-p", "forrester", "-s", "0", "--out", tmp_path).stdout
    assert "1 problems of the development list, 1 seed. " in said
    assert "EI, not its logarithm" in (tmp_path / "ablations.md").read_text()
    assert "only, but got 'beale'" in call("ablate", "-p", "beale", "--out", tmp_path, code=1).stderr
    assert "one of free, calm" in call("ablate", "--changes", "no", "--out", tmp_path, code=1).stderr
