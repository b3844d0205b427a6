"""presage in Optuna: Optuna's own suite for samplers, and what presage promises beyond it."""

import json
import math
import os
import pickle
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

import presage
from presage import Choice, Constant, Float, Int, Space
from presage.audit import audit
from presage.errors import SpaceError, StudyError
from presage.history import History
from presage.sobol import sobol
from presage.suggester import Suggester

pytestmark = pytest.mark.needs("optuna")
REQUIRED = "optuna" in os.environ.get("PRESAGE_REQUIRE", "").split(",")
try:
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.trial import TrialState, create_trial

    from presage.integrations.optuna import PresageSampler, from_optuna, to_optuna
    from presage.integrations.optuna_mirror import Mirror
    from presage.integrations.optuna_spaces import dimension_of, distribution_of

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    from optuna.testing import pytest_samplers as suite  # since Optuna 5
except ImportError:
    if REQUIRED:
        raise
    suite = SimpleNamespace(
        BasicSamplerTestCase=object, RelativeSamplerTestCase=object, SingleOnlySamplerTestCase=object
    )


# Optuna's suite.
class _Ours:
    @pytest.fixture
    def sampler(self):
        return PresageSampler


class TestBasic(_Ours, suite.BasicSamplerTestCase):
    pass


class TestRelative(_Ours, suite.RelativeSamplerTestCase):
    pass


class TestSingleOnly(_Ours, suite.SingleOnlySamplerTestCase):
    pass


# The same suggestions as presage's own.
SPACE = Space({
    "z": Float(-1, 2), "lr": Float(1e-5, 1e-1, log=True), "n": Int(8, 64, step=8),
    "act": Choice(["relu", "tanh", None]),
})  # fmt: skip


def loss(params):
    if params["z"] > 1.5:
        raise ValueError("too far")
    size = abs(math.log10(params["lr"]) + 3) + abs(params["n"] - 24) / 64
    return size + (params["z"] - 0.4) ** 2 + (params["act"] != "tanh")


def suggest(trial):
    """In the order of SPACE, which is not that of the alphabet."""
    return {
        "z": trial.suggest_float("z", -1, 2), "lr": trial.suggest_float("lr", 1e-5, 1e-1, log=True),
        "n": trial.suggest_int("n", 8, 64, step=8), "act": trial.suggest_categorical("act", ["relu", "tanh", None]),
    }  # fmt: skip


def optimised(sampler, count, storage=None, **options):
    study = optuna.create_study(sampler=sampler, storage=storage, **options)
    study.optimize(lambda trial: loss(suggest(trial)), n_trials=count, catch=(ValueError,))
    return study


COUNT = 12  # seven of them initial


@pytest.fixture(scope="module")
def straight():
    return presage.minimize(loss, SPACE, COUNT, seed=4, progress=False).trials


@pytest.mark.parametrize("known", [False, True], ids=["define by run", "space given"])
def test_suggestions_are_those_of_minimize(known, straight, tmp_path):
    storage = None if known else f"sqlite:///{tmp_path / 'optuna.db'}"
    study = optimised(PresageSampler(4, space=SPACE if known else None), COUNT, storage)
    assert [t.params for t in study.trials] == [t.params for t in straight]
    assert [t.value for t in study.trials] == [t.value for t in straight]
    assert "failed" in {t.state for t in straight}
    assert straight[-1].source == "model"


def test_maximising_is_minimising_the_negative(straight):
    study = optuna.create_study(sampler=PresageSampler(4), direction="maximize")
    study.optimize(lambda trial: -loss(suggest(trial)), n_trials=9, catch=(ValueError,))
    assert [t.params for t in study.trials] == [t.params for t in straight[:9]]


def test_a_pickled_sampler_goes_on_to_the_bit(straight):
    """Optuna's recipe for resuming with a seed; the state of the fits goes along."""
    study = optimised(PresageSampler(4), 10)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))  # noqa: S301 - our own bytes
    study.optimize(lambda trial: loss(suggest(trial)), n_trials=COUNT - 10, catch=(ValueError,))
    assert [t.params for t in study.trials] == [t.params for t in straight]


