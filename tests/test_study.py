"""What a user meets: asking, telling, running, stopping, resuming, and everything that goes wrong on the way."""

import math
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pytest

from presage import Choice, Constant, Float, Int, Space, Study, load_study, maximize, minimize
from presage.acquisitions import LogExpectedImprovement
from presage.errors import PresageError, SpaceError, SpaceExhausted, StudyError, TooManyFailures, TrialError
from presage.storage import MemoryStorage, open_storage
from presage.surrogates import GaussianProcess, Surrogate
from presage.trial import Failure, Outcome, usable

LINE = Space({"x": Float(0, 1)})
SQUARE = Space({"x": Float(-5, 10), "y": Float(0, 15)})
MIXED = Space({
    "x": Float(-5, 10), "lr": Float(1e-5, 1e-1, log=True), "n": Int(1, 40), "c": Choice(["a", "b", (1, 2)]),
    "w": Float(0, 1, when={"c": "b"}), "k": Constant(3),
})  # fmt: skip


def bowl(params):
    return (params["x"] - 1) ** 2 + (params.get("y", 2) - 2) ** 2


def mixed(params):
    return (params["x"] - 1) ** 2 + math.log10(params["lr"]) ** 2 / 10 + params["n"] / 10 + params.get("w", 0.5)


def quick(space=LINE, **settings):
    return Study(space, surrogate="random", seed=0, **settings)


def points(study):
    return [repr(trial.params) for trial in study.trials]


def states(study):
    return [trial.state for trial in study.trials]


# Telling.


def test_trials_are_told_in_any_order_by_trial_or_number():
    study = Study(SQUARE, seed=0)
    first, *rest = [study.ask() for _ in range(4)]
    study.tell(rest[2], 3)
    study.tell(1, np.float32(1.5))
    study.tell(np.int64(0), np.array(0.25))
    assert [(t.number, t.state, t.value) for t in study.trials] == [
        (0, "complete", 0.25), (1, "complete", 1.5), (2, "running", None), (3, "complete", 3.0),
    ]  # fmt: skip
    assert study.best.number == 0
    assert study.best.params == first.params
    assert all(type(t.value) is float for t in study.trials if t.values)


def test_a_trial_is_told_once():
    study = quick()
    trials = study.ask(3)
    study.tell(trials[0], 1.0)
    study.tell(trials[1], failed="broke")
    for trial, known in ((0, "value 1.0"), (trials[0], "value 1.0"), (1, "broke")):
        with pytest.raises(TrialError, match=f"told once, but trial .* has .*{known}"):
            study.tell(trial, 2.0)
        with pytest.raises(TrialError, match="must be running"):
            study.interrupt(trial)
    assert [t.value for t in study.trials] == [1.0, None, None]


def test_wrong_tells_are_explained_and_change_nothing():
    study = quick()
    trial = study.ask()
    seen = study.storage.read(study.name)
    for call, message in (
        (lambda: study.tell(1, 1.0), "from 0 to 0, but got 1"), (lambda: study.tell(-1, 1.0), "but got -1"),
        (lambda: study.tell("0", 1.0), "a Trial or its number, but got '0'"), (lambda: study.tell(True, 1.0), "True"),
        (lambda: study.tell(trial), "a value or failed="), (lambda: study.tell(trial, 1.0, failed="x"), "or failed="),
        (lambda: study.tell(trial, "1.0"), "one finite number, but got str '1.0'"),
        (lambda: study.tell(trial, [1.0]), "got list"), (lambda: study.tell(trial, np.ones(2)), "got ndarray"),
        (lambda: study.tell(trial, True), "got bool True"), (lambda: study.tell(trial, 10**400), "one finite number"),
        (lambda: study.tell(trial, 1, stddev=-1), "stddev >= 0"), (lambda: study.tell(trial, 1, stddev=np.nan), "nan"),
        (lambda: study.tell(trial, 1.0, metrics={"loss": "low"}), "metric 'loss' must be one finite number"),
        (lambda: study.tell_many([{"x": 0.5}], [1.0, 2.0]), "equally many, but got 1 and 2"),
        (lambda: study.tell_many([{"x": 0.5}, {"x": 2}], [1.0, 2.0]), "0.0 <= value <= 1.0"),
        (lambda: study.tell_many([{"x": 0.5}], [math.nan]), "got nan"), (lambda: study.enqueue({"x": 2}), "0.0 <="),
        (lambda: study.ask(0), "1 or more, but got 0"), (lambda: study.ask(1.5), "whole number"),
    ):  # fmt: skip
        with pytest.raises(PresageError, match=message):
            call()
    assert study.storage.read(study.name) == seen


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float32("nan"), np.array(-np.inf)])
def test_a_value_that_is_not_finite_is_a_failure(value):
    study = quick()
    study.tell(study.ask(), value)
    (trial,) = study.trials
    assert (trial.state, trial.value, trial.failure.kind) == ("failed", None, "invalid")
    with pytest.raises(StudyError, match=r"must have a complete trial.*1 failed, the last: a value must be"):
        _ = study.best


