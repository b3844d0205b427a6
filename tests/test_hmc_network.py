"""The network surrogate: the shipped suite, and what is particular to it."""

import math
from dataclasses import replace

import numpy as np
import pytest

import presage
from presage.inference.chains import run
from presage.inference.laws import CAUCHY, Gaussian, Stable
from presage.inference.regression import Regression
from presage.inference.stacking import left_out, stacked
from presage.surrogates import GaussianProcess, HMCNetwork
from presage.surrogates.hmc_network import flattened
from presage.testing.surrogates import SurrogateSuite, mixed_data, mixed_points, plain_data, plain_points

pytestmark = pytest.mark.usefixtures("one_thread")

# Small enough for tests: what the suite asks of a posterior does not depend on how long its chains were.
SMALL = HMCNetwork(widths=(10, 10), warmup=60, rewarm=8, draws=16, networks=32, trust=math.inf)
FITS = {}


def fitted(model, data):
    """The fit with a new generator of seed 0, made once: that it is always the same has its own test."""
    key = (model, data.x.tobytes(), data.y.tobytes(), data.mask.tobytes(), data.noise.tobytes(), data.columns)
    if key not in FITS:
        FITS[key] = model.fit(data, rng=np.random.default_rng(0))
    return FITS[key]


class TestHMCNetwork(SurrogateSuite):
    def make(self):
        return SMALL

    def whole(self, data, previous=None, keep=False):
        return super().whole(data, previous, keep) if previous is not None else fitted(self.make(), data)


def test_the_suite_of_draws():
    """Drawn networks are functions with gradients and the law of the posterior."""
    posterior, x = fitted(SMALL, plain_data()).posterior, 0.1 + 0.8 * plain_points(10, seed=2)
    draws = posterior.draw(2000, rng=np.random.default_rng(0))
    value, gradient = draws.values_and_gradients(x)
    assert np.allclose(draws.values(x[::-1])[:, ::-1], value)
    for j in range(2):
        step = 1e-5 * np.eye(2)[j]
        slope = (draws.values(x + step) - draws.values(x - step)) / 2e-5
        assert np.allclose(gradient[..., j], slope, rtol=1e-4, atol=1e-5 * np.abs(slope).max())
    mean, variance = posterior.marginal(x).moments()
    square = (value - mean) ** 2
    assert (np.abs(value.mean(axis=0) - mean) < 5 * np.sqrt(variance / 2000)).all()
    assert (np.abs(square.mean(axis=0) - variance) < 5 * square.std(axis=0) / np.sqrt(2000)).all()
    mixed = fitted(SMALL, mixed_data()).posterior
    at = mixed_points(6, seed=3)
    _, slope = mixed.draw(3, rng=np.random.default_rng(0)).values_and_gradients(at)
    assert slope.shape == (3, 6, 4)
    assert not slope[:, np.isnan(at)].any()


def test_a_fit_is_a_function_of_its_arguments():
    data = plain_data()
    again = SMALL.fit(data, rng=np.random.default_rng(0))
    for name, array in fitted(SMALL, data).state.items():
        assert np.array_equal(array, again.state[name]), name


def test_chains_that_disagree_are_run_again_and_then_replaced_by_a_process():
    data, hasty = plain_data(), replace(SMALL, warmup=0, trust=1.0 + 1e-9, patience=1)
    with pytest.warns(UserWarning, match="a Gaussian process answers instead"):
        fit = hasty.fit(data, rng=np.random.default_rng(0))
    assert fit.diagnostics["fallback"] == "gp"
    assert fit.diagnostics["rounds"] == 2
    process = GaussianProcess().fit(data, rng=np.random.default_rng(0)).posterior
    x = plain_points(5, seed=4)
    assert np.array_equal(fit.posterior.marginal(x).mean, process.marginal(x).mean)
    assert "positions" in fit.state, "the next fit goes on from where the chains are"


def test_a_growing_study_compiles_once_per_size():
    fitted(SMALL, plain_data())
    before = run._cache_size()
    previous = fitted(SMALL, plain_data()).state
    for count in (16, 17, 30):
        previous = SMALL.fit(plain_data(count), rng=np.random.default_rng(1), previous=previous).state
    assert run._cache_size() == before