def test_one_sampler_serves_many_studies():
    """Memory storages number all their studies alike; none is taken for another."""
    sampler = PresageSampler(4, surrogate="random")
    names = [optimised(sampler, 6, study_name="same") for _ in range(2)]
    assert [t.params for t in names[0].trials] == [t.params for t in names[1].trials]


def test_trials_are_read_once(monkeypatch):
    """A suggestion costs as much as there is news, not a look at every trial."""
    taken = Counter()
    take = Mirror._take
    monkeypatch.setattr(Mirror, "_take", lambda self, trial: (taken.update([trial.number]), take(self, trial)))
    optimised(PresageSampler(0, surrogate="random"), 15)
    assert set(taken.values()) == {1}
    assert len(taken) == 14


def test_the_first_sobol_point_does_not_depend_on_how_many_dimensions_follow():
    """By this the first trial, whose params come one by one, is that of a study that knows its space."""
    for dim in (1, 3, 20, 70):
        whole = sobol(1, dim, np.random.default_rng(3))[0]
        assert [sobol(1, j + 1, np.random.default_rng(3))[0, j] for j in range(dim)] == whole.tolist()


def test_parallel_trials_without_a_known_space_follow_one_sequence():
    study = optuna.create_study(sampler=PresageSampler(4))
    open_trials = [study.ask() for _ in range(8)]
    points = [[t.suggest_float("a", 0, 1), t.suggest_float("b", 0, 1)] for t in open_trials]
    assert sorted(np.floor(np.array(points)[:, 0] * 8)) == list(range(8))
    assert sorted(np.floor(np.array(points)[:, 1] * 8)) == list(range(8))


def test_a_design_in_many_dimensions_is_that_of_a_study():
    """The space is known after the first trial, early enough for the middle."""
    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(6)})
    study = optuna.create_study(sampler=PresageSampler(4))
    study.optimize(lambda trial: sum(trial.suggest_float(name, 0.0, 1.0) for name in space), n_trials=5)
    ours = presage.Study(space, seed=4)
    for trial in study.trials:
        mine = ours.ask()
        assert mine.params == trial.params
        ours.tell(mine, trial.value)
    assert study.trials[1].params == dict.fromkeys(space, 0.5)


# Running trials, threads, processes.
def test_running_trials_are_pending():
    study = optimised(PresageSampler(4), 8)
    together = [suggest(study.ask()) for _ in range(4)]
    assert len({json.dumps(params) for params in together}) == 4
    points = np.array([SPACE.encode(params) for params in together])
    assert np.linalg.norm(points[:, None] - points, axis=2)[np.triu_indices(4, 1)].min() > 1e-3


def test_a_point_published_by_another_process_meanwhile_is_seen(monkeypatch):
    """What another process suggests while this one computes: this one computes again, with that point pending."""
    study = optimised(PresageSampler(4, surrogate="random"), 8)
    seen, suggest_once = [], Mirror.suggest

    def slow(self, suggester, number, pending):
        seen.append(len(pending))
        if len(seen) == 1:
            other = optuna.load_study(study_name=study.study_name, storage=study._storage,
                                      sampler=PresageSampler(4, surrogate="random"))  # fmt: skip
            suggest(other.ask())
        return suggest_once(self, suggester, number, pending)

    monkeypatch.setattr(Mirror, "suggest", slow)
    suggest(study.ask())
    assert seen == [0, 1, 1]  # this one, the other one (that sees this one run), this one again
    assert study.trials[8].params != study.trials[9].params


