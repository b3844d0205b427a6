"""presage in Ray Tune: spaces, the searcher by itself, and a real run on a local Ray."""

import json
import math
import os
import pickle

import pytest

import presage
from presage import Choice, Float, Int, Space
from presage.errors import SpaceError, StorageError, StudyError

pytestmark = [pytest.mark.needs("tune"), pytest.mark.filterwarnings("ignore")]  # Ray's own warnings are not ours


@pytest.fixture(scope="module")
def tune():
    from ray import tune

    return tune


@pytest.fixture
def searcher(tune):
    from presage.integrations.ray_tune import PresageSearch

    return PresageSearch


def bowl(config):
    return (config["x"] - 0.3) ** 2 + abs(math.log10(config["net"]["lr"]) + 3) * 0.1


def config(tune):
    return {"x": tune.uniform(-1, 1), "net": {"lr": tune.loguniform(1e-5, 1e-1)}, "kept": 7}


BOWL = Space({"x": Float(-1, 1), "net/lr": Float(1e-5, 1e-1, log=True)})


def run(search, count, start=0):
    """What Tune does with one trial at a time."""
    seen = []
    for i in range(start, start + count):
        params = search.suggest(f"t{i}")
        seen.append(params)
        search.on_trial_result(f"t{i}", {"loss": 9.0, "training_iteration": 1})
        search.on_trial_complete(f"t{i}", {"loss": bowl(params), "training_iteration": 2, "extra": 1.5})
    return seen


def test_every_kind_of_domain(tune):
    from presage.integrations.ray_tune import space_of

    space = space_of({
        "u": tune.uniform(-1, 2), "l": tune.loguniform(1e-4, 1), "q": tune.quniform(0.25, 1.0, 0.25),
        "i": tune.randint(2, 7), "k": tune.lograndint(1, 65), "s": tune.qrandint(5, 64, 16), "one": tune.qrandint(1, 4),
        "c": tune.choice(["a", None, 3]), "deep": {"er": tune.choice([True, False])}, "constant": "as it is",
    })  # fmt: skip
    assert space == Space({
        "u": Float(-1, 2), "l": Float(1e-4, 1, log=True), "q": Float(0.25, 1.0, step=0.25), "i": Int(2, 6),
        "k": Int(1, 64, log=True), "s": Int(16, 64, step=16), "one": Int(1, 3), "c": Choice(["a", None, 3]),
        "deep/er": Choice([True, False]),
    })  # fmt: skip
    # Tune's own draws, the bounds of each domain among them, lie in the space.
    for name in ("q", "s", "one", "i"):
        domain = {"q": tune.quniform(0.25, 1.0, 0.25), "s": tune.qrandint(5, 64, 16), "one": tune.qrandint(1, 4),
                  "i": tune.randint(2, 7)}[name]  # fmt: skip
        drawn = {space[name].check(domain.sample()) for _ in range(300)}
        assert len(drawn) == space[name].levels


@pytest.mark.parametrize("what", ["grid", "normal", "function", "log and step", "list"])
def test_what_cannot_be_searched_is_named(tune, what):
    from presage.integrations.ray_tune import space_of

    domain = {
        "grid": tune.grid_search([1, 2]), "normal": tune.randn(), "function": tune.sample_from(lambda _: 1),
        "log and step": tune.qloguniform(1e-2, 1, 1e-2), "list": [tune.uniform(0, 1)],
    }[what]  # fmt: skip
    with pytest.raises(SpaceError, match="here"):
        space_of({"here": domain})


def test_suggestions_are_those_of_minimize(tune, searcher):
    search = searcher(metric="loss", seed=5)
    assert search.set_search_properties(None, "min", config(tune))
    seen = run(search, 12)
    result = presage.minimize(
        lambda p: bowl({"x": p["x"], "net": {"lr": p["net/lr"]}}), BOWL, 12, seed=5, progress=False
    )
    assert [{"x": s["x"], "net/lr": s["net"]["lr"]} for s in seen] == [t.params for t in result.trials]
    assert search.study.best.value == result.best.value
    assert search.study.trials[0].reports == [(1, 9.0), (2, bowl(seen[0]))]
    assert search.study.trials[0].metrics == {"extra": 1.5}


@pytest.mark.parametrize("way", ["file", "pickle"])
def test_a_restored_search_goes_on_to_the_bit(tune, searcher, tmp_path, way):
    """With a trial that is being evaluated: Tune runs it on, so it is not suggested again."""
    straight, path = searcher(BOWL, metric="loss", mode="min", seed=5), str(tmp_path / "state")
    run(straight, 9)
    pending = straight.suggest("pending")
    straight.on_trial_result("pending", {"loss": 3.0, "training_iteration": 1})
    straight.save(path)
    json.loads((tmp_path / "state").read_text())  # plain data
    if way == "file":
        again = searcher(metric="loss", seed=0)
        assert again.set_search_properties(None, "min", config(tune))  # as Tuner.restore does, before it restores
        again.restore(path)
    else:
        again = pickle.loads(pickle.dumps(straight))  # noqa: S301 - as Tune does
    for search in (straight, again):
        search.on_trial_complete("pending", {"loss": bowl(pending), "training_iteration": 2})
    assert again.study.trials[9].reports == straight.study.trials[9].reports == [(1, 3.0), (2, bowl(pending))]
    assert run(again, 4, start=10) == run(straight, 4, start=10)
    assert not os.path.exists(f"{path}.{os.getpid()}")


