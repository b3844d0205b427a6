"""What is derived from studies and posteriors, against closed forms."""

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import norm, t

import presage
from known import Known
from presage import Choice, Float, Int, Space, Study, insight
from presage.errors import StudyError
from presage.insight.model import Model
from presage.observations import columns_of, observe
from presage.space import point_key
from presage.storage import Event

SQUARE = Space({"a": Float(0, 1), "b": Float(0, 1)})


def model(posterior, space=SQUARE, sign=1.0, center=0.0, scale=1.0):
    x = np.full((2, space.dim), 0.5)
    data = observe(x, np.array([-1.0, 1.0]), columns_of(space))  # mean 0, standard deviation 1
    return Model(space, posterior, replace(data, center=center, scale=scale), sign)


@pytest.fixture(scope="module")
def tuned():
    """A finished search with a conditional dimension, failures and a maximum."""
    space = Space({
        "lr": Float(1e-4, 1.0, log=True), "layers": Int(1, 3), "act": Choice(["relu", "tanh"]),
        "width": Int(4, 64, when={"layers": [2, 3]}),
    })  # fmt: skip

    def score(params):
        if params["lr"] > 0.3:
            raise ValueError("diverged")
        return (
            -((math.log10(params["lr"]) + 2) ** 2) - 0.3 * abs(params["layers"] - 2) + 0.1 * (params["act"] == "relu")
        )

    return presage.maximize(score, space, 24, seed=3, progress=False, name="tuned").study


# Quantiles and draws in the user's units.
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_quantiles_undo_the_transformation_and_the_sign(sign):
    m = model(Known((lambda x: x[:, 0],), (lambda x: 0.2 + x[:, 1],), bent=True), sign=sign, center=3.0, scale=2.0)
    x = np.array([[0.1, 0.3], [0.8, 0.0]])
    levels = np.array([0.05, 0.5, 0.9])
    z = ndtri(levels if sign > 0 else 1 - levels)[:, None]
    truth = sign * (3.0 + 2.0 * np.sinh(x[:, 0] + z * (0.2 + x[:, 1])))
    np.testing.assert_allclose(m.quantiles(x, levels), truth, rtol=1e-12, atol=1e-12)


def test_quantiles_of_a_mixture_and_of_student_t_invert_the_distribution_function():
    means, scales = (lambda x: x[:, 0] - 1, lambda x: x[:, 0] + 2), (lambda x: 0.5 + 0 * x[:, 0], lambda x: 1 + x[:, 1])
    x = np.array([[0.2, 0.5], [0.9, 0.1], [0.4, 0.4]])
    levels = np.array([0.025, 0.3, 0.975])
    for df, law in ((None, norm), (5.0, t(5.0))):
        found = model(Known(means, scales, df=df)).quantiles(x, levels)
        back = np.mean([law.cdf((found - m(x)) / s(x)) for m, s in zip(means, scales, strict=True)], axis=0)
        np.testing.assert_allclose(back, np.broadcast_to(levels[:, None], back.shape), atol=1e-12)


def test_draws_come_back_from_transformed_units():
    m = model(Known((lambda x: x[:, 0],), (lambda x: 0.5 + 0 * x[:, 0],), bent=True), sign=-1.0, center=1.0, scale=3.0)
    x = np.random.default_rng(0).random((50, 2))
    latent = m.posterior.sample(x, 200, rng=np.random.default_rng(1))
    truth = -(1.0 + 3.0 * np.sinh(latent))
    # Linear interpolation: at most h^2 / 8 max |(sinh)''| with h = 1.4 % of a distance below 6, times the scale.
    np.testing.assert_allclose(m.sample(x, 200, np.random.default_rng(1)), truth, atol=3 * (0.014 * 6) ** 2 / 8 * 6)
    drawn = m.draws(7, seed=5)
    assert np.array_equal(drawn(x), m.draws(7, seed=5)(x))
    assert drawn(x).shape == (7, 50)