def test_long_params_are_published_in_parts_and_overwritten():
    names = [f"{'parameter' * 8}{i}" for i in range(40)]
    axes = {name: FloatDistribution(0, 1) for name in names}
    study = optuna.create_study(sampler=PresageSampler(0, space=axes, surrogate="random"))
    for _ in range(2):
        study.ask(axes)
    from presage.integrations.optuna import _pending, _publish, _published

    first = study.trials[0]
    assert max(len(text) for text in first.system_attrs.values()) <= 2000
    assert _pending(study.trials, 1)[0, _published(first)] == first.params
    _publish(study, first, {"x": 0.5}, len(_published(first)))
    assert json.loads(_published(study.trials[0])) == {"x": 0.5}


def test_a_trial_that_has_not_said_where_it_is_counts_as_at_its_initial_point():
    """Another process began it before the space was known, and takes its params from the design one by one."""
    study = optimised(PresageSampler(4), 1)
    slow, quick = study.ask(), study.ask()
    taken = suggest(quick)
    study.sampler = PresageSampler(4)  # as in a process that had seen no trial when it began
    late = {name: study.sampler.sample_independent(study, study.trials[1], name, axis)
            for name, axis in list(quick.distributions.items())[:1]}  # fmt: skip
    assert slow.number == 1
    assert late["z"] != taken["z"]


WORKER = """
import sys, optuna
from presage.integrations.optuna import PresageSampler
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.load_study(study_name="shared", storage=sys.argv[1], sampler=PresageSampler(7))
study.optimize(lambda t: (t.suggest_float("x", -1, 1) - 0.3) ** 2 + t.suggest_float("y", 0, 1), n_trials=5)
"""


def test_processes_share_a_storage(tmp_path):
    """With one seed for all: numbers tell the trials apart."""
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    study = optuna.create_study(study_name="shared", storage=url)
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, url]) for _ in range(2)]
    assert [worker.wait(120) for worker in workers] == [0, 0]
    assert len(study.trials) == 10
    assert len({json.dumps(t.params) for t in study.trials}) == 10
    assert study.best_value < 0.3


def test_threads_share_a_sampler():
    study = optuna.create_study(sampler=PresageSampler(1))
    study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_int("n", 0, 50), n_trials=12, n_jobs=3)
    assert len({json.dumps(t.params) for t in study.trials}) == 12


# What trials mean.
def history_after(*trials, direction="minimize", **options):
    """What presage makes of Optuna's trials with one param x in [0, 1]."""
    study = optuna.create_study(direction=direction)
    axes = {"x": FloatDistribution(0, 1)}
    for i, (value, more) in enumerate(trials):
        study.add_trial(create_trial(params={"x": i / 10}, distributions=axes, value=value, **more))
    mirror = Mirror(Space({"x": Float(0, 1)}), direction, 0, None, options.pop("learn_failures", True), True, {})
    mirror.catch_up(study.trials)
    return mirror._history


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_pruned_trial_counts_as_what_it_would_have_come_to(direction):
    """The complete ones went from 5, 6, 9 after step 1 to 1, 3, 4: they gained -4, -3, -5, the median being -4."""
    sign = 1 if direction == "minimize" else -1
    curves = [(1.0, {0: 9.0, 1: 5.0}), (3.0, {1: 6.0}), (4.0, {1: 9.0})]
    done = [(sign * v, {"intermediate_values": {k: sign * y for k, y in c.items()}}) for v, c in curves]

    def pruned(curve):
        values = {k: sign * y for k, y in curve.items()}
        last = values[max(values)] if values and not math.isnan(values[max(values)]) else None  # as Optuna does
        return last, {"state": TrialState.PRUNED, "intermediate_values": values}

    trials = [*done, pruned({0: 20.0, 1: 12.0}), pruned({1: 2.0}), pruned({7: 8.0}), pruned({1: math.nan}), pruned({})]
    history = history_after(*trials, direction=direction)
    assert [sign * t.value for t in history.trials[:6]] == [1.0, 3.0, 4.0, 8.0, 1.0, 8.0]  # the fifth: as the best one
    spread = (np.percentile([-4, -3, -5], 84) - np.percentile([-4, -3, -5], 16)) / 2
    assert history.trials[3].stddev == pytest.approx(spread)
    assert history.trials[5].stddev is None  # nobody else was at step 7
    kinds = [t.failure.kind for t in history.trials[6:]]
    assert kinds == [
        "invalid",
        "pruned",
    ]  # one went to NaN; one has no reports and says nothing, but is not tried again