def test_weights_are_flattened_no_more_than_needed():
    even = flattened(np.zeros(8))
    assert np.allclose(even, 1 / 8)
    mild = np.log([1.0, 0.9, 0.8, 0.7])
    assert np.allclose(flattened(mild), np.exp(mild) / np.exp(mild).sum())
    steep = flattened(-10.0 * np.arange(16.0))
    assert abs(1 / (steep @ steep) - 4.0) < 1e-3
    assert (np.diff(steep) < 0).all()


def test_stacking_finds_the_best_mixture():
    # n values, half of them foretold well by chain 0, half by chain 1, none by chain 2: halves, but for the doubt
    density = np.log(np.array([[9.0, 1.0], [1.0, 9.0], [1.0, 1.0]]) / 10.0).repeat(500, axis=1)
    assert stacked(density) == pytest.approx([0.5, 0.5, 0.0], abs=0.002)
    assert stacked(density[:, :0]) == pytest.approx(np.full(3, 1 / 3))

    def regret(w):
        return -np.logaddexp.reduce(np.log(w)[:, None] + some, axis=0).sum() - 0.5 * np.log(w).sum()

    some = np.random.default_rng(0).normal(size=(4, 30))
    found = stacked(some)
    assert found.sum() == pytest.approx(1.0)
    for i in range(4):  # no exchange between two chains improves
        for j in range(4):
            moved = found + 1e-4 * (np.eye(4)[i] - np.eye(4)[j])
            assert regret(moved) >= regret(found) - 1e-9


def test_a_value_left_out_by_weights_is_foretold_as_by_networks_drawn_without_it():
    # y_i ~ N(m, 1) given m ~ N(0, 1): draws of m given all three values, weighted, against the law without one
    y, rng = np.array([0.3, -0.5, 0.9]), np.random.default_rng(0)
    m = rng.normal(y.sum() / 4, 0.5, 200_000)
    log_density = -0.5 * (y - m[:, None]) ** 2 - 0.5 * math.log(2 * math.pi)
    found = left_out(log_density, np.full(len(m), 1 / len(m)))
    mean, variance = (y.sum() - y) / 3, 1 / 3 + 1
    assert found == pytest.approx(-0.5 * (y - mean) ** 2 / variance - 0.5 * math.log(2 * math.pi * variance), abs=0.01)


def test_chains_that_have_not_met_are_weighted():
    fit = fitted(SMALL, plain_data())
    assert fit.diagnostics["r_hat"] > 1.05
    by_chain = fit.posterior.weight.reshape(-1, 4)
    assert fit.posterior.weight.sum() == pytest.approx(1.0)
    assert np.ptp(by_chain, axis=0).max() < 1e-12
    assert np.ptp(by_chain[0]) > 0.0
    again = SMALL.fit(plain_data(), rng=np.random.default_rng(0), previous=fit.state, keep=True)
    assert again.posterior.weight == pytest.approx(fit.posterior.weight)


def test_conditioning_is_regression_on_the_same_networks():
    data = plain_data()
    posterior = fitted(SMALL, data).posterior
    x = plain_points(3, seed=7)
    y = posterior.predict(x)[0] + 0.1
    grown = posterior.condition(x, y)
    warp = posterior.table.warp
    noise = np.repeat(posterior.hidden.noise[:, None], len(data.y) + 3, axis=1)
    inputs = np.vstack([data.x, x]) - 0.5
    whole = Regression.of(
        posterior.table.network.basis(posterior.hidden, inputs), warp.forward(np.append(data.y, y)), noise
    )
    assert np.allclose(grown.regression.mean, whole.mean)
    gain = np.exp(whole.evidence - posterior.regression.evidence)
    if 1 / ((gain / gain.sum()) ** 2).sum() > 0.25 * len(gain):  # otherwise flattened
        assert np.allclose(grown.weight, gain / gain.sum())


@pytest.mark.parametrize("law", [CAUCHY, Stable(1.5)], ids=repr)
def test_other_laws_in_the_output_layer(law):
    model = replace(SMALL, laws=(Gaussian(), Gaussian(), law), warmup=40)
    data = plain_data(30)
    mean, _ = model.fit(data, rng=np.random.default_rng(0)).posterior.predict(data.x)
    assert np.abs(mean - data.y).max() < 0.5


def test_a_study_by_name():
    space = presage.Space({"x": presage.Float(0, 1)})
    study = presage.Study(space, surrogate="hmc", seed=0, initial=4)
    best = study.optimize(lambda p: (p["x"] - 0.3) ** 2, trials=6).best
    assert study.trials[-1].source == "model"
    assert best.value < 0.01
    assert "mean is least" in study.explain().choices["acquisition"].why