def test_failures_and_what_others_evaluated(tune, searcher):
    search = searcher(BOWL, metric="loss", mode="max", seed=1, points_to_evaluate=[{"x": 0.5, "net": {"lr": 1e-3}}])
    assert search.suggest("a") == {"x": 0.5, "net": {"lr": 1e-3}}
    search.on_trial_complete("a", error=True)
    search.suggest("b")
    search.on_trial_complete("b", {"other": 1.0})
    search.suggest("c")
    search.on_trial_complete("c", {"loss": math.nan})
    search.on_trial_complete("never suggested", {"loss": 1.0})
    point = {"x": 0.1, "net": {"lr": 1e-2}}
    search.add_evaluated_point(point, 2.0, intermediate_values=[1.0, 2.0])
    search.add_evaluated_point(point, 0.0, pruned=True)
    search.add_evaluated_point(point, 0.0, error=True)
    states = [(t.state, t.failure and t.failure.kind) for t in search.study.trials]
    assert states == [
        ("failed", "error"), ("failed", "error"), ("failed", "invalid"), ("complete", None), ("failed", "pruned"),
        ("failed", "error"),
    ]  # fmt: skip
    assert search.study.best.reports == [(0, 1.0), (1, 2.0)]
    assert search.study.direction == "maximize"


def test_a_finite_space_ends_and_limits_hold(tune, searcher):
    from ray.tune.search import ConcurrencyLimiter

    limited = ConcurrencyLimiter(searcher({"n": tune.randint(0, 3)}, metric="loss", mode="min", seed=0), 2)
    first = [limited.suggest(key) for key in "ab"]
    assert limited.suggest("c") is None
    for key, params in zip("ab", first, strict=True):
        limited.on_trial_complete(key, {"loss": params["n"]})
    third = limited.suggest("c")
    assert sorted(params["n"] for params in [*first, third]) == [0, 1, 2]
    assert limited.suggest("d") == "FINISHED"


def test_mistakes_are_explained(tune, searcher, tmp_path):
    with pytest.raises(StudyError, match="'min' or 'max'"):
        searcher(mode="minimize")
    with pytest.raises(StudyError, match="space and mode must be known"):
        searcher().suggest("a")
    with pytest.raises(StudyError, match="metric is given twice, as 'a' and as 'b'"):
        searcher(metric="a").set_search_properties("b", "min", config(tune))
    assert not searcher(BOWL, mode="min").set_search_properties("loss", None, config(tune))
    (tmp_path / "bad").write_text('{"format": 1}')
    with pytest.raises(StorageError, match="is not that"):
        searcher(BOWL, mode="min").restore(str(tmp_path / "bad"))


@pytest.mark.slow
def test_a_real_run_on_a_local_ray(tune, searcher, tmp_path):
    """Four at a time, some of which fail; then one at a time gives the suggestions of minimize, through processes."""
    import ray

    def train(config):  # workers cannot import this file, so all it needs is inside
        from math import log10

        from ray import tune

        if config["x"] < -0.8:
            raise ValueError("too far")
        for _ in range(3):
            tune.report({"loss": (config["x"] - 0.3) ** 2 + abs(log10(config["net"]["lr"]) + 3) * 0.1})

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        search = searcher(seed=5)
        settings = {"metric": "loss", "mode": "min", "num_samples": 8, "reuse_actors": True}
        where = tune.RunConfig(name="run", storage_path=str(tmp_path), verbose=0)
        tuner = tune.Tuner(
            train, param_space=config(tune), run_config=where,
            tune_config=tune.TuneConfig(**settings, search_alg=search, max_concurrent_trials=1),
        )  # fmt: skip
        results = tuner.fit()
        assert len(results) == 8
        assert all(len(t.reports) == 3 for t in search.study.trials if t.values)
        assert {r.config["kept"] for r in results} == {7}
        straight = presage.minimize(
            lambda p: bowl({"x": p["x"], "net": {"lr": p["net/lr"]}}) if p["x"] >= -0.8 else math.nan, BOWL, 8, seed=5,
            progress=False,
        )  # fmt: skip
        assert [t.params for t in search.study.trials] == [t.params for t in straight.trials]
        assert [t.value for t in search.study.trials] == [t.value for t in straight.trials]
        again = searcher(BOWL, metric="loss", mode="min")
        again.restore_from_dir(str(tmp_path / "run"))  # what Tune saved by itself
        assert [t.params for t in again.study.trials] == [t.params for t in search.study.trials]
    finally:
        ray.shutdown()
