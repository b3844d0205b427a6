"""Forecasts of learning curves in a study."""

import numpy as np

import presage
from presage.design.forecast import forecast
from presage.space import Space
from presage.trial import Trial

SPACE = Space({"a": presage.Float(0, 1), "b": presage.Float(0, 1)})
STEPS = [1, 2, 4, 8, 16, 32, 64]


def curve(params: dict, sign: float = 1.0) -> list[tuple[int, float]]:
    """A power law whose end and pace depend on the params."""
    end, pace = 0.2 + (params["a"] - 0.4) ** 2, 0.5 + params["b"]
    return [(step, sign * (end + 1.5 * step**-pace)) for step in STEPS]


def study(count: int, cut: int, sign: float = 1.0, first: int = 0) -> list[Trial]:
    """Complete trials and two that are under way, cut after so many reports."""
    rng = np.random.default_rng(3)
    made = []
    for number in range(count + 2):
        params = {"a": float(rng.random()), "b": float(rng.random())}
        reports = [(step - 1 + first, value) for step, value in curve(params, sign)]
        complete = number < count
        values = (reports[-1][1],) if complete else ()
        shown = reports if complete else reports[:cut]
        made.append(Trial(number, params, "complete" if complete else "running", values, reports=shown))
    return made


def test_forecasts_hold_the_truth():
    for sign in (1.0, -1.0):
        trials = study(12, 4, sign)
        found = forecast(trials, SPACE, sign)
        assert set(found) == {12, 13}
        for number, law in found.items():
            truth = [value for _, value in curve(trials[number].params, sign)]
            assert law.steps[0] == STEPS[3] - 1, "from the last report"
            assert law.steps[-1] == STEPS[-1] - 1, "to the end of the longest"
            assert np.isclose(law.mean[0], truth[3]), "what is known is known"
            assert (law.low <= law.mean).all()
            assert (law.mean <= law.high).all()
            assert law.low[-1] <= truth[-1] <= law.high[-1]
            assert abs(law.mean[-1] - truth[-1]) < 0.15, "the curves end between 0.2 and 0.56 above or below"


def test_there_is_nothing_to_foretell_from_nothing():
    assert forecast([], SPACE) == {}
    assert forecast(study(0, 3), SPACE) == {}
    assert forecast(study(5, len(STEPS)), SPACE) == {}, "all have come to the end"


def test_many_long_curves_take_no_longer():
    """The table that is fitted has a bounded size, and odd steps do no harm."""
    rng = np.random.default_rng(0)
    trials = []
    for number in range(80):
        params = {"a": float(rng.random()), "b": float(rng.random())}
        last = 1000 if number < 76 else int(rng.integers(10, 900))
        reports = [(s, 1.0 / (1 + s) + params["a"]) for s in range(0, last, 7)]
        rng.shuffle(reports)
        complete = number < 76
        trials.append(Trial(number, params, "complete" if complete else "running",
                            (reports[-1][1],) if complete else (), reports=[tuple(r) for r in reports]))  # fmt: skip
    found = forecast(trials, SPACE)
    assert set(found) == {76, 77, 78, 79}
    assert all(np.isfinite(part).all() for law in found.values() for part in law)