def test_what_is_told_is_kept():
    study = quick(SQUARE)
    trial = study.ask()
    trial.report(1, 0.5)
    study.tell(trial, 1.0, stddev=0.1, metrics={"epochs": 3, "loss": np.float64(0.5)})
    (kept,) = study.trials
    assert (kept.stddev, dict(kept.metrics), kept.reports) == (0.1, {"epochs": 3.0, "loss": 0.5}, [(1, 0.5)])
    study.tell_many([{"x": 1, "y": 2.5}], [3], stddev=[0.2])
    assert (study.trials[1].params, study.trials[1].source, study.trials[1].stddev) == (
        {"x": 1.0, "y": 2.5},
        "told",
        0.2,
    )
    data = study._history.observations()
    assert np.allclose(np.sqrt(data.noise) * data.scale, [0.1, 0.2])


def test_data_from_elsewhere_stand_for_the_initial_design():
    study = Study(SQUARE, seed=0, initial=5)
    rng = np.random.default_rng(0)
    known = [SQUARE.decode(u) for u in rng.random((8, 2))]
    study.tell_many(known, [bowl(p) for p in known])
    assert study.tell_many([], []) == []
    trial = study.ask()
    assert (trial.number, trial.source) == (8, "model")
    assert trial.params not in known


# Asking.


def test_the_middle_of_the_space_comes_second_in_many_dimensions():
    first, second, third = Study(MIXED, seed=0).ask(3)
    assert (second.params["x"], second.params["c"], second.params["w"]) == (2.5, "b", 0.5)
    assert second.params["lr"] == pytest.approx(1e-3)  # of a log axis
    assert second.params["n"] in (20, 21)
    assert {trial.source for trial in (first, second, third)} == {"initial"}
    few = Study(SQUARE, seed=0).ask(3)
    assert {"x": 2.5, "y": 7.5} not in [trial.params for trial in few]


def test_a_middle_that_is_not_legal_is_left_out():
    cube = Space({name: Float(-1, 1) for name in "abcdef"}, constraints=[lambda p: max(map(abs, p.values())) > 0.5])
    trials = Study(cube, seed=0).ask(8)
    assert all(cube.satisfies(trial.params) for trial in trials)


def test_enqueued_points_come_first_even_again():
    study = Study(SQUARE, seed=0)
    study.tell(study.ask(), 1.0)
    known = study.trials[0].params
    study.enqueue({"x": 1, "y": 2})
    study.enqueue(known)
    first, second, third = study.ask(3)
    assert [first.params, second.params] == [{"x": 1.0, "y": 2.0}, known]
    assert (first.source, third.source) == ("enqueued", "initial")
    assert third.params not in (first.params, known)