# Slices.
def test_a_slice_is_what_predict_says(tuned):
    record = insight.record_of(tuned)
    cut = insight.slice_1d(record.model(), "lr", record.best.params, num=5)
    assert cut.values[0] == 1e-4
    assert cut.values[-1] == 1.0
    for value, mean, low, high in zip(cut.values, cut.mean, cut.low, cut.high, strict=True):
        assert mean == pytest.approx(tuned.predict({**record.best.params, "lr": value}).mean, rel=1e-9)
        assert low <= mean <= high


def test_a_slice_through_a_dimension_that_is_absent_moves_to_where_it_exists(tuned):
    record = insight.record_of(tuned)
    cut = insight.slice_1d(record.model(), "width", {"lr": 0.01, "layers": 1, "act": "relu"})
    assert len(cut.values) == 61
    assert {record.space.decode(point)["layers"] for point in cut.x} == {2}
    with pytest.raises(StudyError, match="must be one of"):
        insight.slice_1d(record.model(), "nothing", record.best.params)


def test_a_grid_is_empty_where_a_dimension_does_not_exist(tuned):
    record = insight.record_of(tuned)
    grid = insight.grid_2d(record.model(), "layers", "width", record.best.params)
    assert grid.values[0] == [1, 2, 3]
    assert np.isnan(grid.mean[:, 0]).all()
    assert np.isfinite(grid.mean[:, 1:]).all()
    at = {**record.best.params, "layers": 3, "width": grid.values[1][4]}
    assert grid.mean[4, 2] == pytest.approx(tuned.predict(at).mean, rel=1e-9)
    # The same points in one call give the same bits. One by one they would not: a variance of 1e-8 is what is left of
    # two numbers near 2, and products in another order round otherwise.
    params = [
        {**record.best.params, "layers": n, "width": w} if n > 1 else {"lr": at["lr"], "layers": n, "act": at["act"]}
        for w in grid.values[1]
        for n in grid.values[0]
    ]
    mean, stddev = record.model().predict(np.array([record.space.encode(one) for one in params]))
    np.testing.assert_array_equal(grid.mean[:, 1:], mean.reshape(-1, 3)[:, 1:])
    np.testing.assert_array_equal(grid.stddev[:, 1:], stddev.reshape(-1, 3)[:, 1:])


def test_a_marginal_effect_averages_the_others_out():
    m = model(Known((lambda x: 2 * x[:, 0] + x[:, 1] ** 2,), (lambda x: 0.1 + 0 * x[:, 0],)))
    effect = insight.marginal_effect(m, "a", num=5)
    z = m.posterior.draw(16, rng=np.random.default_rng(0)).values(np.zeros((1, 2)))[:, 0]  # 0.1 z: the draws' levels
    # 64 points in 64 intervals of length 1/64 each: the mean of b^2 is off by at most 1/64.
    np.testing.assert_allclose(effect.mean, 2 * np.linspace(0, 1, 5) + 1 / 3 + z.mean(), atol=1 / 64)
    np.testing.assert_allclose(effect.high - effect.low, np.diff(np.quantile(z, [0.025, 0.975]))[0], rtol=1e-6)


# Importance.
def ishigami(x):
    a, b, c = (2 * x - 1).T * math.pi
    return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)


def ishigami_indices():
    """Ishigami & Homma (1990), in closed form."""
    first = 0.5 * (1 + 0.1 * math.pi**4 / 5) ** 2
    second = 49 / 8
    interaction = 0.01 * math.pi**8 * (1 / 18 - 1 / 50)
    total = first + second + interaction
    return np.array([first, second, 0.0]) / total, np.array([first + interaction, second, interaction]) / total


def g_function(x):
    return np.prod((np.abs(4 * x - 2) + np.array([0.0, 1.0, 9.0])) / (1 + np.array([0.0, 1.0, 9.0])), axis=1)


def g_indices():
    """Saltelli & Sobol (1995): partial variances V_j = 1 / (3 (1 + a_j)^2)."""
    v = 1 / (3 * (1 + np.array([0.0, 1.0, 9.0])) ** 2)
    whole = np.prod(1 + v) - 1
    return v / whole, v * np.prod(1 + v) / (1 + v) / whole