def test_a_pruner_helps_and_does_not_mislead():
    def objective(trial):
        x = trial.suggest_float("x", -1, 1)
        for step in range(5):
            trial.report((x - 0.3) ** 2 + 1 / (step + 1), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return (x - 0.3) ** 2 + 0.2

    study = optuna.create_study(sampler=PresageSampler(0), pruner=optuna.pruners.MedianPruner(n_startup_trials=4))
    study.optimize(objective, n_trials=14)
    assert any(t.state == TrialState.PRUNED for t in study.trials)
    assert abs(study.best_params["x"] - 0.3) < 0.02
    brackets = optuna.create_study(sampler=PresageSampler(0), pruner=optuna.pruners.HyperbandPruner(max_resource=5))
    brackets.optimize(objective, n_trials=8)
    assert len(brackets.trials) == 8


def test_failures_count_unless_they_are_not_to():
    failed = (None, {"state": TrialState.FAIL})
    assert history_after((1.0, {}), failed).trials[1].failure.kind == "error"
    assert history_after((1.0, {}), failed, learn_failures=False).trials[1].failure.kind == "lost"
    assert history_after((math.inf, {}), (1.0, {})).trials[0].failure.kind == "invalid"


@pytest.mark.parametrize("way", ["constraints_func", "set_constraint"])
def test_constraints_hold_at_the_optimum(way):
    """Least x + (y - 1/2)^2 where x >= 1/2: without the constraint the minimum is infeasible, with it 1/2 there."""
    if way == "set_constraint" and not hasattr(optuna.trial.Trial, "set_constraint"):
        pytest.skip("Optuna before 5")
    limits = (lambda t: [0.5 - t.params["x"], -1.0]) if way == "constraints_func" else None
    study = optuna.create_study(sampler=PresageSampler(1, constraints_func=limits))

    def objective(trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        if way == "set_constraint":
            trial.set_constraint("edge", 0.5 - x)
        return x + (y - 0.5) ** 2

    study.optimize(objective, n_trials=12)
    assert 0.5 <= min(t.value for t in study.trials if t.params["x"] >= 0.5) < 0.502
    assert sum(t.params["x"] < 0.5 for t in study.trials[5:]) <= 3


def test_a_small_feasible_region_is_found():
    """A disc of 0.8 % of the square, which the initial points miss: its violation leads there."""

    def off(trial):
        return (trial.params["x"] - 0.7) ** 2 + (trial.params["y"] - 0.2) ** 2 - 0.05**2

    study = optuna.create_study(sampler=PresageSampler(0, constraints_func=lambda t: [off(t)]))
    study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_float("y", 0, 1), n_trials=18)
    feasible = [t for t in study.trials if off(t) <= 0.0]
    assert all(off(t) > 0.0 for t in study.trials[:5])
    assert feasible[0].number < 10
    lowest = 0.9 - 0.05 * math.sqrt(2)  # and the highest as much above 0.9
    assert lowest <= min(t.value for t in feasible) < lowest + 0.014


def test_what_is_off_without_measure_counts_as_failed():
    """For an infinite constraint value, and for proposers that model no constraints: as NaN does in a presage study."""
    space = Space({"x": Float(0, 1)})
    axes = {"x": FloatDistribution(0, 1)}
    study = optuna.create_study()
    for i, limit in enumerate([-1.0, 0.0, 0.5, math.inf]):
        study.add_trial(create_trial(params={"x": i / 10}, distributions=axes, value=1.0,
                                     system_attrs={"constraints": [limit]}))  # fmt: skip
    kinds = {}
    for graded in (True, False):
        mirror = Mirror(space, "minimize", 0, None, True, graded, {})
        mirror.catch_up(study.trials)
        kinds[graded] = [t.failure and t.failure.kind for t in mirror._history.trials]
        assert mirror._limits.seen == graded
    assert kinds == {True: [None, None, "pruned", "invalid"], False: [None, None, "invalid", "invalid"]}


def test_constraints_must_be_numbers():
    study = optuna.create_study(sampler=PresageSampler(0, constraints_func=lambda t: [math.nan]))
    with pytest.raises(ValueError, match="trial 0 has"):
        study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=1)