def test_start_points_are_tried_first_and_once(tmp_path):
    start = [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    for _ in range(2):  # the second call finds the study finished
        result = minimize(
            bowl, SQUARE, 4, start=start, seed=0, surrogate="random", storage=tmp_path / "s.db", progress=False
        )
        assert [t.params for t in result.trials[:2]] == [{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 4.0}]
        assert len(result.trials) == 4
        result.study.storage.close()


FINITE = {
    "ints": Space({"a": Int(0, 5), "b": Int(0, 5)}, constraints=[lambda p: p["a"] != p["b"]]),
    "conditional": Space({"c": Choice(["a", "b", "d"]), "n": Int(1, 14, when={"c": ["b", "d"]}), "k": Constant(1)}),
    "steps": Space({"s": Float(0, 1, step=0.1), "f": Choice([True, False])}),
}  # fmt: skip


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("batch", [1, 4])
def test_a_finite_space_is_used_up_without_repetition(name, batch):
    study = Study(FINITE[name], seed=0, initial=4)
    size = FINITE[name].size
    while len(study.trials) < size:
        for trial in study.ask(batch):
            if trial.number % 3:  # others stay pending
                study.tell(trial, float(trial.number % 7))
    assert len(set(points(study))) == len(points(study)) == size
    with pytest.raises(SpaceExhausted, match=f"{size} trials in all"):
        study.ask()
    assert study.optimize(lambda p: 0.0, 10 * size).stopped == "exhausted"


def test_replicates_are_given_where_asked_for():
    study = Study(Space({"n": Int(0, 3)}), seed=0, replicates=3, initial=2)
    result = study.optimize(lambda p: p["n"] + 0.1, 100)
    assert result.stopped == "exhausted"
    assert sorted(t.params["n"] for t in result.trials) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_no_point_is_suggested_twice(count):
    study = Study(MIXED, seed=0)
    pending = []
    for _ in range(count):
        pending.append(study.ask())
        if len(pending) > 4:
            trial = pending.pop(1)
            study.tell(trial, mixed(trial.params))
    assert len(set(points(study))) == count
    for trial in study.trials:
        assert repr(MIXED.check(trial.params)) == repr(trial.params)
        assert type(trial.params["n"]) is int


def test_a_narrow_axis_is_not_repeated_either():
    """Twenty floats: different points of the cube that are the same number."""
    study = Study(Space({"x": Float(1.0, 1.0 + 20 * np.finfo(float).eps)}), seed=0, initial=2)
    for trial in study.ask(3):
        study.tell(trial, trial.params["x"])
    study.ask(6)
    assert len(set(points(study))) == 9


def test_a_batch_spreads_out():
    """On a function that the model cannot know after eight points; of a bowl it knows the bottom exactly by then."""
    study = Study(SQUARE, seed=0)
    study.optimize(lambda p: math.sin(p["x"]) * math.cos(p["y"]) + 0.1 * p["x"], 8)
    batch = np.array([[t.params["x"], t.params["y"]] for t in study.ask(5)])
    gaps = np.linalg.norm(batch[:, None] - batch[None], axis=2)[~np.eye(5, dtype=bool)]
    assert gaps.min() > 0.01


def test_other_processes_trials_are_not_ours():
    """Another process commits a trial between our commit and our next look."""

    class Busy(MemoryStorage):
        def append(self, study, payloads, **options):
            payloads = list(payloads)
            last = super().append(study, payloads, **options)
            if payloads[0]["type"] == "suggested":
                number = payloads[-1]["number"] + 1
                other = {**payloads[-1], "number": number, "owner": "elsewhere:1:1", "params": {"x": number / 100}}
                super().append(study, [other], claims=[f"number:{number}"])
                super().renew(study, other["owner"], 60.0)
            return last

    study = quick(storage=Busy())
    assert [trial.number for trial in study.ask(2)] == [0, 1]
    assert study.ask().number == 3
    assert len(study.trials) == 5


def test_threads_may_share_a_study():
    study = quick()

    def work(_):
        mine = []
        for _ in range(10):
            trial = study.ask()
            study.tell(trial, trial.params["x"])
            mine.append(trial.number)
        return mine

    with ThreadPoolExecutor(4) as pool:
        numbers = sorted(n for mine in pool.map(work, range(4)) for n in mine)
    assert numbers == list(range(40))
    assert states(study) == ["complete"] * 40


def test_two_studies_on_one_file_share_their_trials(tmp_path):
    with closing(open_storage(tmp_path / "s.db")) as one, closing(open_storage(tmp_path / "s.db")) as other:
        studies = [quick(storage=place) for place in (one, other)]
        trials = [studies[i % 2].ask() for i in range(6)]
        assert [trial.number for trial in trials] == list(range(6))
        studies[0].tell(trials[1], 1.0)
        assert studies[1].trials[1].value == 1.0
        with pytest.raises(TrialError, match="told once"):
            studies[1].tell(trials[1], 2.0)


# Repeatability and units.


def run(objective, space=SQUARE, trials=12, **settings):
    study = Study(space, **settings)
    study.optimize(objective, trials)
    return points(study)


def test_the_seed_decides():
    assert run(bowl, seed=1) == run(bowl, seed=1) != run(bowl, seed=2)
    study = Study(SQUARE)
    assert run(bowl, trials=4) != [*points(study.optimize(bowl, 4).study)]  # a new seed each time
    assert run(bowl, trials=4, seed=study.seed) == points(study)


def test_maximising_is_minimising_the_negative():
    assert run(bowl, seed=1) == run(lambda p: -bowl(p), seed=1, direction="maximize")
    down, up = Study(SQUARE, seed=0), Study(SQUARE, seed=0, direction="maximize")
    down.optimize(bowl, 8)
    up.optimize(lambda p: -bowl(p), 8)
    here = {"x": 0.0, "y": 3.0}
    assert (up.best.value, up.best.params) == (-down.best.value, down.best.params)
    assert up.predict(here) == (-down.predict(here).mean, down.predict(here).stddev)
    assert maximize(lambda p: -bowl(p), SQUARE, 8, seed=0, progress=False).best.value == up.best.value


def told(scale=1.0, offset=0.0):
    """A study told sixteen values that are multiples of 1/64, so that sums, means and such scalings are exact."""
    study = Study(SQUARE, seed=3)
    known = [SQUARE.decode(u) for u in np.random.default_rng(0).random((16, 2))]
    study.tell_many(known, [offset + scale * round(64 * bowl(p) / 100) / 64 for p in known])
    return study


UNITS = [(4.0, 0.0), (1.0, 3.0), (0.25, -64.0), (1.0, 2.0**40), *((2.0**power, 0.0) for power in (-990, -60, 60, 1000))]


@pytest.mark.parametrize(("scale", "offset"), UNITS)
def test_units_do_not_matter(scale, offset):
    plain, other = told(), told(scale, offset)
    here = {"x": 0.0, "y": 3.0}
    before, after = plain.predict(here), other.predict(here)
    # The values are exact, the way back to the user's units rounds a few times.
    rounding = 1e-14 * (abs(offset) + scale * abs(before.mean))
    assert abs(after.mean - (offset + scale * before.mean)) <= rounding
    assert after.stddev == pytest.approx(scale * before.stddev, rel=1e-12)
    assert other.ask().params == plain.ask().params


def test_predictions_are_in_the_users_units():
    def f(params):
        return 1000 + 50 * math.sin(params["x"] / 3) + params["y"]

    study = Study(SQUARE, seed=0)
    known = [SQUARE.decode(u) for u in np.random.default_rng(1).random((40, 2))]
    study.tell_many(known, [f(p) for p in known])
    for params in known[:6]:  # without noise, the values themselves, to a hundredth of their spread
        mean, stddev = study.predict(params)
        assert abs(mean - f(params)) < 0.5
        assert 0 < stddev < 0.5
    for params in [SQUARE.decode(u) for u in np.random.default_rng(2).random((6, 2))]:
        mean, stddev = study.predict(params)
        assert abs(mean - f(params)) < min(5, 6 * stddev)  # a tenth of their spread, and it knows how sure it is
    mean, _ = study.posterior().predict(SQUARE.encode(params)[None])
    data = study._history.observations()
    assert study.predict(params).mean == data.center + data.scale * mean[0]
    with pytest.raises(SpaceError, match="must name 'y'"):
        study.predict({"x": 1})
    with pytest.raises(StudyError, match="at least one value"):
        Study(SQUARE).predict({"x": 1, "y": 2})


# Spaces.


def test_a_conditional_space_is_searched_on_both_sides():
    space = Space({
        "kind": Choice(["linear", "tree"]), "slope": Float(-1, 1, when={"kind": "linear"}),
        "depth": Int(1, 20, when={"kind": "tree"}), "leaf": Float(1e-4, 1, log=True, when={"kind": "tree"}),
    })  # fmt: skip

    def f(p):
        return (
            1 + p["slope"] ** 2 if p["kind"] == "linear" else abs(p["depth"] - 7) / 10 + abs(math.log10(p["leaf"]) + 2)
        )

    best = minimize(f, space, 40, seed=0, progress=False).best
    assert best.params["kind"] == "tree"
    assert best.value < 0.3


@pytest.mark.parametrize("width", [0.5, 1e-3])
def test_constraints_are_respected(width):
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, constraints=[lambda p: abs(p["x"] - p["y"]) < width])
    result = minimize(lambda p: (p["x"] - 0.3) ** 2 + p["y"], space, 15, seed=0, progress=False)
    assert all(abs(t.params["x"] - t.params["y"]) < width for t in result.trials)
    assert len(set(points(result.study))) == 15
    assert result.best.value < 0.2
    with pytest.raises(SpaceError, match="must satisfy the space's constraints"):
        result.study.enqueue({"x": 0, "y": 1})