@pytest.mark.parametrize(("function", "truth"), [(ishigami, ishigami_indices()), (g_function, g_indices())])
def test_sobol_indices_of_known_functions(function, truth):
    runs = [insight.sobol_indices(lambda x: function(x)[None], 3, 1024, seed) for seed in range(12)]
    for k in (0, 1):
        found = np.array([run[k][0] for run in runs])
        error = found.std(axis=0, ddof=1) / math.sqrt(len(runs))
        assert (np.abs(found.mean(axis=0) - truth[k]) <= 4.5 * error + 1e-3).all(), (found.mean(axis=0), truth[k])
        assert (error < 0.01).all()


def test_importance_of_a_study_is_that_of_its_objective_within_its_uncertainty():
    space = Space({"a": Float(0, 1), "b": Float(0, 1), "idle": Float(0, 1)})
    study = Study(space, seed=0)
    points = [space.decode(u) for u in presage.sobol.sobol(32, 3, np.random.default_rng(0))]
    study.tell_many(points, [4 * p["a"] + 2 * p["b"] for p in points])  # variances 16 : 4 : 0
    found = insight.importance(insight.record_of(study).model())
    rows = {name: rest for name, *rest in found.summary()}
    assert [row[0] for row in found.summary()] == ["a", "b", "idle"]
    for name, truth in (("a", 0.8), ("b", 0.2), ("idle", 0.0)):
        first, total, low, high = rows[name]
        assert abs(first - truth) < 0.05
        assert low - 0.03 <= truth <= high + 0.03
        assert abs(total - truth) < 0.05


# Calibration.
def test_nothing_is_foretold_with_knowledge_of_the_future(tuned):
    record = insight.record_of(tuned)
    found = insight.foretell(record)
    initial = record.history.header["initial"]
    assert len(found.pit) == len(record.complete) - initial
    assert ((found.pit >= 0) & (found.pit <= 1)).all()
    values = np.array([t.value for t in record.complete])
    # They were standardised and back, c + s ((y - c) / s): three roundings of a number of at most twice the largest
    # value and one of the result, each half an eps, 3.5 eps of the largest together.
    np.testing.assert_allclose(found.value, values[initial:], rtol=0, atol=4 * np.finfo(float).eps * abs(values).max())
    other = Study(tuned.space, direction="maximize", seed=tuned.seed, initial=initial)
    complete = record.complete
    other.tell_many([t.params for t in complete], [*(t.value for t in complete[:-1]), complete[-1].value + 5.0])
    changed = insight.foretell(insight.record_of(other))
    np.testing.assert_allclose(changed.pit[:-1], found.pit[:-1], atol=1e-9)
    assert changed.pit[-1] > found.pit[-1]


def test_reliability_of_uniform_pits_is_the_diagonal():
    levels, inside = insight.reliability((np.arange(1000) + 0.5) / 1000)
    np.testing.assert_allclose(inside, levels, atol=1e-3)


# Chains.
def test_rhat_by_the_definition_and_what_it_must_notice():
    rng = np.random.default_rng(0)
    chains = rng.standard_normal((4, 201, 2))
    chains[0, :, 1] += 1.5
    good, bad = insight.rhat(chains)
    assert good < 1.02
    assert bad > 1.1
    # Ranks make it blind to monotone transformations (the bulk part) and to infinite variance.
    assert insight.rhat(np.exp(chains))[1] > 1.1
    assert insight.rhat(np.tan(chains[..., 0] * 1.5)) < 1.05
    spread = rng.standard_normal((4, 200))
    spread[0] *= 5.0  # the same middle, another width: only the folded part sees it
    assert insight.rhat(spread) > 1.05
    # By hand: two chains of four draws are four halves of two; ranks 1 to 8 in order.
    z = norm.ppf((np.arange(1, 9) - 0.375) / 8.25).reshape(4, 2)
    within, between = z.var(axis=1, ddof=1).mean(), 2 * z.mean(axis=1).var(ddof=1)
    bulk = math.sqrt((within / 2 + between / 2) / within)
    assert insight.rhat(np.arange(8.0).reshape(2, 4)) == pytest.approx(bulk)
    assert insight.rhat(np.array([[0.0, 0, 0, 0], [1, 1, 1, 1]])) == np.inf