def test_conditions_and_constraints_of_a_given_space():
    space = Space(
        {"kind": Choice(["line", "bowl"]), "a": Float(0, 1), "b": Float(0, 1, when={"kind": "bowl"})},
        constraints=[lambda p: p["a"] <= 0.5],
    )
    study = optuna.create_study(sampler=PresageSampler(0, space=space))

    def objective(trial):
        a = trial.suggest_float("a", 0, 1)
        if trial.suggest_categorical("kind", ["line", "bowl"]) == "line":
            return a
        return a + (trial.suggest_float("b", 0, 1) - 0.3) ** 2 - 0.5

    study.optimize(objective, n_trials=14)
    assert all(t.params["a"] <= 0.5 for t in study.trials)
    assert study.best_params["kind"] == "bowl"
    assert abs(study.best_params["b"] - 0.3) < 0.1


def test_a_trial_that_ended_before_all_its_params_were_asked_for_takes_none_away():
    study = optuna.create_study(sampler=PresageSampler(0))
    axes = {"a": FloatDistribution(0, 1), "b": IntDistribution(0, 9)}
    study.add_trial(create_trial(params={"a": 0.5, "b": 3}, distributions=axes, value=1.0))
    for state in (TrialState.PRUNED, TrialState.FAIL):
        study.add_trial(create_trial(params={"a": 0.5}, distributions={"a": axes["a"]}, state=state))
    assert study.sampler.infer_relative_search_space(study, study.trials[0]) == axes


def test_what_presage_cannot_express_is_drawn_at_random():
    study = optuna.create_study(sampler=PresageSampler(0))

    def objective(trial):
        big = trial.suggest_int("big", 0, 2**50)
        odd = trial.suggest_categorical("odd", [1.0, math.nan])
        return trial.suggest_float("x", 0, 1) + big * 0 + (odd != 1.0)

    study.optimize(objective, n_trials=8)
    assert list(study.sampler.infer_relative_search_space(study, study.trials[-1])) == ["x"]
    assert len({t.params["big"] for t in study.trials}) == 8


def test_a_used_up_space_is_gone_through_again():
    study = optuna.create_study(sampler=PresageSampler(0))
    study.optimize(lambda t: t.suggest_int("n", 0, 3), n_trials=8)
    assert set(Counter(t.params["n"] for t in study.trials).values()) == {2}


def test_mistakes_are_explained():
    with pytest.raises(StudyError, match="seed must be a whole number"):
        PresageSampler(-1)
    with pytest.raises(StudyError, match="surrogate must be one of"):
        PresageSampler(surrogate="nonsense")


# Spaces and studies, there and back.
def test_every_distribution_has_a_dimension_and_back():
    for distribution in (
        FloatDistribution(-1, 1), FloatDistribution(1e-7, 1, log=True), FloatDistribution(-10.2, 10.2, step=0.1),
        IntDistribution(-10, 10), IntDistribution(3, 9, step=2), IntDistribution(1, 100, log=True),
        CategoricalDistribution([1, "a", None, True]),
    ):  # fmt: skip
        dimension = dimension_of(distribution)
        assert distribution_of(dimension) == distribution
        for u in np.linspace(0, 1, 50):
            assert distribution._contains(distribution.to_internal_repr(dimension.decode(u)))
    assert dimension_of(FloatDistribution(2, 2)) == Constant(2.0)
    assert dimension_of(CategoricalDistribution(["only"])) == Constant("only")
    assert distribution_of(Float(0, 1, step=0.3)).high == 0.9
    assert distribution_of(Int(0, 10, step=4)).high == 8


