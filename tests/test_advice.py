"""Advice: given when due, and not otherwise."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import presage
from known import Known
from presage import Choice, Float, Int, Space, Study, advice, insight
from presage.errors import StudyError
from presage.insight.model import Model
from presage.sobol import sobol


def told(space, f, count=24, **settings):
    study = Study(Space(space), seed=0, **settings)
    points = [study.space.decode(u) for u in sobol(count, study.space.dim, np.random.default_rng(0))]
    study.tell_many(points, [f(p) for p in points])
    return study


def codes(study):
    return [found.code for found in advice.advise(study)]


def bowl(p):
    return (p["x"] - 0.4) ** 2 + (p["y"] - 0.6) ** 2


UNIT = {"x": Float(0, 1), "y": Float(0, 1)}


def test_a_healthy_study_gets_no_advice():
    assert codes(told(UNIT, bowl)) == []
    assert codes(Study(Space(UNIT))) == []


def test_a_parameter_at_its_bound():
    study = told({"x": Float(0, 1), "n": Int(1, 9)}, lambda p: p["x"] + 0.01 * (p["n"] - 5) ** 2)
    study.tell_many([{"x": 0.0, "n": 5}, {"x": 0.001, "n": 4}, {"x": 0.002, "n": 6}], [0.0, 0.011, 0.012])
    (found,) = advice.advise(study)
    assert (found.code, found.level) == ("at-bound", "warning")
    assert "x at its lower bound 0" in found.text
    study = told({"x": Float(0, 1), "n": Int(1, 9)}, lambda p: -p["n"], 64)
    assert "n at its upper bound 9" in advice.advise(study)[0].text


def test_a_constant_objective():
    assert "constant" in codes(told(UNIT, lambda p: 3.0))


def test_noise_larger_than_the_effect():
    rng = np.random.default_rng(0)
    assert "noise" in codes(told(UNIT, lambda p: float(rng.standard_normal()), 40))
    assert "noise" not in codes(told(UNIT, lambda p: bowl(p) + 0.01 * float(rng.standard_normal()), 40))


def test_a_log_scale_is_advised_where_magnitudes_matter():
    space = {"lr": Float(1e-5, 0.1), "fine": Float(1e-5, 0.1, log=True), "n": Int(1, 4000), "x": Float(0, 1)}
    found = [a for a in advice.advise(Study(Space(space))) if a.code == "log-scale"]
    assert [a.text.split()[0] for a in found] == ["lr", "n"]


def test_too_many_failures():
    study = Study(Space(UNIT), seed=0)
    for i in range(10):
        trial = study.ask()
        study.tell(trial, **({"failed": "out of memory"} if i % 2 else {"value": float(i)}))
    (found,) = [a for a in advice.advise(study) if a.code == "failures"]
    assert "5 of 10 trials failed" in found.text
    assert "out of memory" in found.text


def test_suggestions_slower_than_the_objective(monkeypatch):
    study = Study(Space({**UNIT, "c": Choice(["a", "b"])}), seed=0, initial=1)
    history = study._history
    for _ in range(8):
        trial = study.ask()
        history._change(trial.number, {"latency": 2.0})
        study.tell(trial, bowl(trial.params))
    assert "slow-suggestions" in codes(study)
    for trial in history.trials:
        history._change(trial.number, {"suggested": trial.finished - 60.0})
    assert "slow-suggestions" not in codes(study)


# Remaining improvement.
def test_remaining_improvement_is_that_of_independent_normals(monkeypatch):
    """Five points, independent: P(min > t) is a product, and the expected gain an integral of it."""
    study = told({"n": Int(1, 5)}, lambda p: abs(p["n"] - 3) - 1.0, 4)
    record = insight.record_of(study)
    mean, stddev = (lambda x: 2.0 * x[:, 0]), (lambda x: 0.5 + x[:, 0])
    model = Model(record.space, Known((mean,), (stddev,)), record.model().data, 1.0)
    monkeypatch.setattr(insight.Record, "model", lambda self: model)
    best = min(t.value for t in study.trials)
    found = advice.remaining(study, worth=0.2, samples=20_000)
    x = record.space.points()
    m, s = model.to_user(mean(x)), model.data.scale * stddev(x)
    at = np.linspace(-30, best, 40_001)
    below = 1 - np.prod(norm.sf((at[:, None] - m) / s), axis=1)  # P(min <= t)
    expected = np.trapezoid(below, at)
    probability = np.interp(best - 0.2, at, below)
    spread = math.sqrt(2 * np.trapezoid(below * (best - at), at) - expected**2)
    assert found.expected == pytest.approx(expected, abs=4.5 * spread / math.sqrt(20_000))
    assert found.probability == pytest.approx(
        probability, abs=4.5 * math.sqrt(probability * (1 - probability) / 20_000)
    )
    assert found.quantiles[0] <= found.quantiles[1] <= found.quantiles[2]


def test_nothing_remains_where_every_point_was_tried_and_much_where_little_is_known():
    study = told({"n": Int(1, 6), "c": Choice(["a", "b"])}, lambda p: (p["n"] - 3) ** 2 + (p["c"] == "a"), 1)
    study.optimize(lambda p: (p["n"] - 3) ** 2 + (p["c"] == "a"), trials=12)
    assert advice.remaining(study).probability == 0.0
    f = presage.functions.branin
    early = presage.minimize(f, f.space, 6, seed=0, progress=False)
    assert advice.remaining(early).probability > 0.5
    with pytest.raises(StudyError, match="worth > 0"):
        advice.remaining(early, worth=0.0)
    with pytest.raises(StudyError, match="at least one value"):
        advice.remaining(Study(Space(UNIT)))


def test_the_worth_of_an_improvement_by_default():
    assert advice.default_worth(np.array([3.0, 2.0, 101.0, 1.0, 1.1, 1.0]), 3) == pytest.approx(0.02)
    assert advice.default_worth(np.array([5.0, 5.0]), 4) == pytest.approx(0.05)
    assert advice.default_worth(np.zeros(3), 2) > 0


def test_a_search_stops_when_little_is_left_and_not_before():
    f = presage.functions.branin
    rule = advice.StopWhenDone(worth=0.1)
    result = presage.minimize(f, f.space, 60, seed=0, callbacks=[rule], progress=False)
    assert result.stopped == "callback"
    assert 10 <= len(result.trials) < 60
    assert result.best.value - f.minimum < 0.1
    with pytest.raises(StudyError, match="0 < probability < 1"):
        advice.StopWhenDone(probability=1.5)