def test_constraints_that_nothing_satisfies():
    with pytest.raises(SpaceError, match=r"none of .* random ones does; loosen them"):
        Study(Space({"x": Float(0, 1)}, constraints=[lambda p: p["x"] > 2]), seed=0).ask()
    with pytest.raises(SpaceError, match="none of the space does; loosen them"):
        Study(Space({"n": Int(0, 1)}, constraints=[lambda p: p["n"] > 2]), seed=0).ask()


def test_a_space_grows_under_a_running_study():
    study = Study(SQUARE, seed=0)
    study.optimize(bowl, 8)
    old = points(study)
    wider = Space({"x": Float(-20, 20), "y": Float(0, 15), "c": Choice(["a", "b"], default="b")})
    study.update_space(wider)
    assert points(study) == old
    study.optimize(lambda p: bowl(p) - 5 * (p["c"] == "a"), 30)
    assert study.best.params["c"] == "a"
    assert study.best.value < -3
    assert any(t.params["x"] < -5 or t.params["x"] > 10 for t in study.trials)
    for space, message in (
        (LINE, "trial 0 must be legal in the new space too: .*'y'"), (Space({**SQUARE, "x": Float(0, 1)}), "trial 0"),
        (Space({**wider, "z": Int(0, 3)}), "must name 'z'"),
    ):  # fmt: skip
        with pytest.raises(SpaceError, match=message):
            study.update_space(space)
    assert study.space == wider