def full_study():
    """One of every kind of trial that Optuna has."""
    study = optuna.create_study(direction="maximize", study_name="all kinds")
    study.set_user_attr("owner", "me")
    axes = {"kind": CategoricalDistribution(["a", "b"]), "x": FloatDistribution(0, 1)}
    more = {"y": IntDistribution(1, 9, log=True)}

    def add(params, **rest):
        study.add_trial(create_trial(params=params, distributions={k: {**axes, **more}[k] for k in params}, **rest))

    add({"kind": "a", "x": 0.5}, value=1.5, intermediate_values={0: 0.1, 5: 1.5}, user_attrs={"size": 3, "tag": "t"})
    add({"kind": "b", "x": 0.25, "y": 3}, value=2.5)
    add({"kind": "b", "x": 0.125, "y": 4}, state=TrialState.PRUNED, intermediate_values={0: 0.25, 1: math.nan})
    add({"kind": "b", "x": 0.0, "y": 4}, state=TrialState.PRUNED, value=0.5, intermediate_values={0: 0.5})
    add({"kind": "a", "x": 0.75}, state=TrialState.FAIL, user_attrs={"why": "disk"})
    add({"kind": "a", "x": 0.625}, value=9.0, system_attrs={"constraints": [-1.0, 0.5]})
    add({"kind": "a", "x": 0.875}, value=-math.inf)
    add({"kind": "a"}, state=TrialState.FAIL)  # raised before x was asked for
    study.enqueue_trial({"kind": "a", "x": 0.0625})
    study.ask()  # takes the enqueued one
    study.enqueue_trial({"kind": "b", "x": 0.03125, "y": 2})
    return study


def facts(trial):
    ours = {key: value for key, value in trial.user_attrs.items() if not key.startswith("presage:")}
    numbers = {step: None if math.isnan(y) else y for step, y in trial.intermediate_values.items()}
    system = {key: list(v) if key == "constraints" else v for key, v in trial.system_attrs.items()}
    return trial.state, trial.values, trial.params, trial.distributions, ours, numbers, system


def close(one, other):
    return one == other or abs(one - other) < timedelta(microseconds=2)  # seconds as floats in between


def test_a_study_goes_to_presage_and_back(tmp_path):
    theirs = full_study()
    ours = from_optuna(theirs, storage=tmp_path / "study.db", seed=1)
    assert ours.name == "all kinds"
    assert ours.direction == "maximize"
    assert ours.space == Space({
        "kind": Choice(["a", "b"]), "x": Float(0, 1), "y": Int(1, 9, log=True, when={"kind": ["b"]}),
    })  # fmt: skip
    kinds = [(t.state, t.failure and t.failure.kind) for t in ours.trials]
    assert kinds == [
        ("complete", None), ("complete", None), ("failed", "pruned"), ("failed", "pruned"), ("failed", "error"),
        ("failed", "invalid"), ("failed", "invalid"), ("waiting", None),
    ]  # fmt: skip
    assert ours.best.number == 1
    assert ours.trials[0].reports == [(0, 0.1), (5, 1.5)]
    assert ours.trials[0].metrics == {"size": 3}
    assert audit(ours.storage, ours.name) == []
    assert any('"state": "FAIL"' in note["text"] for note in ours.notes if note["number"] is None)
    back = to_optuna(ours, storage=f"sqlite:///{tmp_path / 'optuna.db'}")
    kept = [t for t in theirs.trials if t.state != TrialState.RUNNING and t.number != 7]
    assert len(back.trials) == len(kept) == 8
    for one, other in zip(kept, back.trials, strict=True):
        assert facts(one) == facts(other)
        assert close(one.datetime_start, other.datetime_start)
        assert close(one.datetime_complete, other.datetime_complete)
    assert back.user_attrs["owner"] == "me"
    assert back.user_attrs["presage:study"]["seed"] == 1
    # The imported study goes on: the waiting trial first, then points of its own.
    assert ours.ask().params == {"kind": "b", "x": 0.03125, "y": 2}
    assert ours.ask().number == 8


