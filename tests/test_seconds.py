"""Worth per second: time is learned from the trials' own."""

import time

import numpy as np
import pytest

import presage
from presage.acquisitions import BY_NAME, Context, ExpectedImprovement, LogExpectedImprovement, PerCost, PerSecond
from presage.observations import Column, observe
from presage.surrogates import GaussianProcess
from presage.testing.acquisitions import AcquisitionSuite

PLAIN = (Column("continuous"),)


def table(seconds, count=12):
    x = np.linspace(0.0, 1.0, count)[:, None]
    return observe(x, np.sin(5.0 * x[:, 0]), PLAIN, seconds=seconds(x[:, 0]))


class TestPerSecond(AcquisitionSuite):
    def make(self, data):
        return PerSecond(ExpectedImprovement())


def test_expected_improvement_is_divided_by_the_expected_time():
    data = table(lambda x: np.exp(3.0 * x))  # twenty times as long at one end
    posterior = GaussianProcess().fit(data, rng=np.random.default_rng(0)).posterior
    x, context = np.array([[0.1], [0.5], [0.93]]), Context(0.0)
    found = PerSecond().informed(data).values(posterior, x, context)
    plain = LogExpectedImprovement().values(posterior, x, context)
    gained = plain - found
    assert gained - gained[0] == pytest.approx(
        np.log(0.1 + np.exp(3.0 * x[:, 0])) - np.log(0.1 + np.exp(0.3)), abs=0.05
    )
    half = plain - PerSecond(exponent=0.5).informed(data).values(posterior, x, context)
    assert half == pytest.approx(0.5 * gained)


def test_evaluations_that_take_no_time_are_all_alike():
    rng = np.random.default_rng(0)
    learned = PerSecond().informed(table(lambda x: 1e-3 * rng.random(len(x))))  # a thousandfold, at random
    assert isinstance(learned, PerCost)
    assert np.ptp(learned.added(np.linspace(0.0, 1.0, 50)[:, None])) < 2 * np.log(
        1.01
    )  # times with 0.1 s added differ by 1 %


def test_without_times_it_is_the_other_acquisition():
    data = table(lambda x: np.where(x < 0.2, 1.0, np.nan), count=9)  # two are known
    assert PerSecond().informed(data) == LogExpectedImprovement()
    assert type(BY_NAME["eips"]()) is PerSecond


class Clock:
    """The module time, with seconds that pass only when told to."""

    def __init__(self):
        self.now = 1e9

    def __getattr__(self, name):
        return getattr(time, name)

    def time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("presage.ledger.time", made)
    return made


SPACE = presage.Space({"x": presage.Float(0.0, 1.0)})


def objective(clock):
    """Two equal minima, the one on the right a hundred times dearer."""

    def evaluate(params):
        clock.now += 1.0 if params["x"] < 0.5 else 100.0
        return np.cos(4.0 * np.pi * params["x"] - np.pi)

    return evaluate


def test_a_study_prefers_what_is_quick(clock):
    def spent(acquisition):
        began = clock.now
        study = presage.Study(SPACE, seed=0, initial=5, acquisition=acquisition)
        study.optimize(objective(clock), trials=16, progress=False)
        assert study.best.value < -0.99
        return clock.now - began

    assert spent("eips") < 0.75 * spent("ei")


def test_a_resumed_study_goes_on_as_if_nothing_had_happened(clock, tmp_path):
    whole = presage.Study(SPACE, seed=0, initial=4, acquisition="eips")
    whole.optimize(objective(clock), trials=10, progress=False)
    first = presage.Study(SPACE, seed=0, initial=4, acquisition="eips", storage=tmp_path / "s.db")
    first.optimize(objective(clock), trials=6, progress=False)
    second = presage.load_study(tmp_path / "s.db")
    second.optimize(objective(clock), trials=10, progress=False)
    assert [t.params for t in second.trials] == [t.params for t in whole.trials]
    assert {t.seconds for t in second.trials} == {1.0, 100.0}


def test_a_figure_shows_worth_per_second(clock):
    from presage.insight import record_of
    from presage.plots.model import _acquisition

    study = presage.Study(SPACE, seed=0, initial=5, acquisition="eips")
    study.optimize(objective(clock), trials=8, progress=False)
    model, x = record_of(study).model(), np.array([[0.2], [0.8]])
    plain = LogExpectedImprovement().values(model.posterior, x, Context(model.posterior.incumbent()))
    gained = _acquisition(record_of(study), model, x) - plain
    assert gained[0] - gained[1] == pytest.approx(np.log(100.0), abs=1.0)


def test_times_are_learned_once_for_a_batch(clock, monkeypatch):
    study = presage.Study(SPACE, seed=0, initial=5, acquisition="eips")
    study.optimize(objective(clock), trials=6, progress=False)
    learned = []
    monkeypatch.setattr(PerSecond, "informed", lambda self, data: learned.append(data.count) or self.base)
    study.ask(4)
    assert learned == [6]