# Opening again.


@dataclass(frozen=True)
class Mine(Surrogate):
    def fit(self, data, *, rng, previous=None, keep=False):
        return GaussianProcess().fit(data, rng=rng, previous=previous, keep=keep)


def test_load_study_wants_back_what_json_cannot_hold():
    storage = MemoryStorage()
    rule = lambda p: p["x"] < p["y"]  # noqa: E731
    ruled = Space(SQUARE, constraints=[rule])
    Study(ruled, storage=storage, name="ruled", seed=0).optimize(bowl, 3)
    Study(SQUARE, storage=storage, name="own", seed=0, surrogate=Mine(), acquisition=LogExpectedImprovement())
    Study(
        SQUARE, storage=storage, name="plain", seed=5, direction="maximize", initial=2, surrogate="random", replicates=2
    )
    for arguments, message in (
        ({}, r"name must be one of \['own', 'plain', 'ruled'\], but got None"), ({"name": "other"}, "but got 'other'"),
        ({"name": "ruled"}, "has constraints, which are not stored; pass space="),
        ({"name": "own"}, r"was made with surrogate Mine\(\); pass surrogate="),
        ({"name": "own", "surrogate": Mine()}, "pass acquisition="),
        ({"name": "ruled", "space": SQUARE}, "its space must be"),
    ):  # fmt: skip
        with pytest.raises(StudyError, match=message):
            load_study(storage, **arguments)
    again = load_study(storage, "ruled", space=Space(SQUARE, constraints=[rule]))
    assert len(again.trials) == 3
    assert again.ask().params["x"] < again.trials[-1].params["y"]
    own = load_study(storage, "own", surrogate=Mine(), acquisition=LogExpectedImprovement())
    assert own.optimize(bowl, 8).trials[-1].source == "model"
    plain = load_study(storage, "plain")
    assert (plain.seed, plain.direction, plain._history.header["initial"]) == (5, "maximize", 2)
    assert plain.optimize(bowl, 4).trials[-1].source == "random"


def test_an_existing_name_is_opened_only_as_what_it_is(tmp_path):
    def open_(space=SQUARE, **settings):
        study = Study(space, storage=tmp_path / "s.db", name="a", **settings)
        study.storage.close()
        return study

    study = open_(seed=1)
    study.ask()
    assert open_().seed == 1
    assert len(open_(seed=1).trials) == 1
    for arguments, message in (
        ({"space": LINE}, "its space must be .*update_space"), ({"direction": "maximize"}, "its direction must be"),
        ({"seed": 2}, "its seed must be 1, but got 2"),
    ):  # fmt: skip
        with pytest.raises(StudyError, match=message):
            open_(**arguments)
    study.storage.close()