def test_pruned_and_lost_trials_say_nothing_to_the_surrogate():
    ours = from_optuna(full_study(), seed=1)
    data = ours._history.observations()
    assert data.count == 2
    assert data.failed.sum() == 3


def test_an_exported_study_is_one_that_optuna_goes_on_with(tmp_path):
    result = presage.minimize(loss, SPACE, 8, seed=4, progress=False)
    running = result.study.ask()
    study = to_optuna(result.study, sampler=PresageSampler(4), name="again")
    assert study.best_value == result.best.value
    assert study.best_params == result.best.params
    assert [t.state.name for t in study.trials[-2:]] == [study.trials[-2].state.name, "RUNNING"]
    assert study.trials[-1].params == running.params
    study.optimize(lambda trial: loss(suggest(trial)), n_trials=2, catch=(ValueError,))
    again = from_optuna(study, name="back")
    assert again.space == SPACE
    assert again.trials[0].params == result.trials[0].params


def test_ranges_that_changed_are_joined_and_riddles_are_errors():
    def study_of(*trials):
        study = optuna.create_study()
        for axes, params in trials:
            study.add_trial(create_trial(params=params, distributions=axes, value=1.0))
        return study

    wide = study_of(
        ({"x": FloatDistribution(0, 1), "n": IntDistribution(0, 4, step=2), "c": CategoricalDistribution(["a"])},
         {"x": 0.5, "n": 2, "c": "a"}),
        ({"x": FloatDistribution(0.5, 3), "n": IntDistribution(1, 7, step=3), "c": CategoricalDistribution(["b", "a"])},
         {"x": 2.0, "n": 4, "c": "b"}),
    )  # fmt: skip
    assert from_optuna(wide).space == Space({"x": Float(0, 3), "n": Int(0, 7), "c": Choice(["a", "b"])})
    clash = study_of(({"x": FloatDistribution(1, 2)}, {"x": 1.5}), ({"x": IntDistribution(1, 2)}, {"x": 1}))
    with pytest.raises(SpaceError, match="'x' must have one kind"):
        from_optuna(clash)
    riddle = study_of(
        ({"x": FloatDistribution(1, 2), "y": FloatDistribution(0, 1)}, {"x": 1.5, "y": 0.5}),
        ({"x": FloatDistribution(1, 2)}, {"x": 1.25}),
    )
    with pytest.raises(SpaceError, match=r"'y' is missing in trial 1.*give space="):
        from_optuna(riddle)
    known = from_optuna(riddle, space=Space({"x": Float(1, 2), "y": Float(0, 1, default=0.0)}))
    assert [t.params for t in known.trials] == [{"x": 1.5, "y": 0.5}, {"x": 1.25, "y": 0.0}]
    odd = study_of(({"n": IntDistribution(0, 2**50)}, {"n": 3}))
    with pytest.raises(SpaceError, match="'n' must be one that presage can search"):
        from_optuna(odd)
    with pytest.raises(StudyError, match="one objective, but this one has 2"):
        from_optuna(optuna.create_study(directions=["minimize", "minimize"]))
    with pytest.raises(StudyError, match="there are none"):
        from_optuna(optuna.create_study())


def test_a_number_of_its_own_gives_a_suggestion_of_its_own():
    """Suggester.choose with a number draws other random numbers; by default the number is that of the next trial."""
    study = presage.Study(Space({"x": Float(0, 1)}), surrogate="random", seed=0)
    suggester, history = Suggester("random", "auto"), History()
    history.catch_up(study.storage, study.name)
    first, again, other = (suggester.choose(history, {}, 1, number)[0] for number in (None, 0, 1))
    assert first == again != other