# Progress.
def test_best_so_far_and_regret():
    assert insight.running_best([1, 3, 2], sign=-1).tolist() == [1, 3, 3]
    runs = np.array([[3.0, 1.0, 2.0], [5.0, 4.0, 0.5], [2.0, 2.0, 2.0]])
    band = insight.regret_band(runs, 0.5)
    np.testing.assert_allclose(band.middle, [2.5, 1.5, 0.5])
    np.testing.assert_allclose(band.low, np.quantile([[2.5, 0.5, 0.5], [4.5, 3.5, 0.0], [1.5, 1.5, 1.5]], 0.25, axis=0))


def test_a_timeline_has_as_many_lanes_as_a_process_had_trials_at_once(tuned):
    def event(number, kind, at, owner):
        payload = {"type": kind, "number": number, "params": {"a": 0.1 * number, "b": 0.5}, "source": "initial"}
        return payload | {"owner": owner, "at": at, "values": [1.0]}

    study = Study(SQUARE, seed=0)
    history = study._history
    events = [
        event(0, "suggested", 0.0, "h:1:9"), event(1, "suggested", 1.0, "h:1:9"), event(2, "suggested", 1.0, "h:2:9"),
        event(0, "told", 2.0, ""), event(3, "suggested", 3.0, "h:1:9"), event(1, "told", 4.0, ""),
        event(2, "told", 5.0, ""),
    ]  # fmt: skip
    for seq, payload in enumerate(events, history.seq + 1):
        history.apply(Event(seq, payload))
    rows = {
        row["number"]: (row["worker"], row["lane"], row["start"], row["end"]) for row in insight.timeline(history, 9.0)
    }
    assert rows == {
        0: ("h:1:9", 0, 0.0, 2.0), 1: ("h:1:9", 1, 1.0, 4.0), 2: ("h:2:9", 0, 1.0, 5.0), 3: ("h:1:9", 0, 3.0, 9.0)
    }  # fmt: skip
    assert 3 not in {row["number"] for row in insight.timeline(history)}


# What people say to a running study.
def test_a_study_is_paused_resumed_noted_and_stopped_from_elsewhere(tmp_path):
    place = str(tmp_path / "s.db")
    study = Study(SQUARE, seed=0, storage=place, surrogate="random")
    other = presage.load_study(place)
    other.control("pause")
    done = {}
    run = threading.Thread(target=lambda: done.update(r=study.optimize(lambda p: p["a"], trials=100_000)), daemon=True)
    run.start()
    time.sleep(0.5)
    assert not other.trials
    other.control("resume")
    deadline = time.monotonic() + 30
    while len(other.trials) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    other.note("<b>looks</b> good", 0)
    other.control("stop")
    run.join(30)
    assert done["r"].stopped == "request"
    assert 3 <= len(other.trials) < 100_000
    assert [(n["text"], n["number"]) for n in study.notes] == [("<b>looks</b> good", 0)]
    # A stop is for the runs of its time: the next one goes on.
    assert study.optimize(lambda p: p["a"], trials=len(study.trials) + 2).stopped == "trials"
    with pytest.raises(StudyError, match="pause, resume or stop"):
        other.control("explode")


def test_a_record_reads_what_the_study_wrote_and_writes_nothing(tmp_path):
    place = presage.storage.open_storage(str(tmp_path / "s.db"))
    study = Study(SQUARE, seed=0, storage=place, name="s")
    study.optimize(lambda p: (p["a"] - 0.3) ** 2 + p["b"], trials=12)
    before = len(place.read("s"))
    record = insight.Record.open(place, "s")
    assert record.best == study.best
    at = study.best.params
    assert record.model().predict(record.model().point(at)[None])[0][0] == pytest.approx(study.predict(at).mean)
    assert len(place.read("s")) == before
    assert point_key(record.trials[3].params) == point_key(study.trials[3].params)