def test_wrong_settings_are_explained():
    for arguments, message in (
        ({"direction": "up"}, "'minimize' or 'maximize', but got 'up'"), ({"initial": 0}, "initial must be"),
        ({"seed": -1}, "seed must be .* 0 or more, but got -1"), ({"seed": True}, "but got True"),
        ({"replicates": 0}, "replicates must be"), ({"surrogate": "gpp"}, r"\['auto', .*\] or a Surrogate"),
        ({"acquisition": "ei!"}, r"'logei'.*\] or a Acquisition, but got 'ei!'"),
    ):  # fmt: skip
        with pytest.raises(StudyError, match=message):
            Study(LINE, **arguments)
    with pytest.raises(SpaceError, match="non-empty dictionary"):
        Study(None)
    assert Study({"x": Float(0, 1)}).space == LINE
    study = quick()
    for arguments, message in (
        ({}, "at least one of trials, seconds, target and patience"), ({"trials": 0}, "trials > 0 must hold"),
        ({"trials": 3, "patience": -1}, "patience > 0"), ({"trials": 3, "executor": "cloud"}, "but got 'cloud'"),
        ({"trials": 3, "timeout": 1, "executor": "serial"}, "timeout needs executor='processes'"),
    ):  # fmt: skip
        with pytest.raises(StudyError, match=message):
            study.optimize(bowl, **arguments)
    with pytest.raises(StudyError, match="must be callable"):
        study.optimize(3, 5)
    assert study.trials == []


# Stopping.


def test_trials_count_what_is_there_already():
    study = quick()
    study.tell_many([{"x": 0.1}, {"x": 0.2}], [1, 2])
    calls = []
    assert study.optimize(lambda p: calls.append(p) or 1.0, 5).stopped == "trials"
    assert len(calls) == 3
    assert study.optimize(lambda p: calls.append(p) or 1.0, 5).stopped == "trials"
    assert len(calls) == 3


def test_seconds_target_and_patience():
    assert quick().optimize(lambda p: time.sleep(0.02) or 1.0, seconds=0.1).stopped == "seconds"
    study = quick()
    assert study.optimize(lambda p: p["x"], 1000, target=0.2).stopped == "target"
    assert study.best.value <= 0.2
    assert all(t.value > 0.2 for t in study.trials[:-1])
    assert quick(direction="maximize").optimize(lambda p: p["x"], 1000, target=0.8).best.value >= 0.8
    # Fails do not count; the best comes third, two more without progress end it.
    values = iter([3.0, 2.0, 1.0, math.nan, 5.0, 1.0, 0.0])
    result = quick().optimize(lambda p: next(values), patience=2)
    assert result.stopped == "patience"
    assert [t.value for t in result.trials] == [3.0, 2.0, 1.0, None, 5.0, 1.0]
    assert quick().optimize(lambda p: 1.0, 5, target=0.0, patience=50).stopped == "trials"


def test_callbacks_see_each_trial_and_may_stop():
    seen = []

    def callback(study, trial):
        seen.append((trial.number, trial.state, len(study.trials)))
        if trial.number == 3:
            study.stop()

    def f(params):
        if len(seen) == 1:
            raise ValueError
        return 1.0

    study = quick()
    assert study.optimize(f, 100, callbacks=[callback]).stopped == "callback"
    assert seen == [(0, "complete", 1), (1, "failed", 2), (2, "complete", 3), (3, "complete", 4)]
    assert study.optimize(lambda p: 1.0, 6).stopped == "trials"  # a new run, a new chance


# Failing.


def test_what_an_objective_may_do_instead_of_returning_a_number():
    outcomes = [
        None,
        "1.0",
        np.ones(3),
        math.nan,
        -math.inf,
        [1.0],
        {"loss": 1},
        1 + 2j,
        10**400,
        ValueError("no"),
        SystemExit(3),
    ]

    def f(params, trial):
        if trial.number >= len(outcomes):
            return 1
        value = outcomes[trial.number]
        if isinstance(value, BaseException):
            raise value
        return value

    study = Study(LINE, seed=0)
    result = study.optimize(f, 16, max_failures=20)
    assert result.stopped == "trials"
    assert states(study) == ["failed"] * len(outcomes) + ["complete"] * (16 - len(outcomes))
    kinds = [t.failure.kind for t in study.trials[: len(outcomes)]]
    assert kinds == ["invalid"] * 9 + ["error"] * 2
    assert "ValueError: no" in study.trials[9].failure.traceback
    assert len(set(points(study))) == 16


def test_too_many_failures_in_a_row_end_it_with_the_last_traceback():
    def f(params, trial):
        if trial.number == 2:
            return 1.0
        raise RuntimeError(f"boom {trial.number}")

    study = quick()
    with pytest.raises(TooManyFailures, match=r"failed 4 times in a row(.|\n)*in f\n(.|\n)*RuntimeError: boom 6"):
        study.optimize(f, 100, max_failures=4)
    assert states(study) == ["failed", "failed", "complete", "failed", "failed", "failed", "failed"]
    assert study.optimize(lambda p: 2.0, 9).stopped == "trials"


def test_failures_are_learned_from():
    """It fails where x > 4, although the best values would be there; random points fail with probability 0.4."""

    def f(params):
        if params["x"] > 4:
            raise MemoryError
        return -params["x"] + (params["y"] - 5) ** 2 / 10

    failures = 0
    for seed in range(3):
        study = Study(SQUARE, seed=seed, initial=8)
        study.optimize(f, 33, max_failures=100)
        failures += sum(t.state == "failed" for t in study.trials[8:])
        assert study.best.value < -2
    assert failures <= 15  # of 75; chance gives 30 with a standard deviation of 4.2


def test_a_run_in_which_nothing_ever_worked_says_nothing_about_the_points():
    """A mistake in the objective, mended before the second run, must not keep the search away from where it failed."""
    study = Study(SQUARE, seed=0)
    with pytest.raises(TooManyFailures):
        study.optimize(lambda params: undefined, 20, max_failures=5)
    study.optimize(lambda params: params["x"], 8)
    assert states(study) == ["failed"] * 5 + ["complete"] * 3
    assert not study._history.observations().failed.any()
    # A run that worked is believed, in what failed before its first value too.
    other = Study(SQUARE, seed=0)
    values = iter([None, None, 1.0, 2.0, None])
    other.optimize(lambda params: usable(next(values)), 5)
    assert states(other) == ["failed"] * 2 + ["complete"] * 2 + ["failed"]
    assert other._history.observations().failed.sum() == 3


def test_a_lost_worker_says_nothing_about_the_point():
    study = Study(SQUARE, seed=0)
    trial = study.ask()
    for attempt in (1, 2):
        study.tell_outcome(trial, Outcome(failure=Failure("lost", "gone")))
        trial = study.ask()
        assert (trial.number, trial.attempt) == (0, attempt + 1)
    study.tell_outcome(trial, Outcome(failure=Failure("lost", "gone")))
    assert states(study) == ["failed"]
    assert not study._history.observations().failed.any()


# Ctrl-C and other ends.


def test_ctrl_c_leaves_a_consistent_study_and_its_trial_comes_first(capsys):
    study = Study(SQUARE, seed=0)
    reference = run(bowl, seed=0, trials=9)

    def f(params, trial):
        if trial.number == 7 and not interrupted:
            interrupted.append(trial.params)
            signal.raise_signal(signal.SIGINT)
        return bowl(params)

    interrupted = []
    assert study.optimize(f, 9).stopped == "interrupted"
    assert f"Best so far: {study.best.value:g}" in capsys.readouterr().err
    assert states(study) == ["complete"] * 7 + ["waiting"]
    for _ in range(5):  # however often it is interrupted
        study.interrupt(study.ask())
    assert study.optimize(f, 9).stopped == "trials"
    assert study.trials[7].params == interrupted[0]
    assert points(study) == reference
    quick().optimize(lambda p: signal.raise_signal(signal.SIGINT), 3)
    assert "No value yet" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_runs_is_given_back_when_a_run_ends_early(error):
    study = quick()
    together, release = threading.Barrier(3, timeout=20), threading.Event()

    def callback(study, trial):
        raise error

    def f(params, trial):
        together.wait()
        if trial.number:
            release.wait(20)
        return 1.0

    began = time.monotonic()
    try:
        study.optimize(f, 9, workers=3, executor="threads", callbacks=[callback])
    except ValueError:
        assert error is ValueError
    finally:
        release.set()
    assert time.monotonic() - began < 10  # it does not wait for what it cannot stop
    assert states(study) == ["complete", "waiting", "waiting"]
    assert study.optimize(lambda p: 1.0, 9).stopped == "trials"
    assert states(study) == ["complete"] * 9


def test_a_trial_that_was_asked_for_and_forgotten_holds_nothing_up():
    study = quick()
    study.ask()
    assert study.optimize(lambda p: 1.0, 5).stopped == "trials"
    assert states(study) == ["running"] + ["complete"] * 5


# In parallel.


def test_threads_run_at_once_and_do_not_wait_for_each_other():
    """Three must run together to begin; then trial 0 ends only after five others have."""
    together, others = threading.Barrier(3, timeout=20), threading.Semaphore(0)

    def f(params, trial):
        if trial.number < 3:
            together.wait()
        if trial.number == 0:
            assert all(others.acquire(timeout=20) for _ in range(5))
        others.release()
        return bowl(params)

    study = Study(SQUARE, seed=0)
    result = study.optimize(f, 12, workers=3, executor="threads")
    assert (result.stopped, states(study)) == ("trials", ["complete"] * 12)
    assert len(set(points(study))) == 12
    order = sorted(study.trials, key=lambda trial: trial.finished)
    assert [trial.number for trial in order].index(0) >= 4  # the fifth may be told just after it


def elsewhere(params):
    if params["x"] > 9:
        raise RuntimeError("too far")
    return bowl(params)


def test_processes():
    study = Study(SQUARE, seed=0)
    study.enqueue({"x": 9.5, "y": 1})
    result = study.optimize(elsewhere, 10, workers=2, executor="processes")
    assert result.stopped == "trials"
    failed, *good = study.trials
    assert failed.failure.message == "RuntimeError: too far"
    assert all(t.value == bowl(t.params) for t in good if t.values)
    assert len(set(points(study))) == 10


# Numerical extremes: no crash, no warning (they are errors here), no NaN.


def sound(study):
    mean, stddev = study.predict(study.best.params)
    assert math.isfinite(mean)
    assert math.isfinite(stddev)
    trial = study.ask()
    study.space.check(trial.params)
    return trial


VALUES = {
    "zero": lambda x: 0.0, "constant": lambda x: 3.7, "large constant": lambda x: 1e12 / 3, "huge": lambda x: 1e300 * x,
    "both ends": lambda x: math.copysign(1.7e308, x - 0.4), "tiny": lambda x: 1e-300 * x,
    "denormal": lambda x: 5e-324 * round(9 * x),
    "offset": lambda x: 1e12 + x, "step": lambda x: float(x > 0.5), "outlier": lambda x: 1e15 if x > 0.7 else x,
    "spike": lambda x: 1 / max(abs(x - 0.5), 1e-18),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_of_any_size(name):
    study = Study(LINE, seed=0)
    for _ in range(8):
        trial = study.ask()
        study.tell(trial, VALUES[name](trial.params["x"]))
    assert len(set(points(study))) == 8
    sound(study)


def test_one_observation():
    study = Study(SQUARE, seed=0, initial=1)
    study.tell(study.ask(), 5.0)
    assert sound(study).source == "model"


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_one_point_thirty_times(noise):
    study = Study(SQUARE, seed=0)
    for k in range(30):
        study.enqueue({"x": 1, "y": 2})
        study.tell(study.ask(), 5.0 + noise * math.sin(k))
    mean, _ = study.predict({"x": 1, "y": 2})
    assert mean == pytest.approx(np.mean([t.value for t in study.trials]), abs=0.2)
    assert sound(study).source == "model"


def test_a_surrogate_that_cannot_be_fitted_makes_way_for_chance():
    class Broken(Surrogate):
        def fit(self, data, *, rng, previous=None, keep=False):
            raise np.linalg.LinAlgError("singular")

    study = Study(LINE, seed=0, surrogate=Broken(), initial=2)
    for trial in study.ask(2):
        study.tell(trial, 1.0)
    with pytest.warns(UserWarning, match=r"Broken could not be fitted \(singular\); suggesting at random"):
        assert study.ask().source == "random"


def test_a_study_says_what_it_is():
    study = quick(name="cake")
    assert repr(study) == "Study('cake', minimize, 0 trials, 0 finished)"
    study.optimize(lambda p: 0.25, 2)
    assert repr(study) == "Study('cake', minimize, 2 trials, 2 finished, best=0.25)"


@pytest.mark.parametrize("stddev", [1e160, 1.7e308])
def test_a_value_without_any_certainty_does_no_harm(stddev):
    study = Study({"x": Float(0, 1)}, seed=0, initial=3)
    for value in (1e-9, 2e-9, 5e-9, 3e-9):
        study.tell(study.ask(), value, stddev=stddev if value == 5e-9 else None)
    assert 0.0 <= study.ask().params["x"] <= 1.0


@pytest.mark.parametrize("seed", range(4))
def test_failures_among_the_first_trials_do_not_repeat_a_point(seed):
    """Two successes and a failure make nobody sure; the next point is still a new one."""

    def half(params):
        if params["x"] > 0.5:
            raise ValueError("no")
        return abs(params["x"] - 0.2)

    tried = [t.params["x"] for t in minimize(half, LINE, trials=8, seed=seed, progress=False).trials]
    assert np.diff(np.sort(tried)).min() > 1e-6
