import math
import threading
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import presage
from presage import functions
from presage.kernels import features
from presage.observations import observe
from presage.surrogates import neural_basis, neural_posterior
from presage.surrogates.background import InBackground
from presage.surrogates.joint import ByConditioning
from presage.surrogates.linear_head import LeastSquares, MeanField, ScalePrior, Scales, Weights, empty_factor, extend
from presage.surrogates.network import Basis, Layout, tanh
from presage.surrogates.neural_basis import NeuralBasis
from presage.surrogates.representation import Rows, ThetaPrior, energy, refine
from presage.testing.surrogates import (
    MIXED,
    PLAIN,
    SurrogateSuite,
    mixed_data,
    mixed_points,
    plain_data,
    plain_points,
    smooth,
)
from presage.warping import Warp

SMALL = NeuralBasis(widths=(12, 12), members=2, evaluations=15, again=5)
pytestmark = pytest.mark.usefixtures("one_thread")


class TestNeuralBasis(SurrogateSuite):
    def make(self):
        return NeuralBasis(widths=(30, 30, 30), members=2, evaluations=30)


class TestMeanField(SurrogateSuite):
    def make(self):
        return NeuralBasis(widths=(20, 20), members=2, evaluations=60, head=MeanField())

    def test_samples_are_joint(self):
        """Independent weights of units that are all but equal: neighbours differ more than under the exact law."""
        posterior = self.fit(plain_data())
        assert posterior.members[0].weights.mean_field

    def test_predictions_of_the_data_are_their_values(self):
        """Independent weights cannot cancel each other's errors, so the bound is content with less than the data."""
        data = plain_data(30)
        mean, _ = self.fit(data).predict(data.x)
        assert np.corrcoef(mean, data.y)[0, 1] > 0.7

    def test_an_observation_teaches(self):
        data = plain_data()
        posterior = self.fit(data)
        x = plain_points(1, seed=5)
        before, _ = posterior.marginal(x).moments()
        after = posterior.condition(x, posterior.predict(x)[0] + 1.0)
        assert after.marginal(x).mean.mean() > before[0]
        assert (after.marginal(x).variance < posterior.marginal(x).variance).all()


def problem(count, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((count, 2))
    return Rows(features(x, PLAIN), np.exp(smooth(x)), np.where(np.arange(count) % 3 == 0, 0.02, 0.0))


@pytest.mark.parametrize("count", [6, 40], ids=["fewer rows than features", "more"])
@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("mean_field", [True, False])
def test_the_energy_has_its_gradient(count, every, mean_field):
    layout, rows = Layout(MIXED, (5, 4, 3), every, (0, 0)), None
    data = mixed_data(count)
    rows = Rows(features(data.x, MIXED), data.y, np.where(np.arange(count) % 3 == 0, 0.02, 0.0))
    prior = ThetaPrior.of(layout, (0.5, 1.0), ScalePrior(), True)
    theta = prior.center + 0.1 * np.random.default_rng(1).standard_normal(layout.size)
    theta[layout.d + 2] = 0.4
    chosen = np.arange(count)[np.arange(count) % 4 != 1]

    def at(theta):
        return energy(theta, layout, rows, chosen, prior, mean_field)

    h = 1e-3  # rounding is 1e-7 of the energy where features are collinear, and the third derivative about 10
    slope = np.array([
        (at(theta + h * e)[0] - at(theta - h * e)[0]) / (2 * h) for e in np.eye(layout.size)
    ])  # fmt: skip
    np.testing.assert_allclose(at(theta)[1], slope, atol=1e-5 * np.abs(slope).max())


@pytest.mark.parametrize("count", [5, 30])
def test_the_energy_is_the_evidence_of_a_gaussian(count):
    layout, rows = Layout(PLAIN, (4, 3), True, (0, 0)), problem(count)
    prior = ThetaPrior.of(layout, (0.5, 1.0), ScalePrior(), True)
    theta = prior.center.copy()
    theta[layout.d : layout.d + 3] = math.log(2.0), math.log(0.01), 0.3
    phi = Basis(layout, theta)(rows.inputs)
    warp, latent, _, _ = Warp.of(rows.y, 0.3)
    noise = 0.01 + rows.known * np.exp(2.0 * warp.log_slope(rows.y))
    dense = multivariate_normal(np.zeros(count), 2.0 * phi @ phi.T + np.diag(noise)).logpdf(latent)
    z = (theta - prior.center) / prior.spread
    expected = 0.5 * z @ z - dense - warp.log_slope(rows.y).sum() - 0.5 * count * math.log(2.0 * math.pi)
    assert abs(energy(theta, layout, rows, np.arange(count), prior)[0] - expected) < 1e-8 * abs(expected)


def test_minibatches_improve_a_representation():
    rng = np.random.default_rng(0)
    x = rng.random((900, 2))
    y = np.sin(9.0 * x[:, 0]) * np.cos(7.0 * x[:, 1])
    layout = Layout(PLAIN, (20, 20), True, (0, 0))
    prior = ThetaPrior.of(layout, (0.5, 1.0), ScalePrior(), True)
    rows, test = Rows(features(x[:600], PLAIN), y[:600], np.zeros(600)), features(x[600:], PLAIN)

    def error(theta):
        basis = Basis(layout, theta)
        factor = extend(empty_factor(layout.num_features), basis(rows.inputs), rows.y)
        return np.sqrt(np.mean((basis(test) @ Weights.given(factor, Scales(1.0, 1e-4)).mean - y[600:]) ** 2))

    found = refine(
        layout, rows, rows.y, prior.center, prior, steps=100, batch=128, rate=0.03, mean_field=False, rng=rng
    )
    assert error(found) < 0.5 * error(prior.center)
    assert found[layout.d + 2] == prior.center[layout.d + 2], "the warp is given"


def test_leave_one_out_is_what_is_left_without_the_row():
    data = plain_data(12)
    posterior = SMALL.fit(data, rng=np.random.default_rng(0)).posterior
    density = posterior.leave_one_out()
    assert (posterior.fold == np.arange(12) % 2).all()
    for i in range(12):
        basis, weights, _ = posterior.members[posterior.fold[i]]
        phi, rest = basis(posterior.seen.inputs), np.arange(12) != i
        S = np.linalg.inv(weights.factor[:-1, :-1].T @ weights.factor[:-1, :-1])
        P = np.linalg.inv(S) - np.outer(phi[i], phi[i]) / weights.noise  # the precision without the row
        prior = P - phi[rest].T @ phi[rest] / weights.noise
        np.testing.assert_allclose(prior, prior[0, 0] * np.eye(len(prior)), atol=1e-6 * np.abs(P).max())
        mean = np.linalg.solve(P, phi[rest].T @ posterior.seen.latent[rest] / weights.noise) @ phi[i]
        variance = phi[i] @ np.linalg.solve(P, phi[i]) + weights.noise
        z = (posterior.seen.latent[i] - mean) ** 2 / variance
        expected = -0.5 * (z + np.log(2 * np.pi * variance)) + posterior.warp.log_slope(data.y[i : i + 1])[0]
        assert abs(density[i] - expected) < 1e-4 * (1.0 + abs(expected))


def grown(data, x, y):
    """The table with further rows, all values standardised anew."""
    values = np.where(data.mask, data.center + data.scale * data.y, np.nan)
    return observe(np.vstack([data.x, x]), np.append(values, y), data.columns)


@pytest.mark.parametrize("many", [10, 10**6], ids=["factors in the state", "factors made anew"])
def test_a_kept_fit_with_new_rows_is_the_old_one_conditioned(monkeypatch, many):
    monkeypatch.setattr(neural_basis, "MANY", many)
    monkeypatch.setattr(neural_posterior, "WATCHED", 5)
    monkeypatch.setattr(neural_posterior, "CHUNK", 4)
    x = plain_points(20)
    waiting = np.arange(20) == 3  # its value comes later than those of other rows
    data = observe(x, np.where(waiting, np.nan, smooth(x)), PLAIN, pending=waiting)
    fit = SMALL.fit(data, rng=np.random.default_rng(0))
    assert ("factors" in fit.state) == (many == 10)
    more = observe(x, smooth(x), PLAIN)
    new = plain_points(3, seed=4)
    more = grown(more, new, smooth(new))
    kept = SMALL.fit(more, rng=np.random.default_rng(1), previous=fit.state, keep=True).posterior
    told = np.vstack([x[[3]], new])
    truth = fit.posterior.condition(told, (smooth(told) - data.center) / data.scale)
    probe = plain_points(9, seed=5)
    for one, other in zip(kept.marginal(probe), truth.marginal(probe), strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    assert abs(kept.incumbent() - kept.marginal(more.x).moments()[0].min()) < 1e-9
    # Predictions speak of the units of the data given.
    mean, _ = kept.predict(probe)
    before, _ = truth.predict(probe)
    np.testing.assert_allclose(more.center + more.scale * mean, data.center + data.scale * before, rtol=1e-6)
    # Rows that lie elsewhere now: the factors are of no use, and are made anew.
    moved = replace(more, x=0.5 * more.x)
    away = SMALL.fit(moved, rng=np.random.default_rng(1), previous=fit.state, keep=True).posterior
    phi = away.members[0].basis(features(moved.x, PLAIN))
    np.testing.assert_allclose(np.abs(away.members[0].factor[0, 0]), np.linalg.norm(phi[:, 0]), rtol=1e-9)


def test_a_fit_is_due_when_data_have_grown_or_surprise():
    x = plain_points(40)
    data = observe(x, smooth(x), PLAIN)
    state = SMALL.fit(data, rng=np.random.default_rng(0)).state
    new = plain_points(5, seed=9)
    assert not SMALL.due(data, state, 40)
    assert not SMALL.due(grown(data, new[:3], smooth(new[:3])), state, 40)
    assert SMALL.due(grown(data, new, smooth(new)), state, 40), "grown by more than a tenth"
    assert SMALL.due(grown(data, new[:3], smooth(new[:3]) + 5.0), state, 40), "foretold badly"
    assert SMALL.due(data, {}, 0)
    assert SMALL.due(mixed_data(), state, 40), "another space"


def test_three_networks_in_one_and_least_squares_of_the_seed():
    seed = NeuralBasis(widths=(6, 6, 6), members=1, head=LeastSquares(), every_layer=False, warp=False, evaluations=30)
    data = plain_data(60)
    posterior = seed.fit(data, rng=np.random.default_rng(0)).posterior
    basis, latent = posterior.members[0].basis, posterior.seen.latent
    phi = basis(features(data.x, PLAIN))
    w, rest, _, _ = np.linalg.lstsq(phi, latent, rcond=None)
    s2 = rest[0] / (60 - phi.shape[1])
    at = plain_points(5, seed=3)
    v = basis(features(at, PLAIN))
    law = posterior.marginal(at)
    np.testing.assert_allclose(law.mean[0], v @ w, atol=1e-4)
    variance = s2 * np.einsum("nm,mk,nk->n", v, np.linalg.inv(phi.T @ phi), v)
    np.testing.assert_allclose(law.variance[0], variance, rtol=1e-3)
    np.testing.assert_allclose(posterior.noise(at), s2, rtol=1e-9)


def test_covariances_are_those_that_an_observation_reveals():
    data = mixed_data()
    posterior = SMALL.fit(data, rng=np.random.default_rng(0)).posterior
    z, x = data.x[:2], mixed_points(6, seed=4)
    mine, revealed = posterior.joint(z), ByConditioning.of(posterior, z)
    value, slope = mine.covariance_gradient(x)
    assert np.array_equal(value, mine.covariance(x))
    for own, other in zip((value, slope), revealed.covariance_gradient(x), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-6 * np.abs(other).max())


def test_a_study_with_it_finds_a_minimum():
    study = presage.Study(functions.branin.space, surrogate=NeuralBasis(widths=(150,), members=3), seed=0)
    result = study.optimize(functions.branin, trials=30)
    # Random search is at about 1 in the median after 30 trials.
    assert result.best.value - functions.branin.minimum < 0.1


class Slow(NeuralBasis):
    """Fits when it is allowed to."""

    gate = threading.Event()

    def fit(self, data, *, rng, previous=None, keep=False):
        if not keep and previous is not None:
            self.gate.wait()
        return super().fit(data, rng=rng, previous=previous, keep=keep)


def test_suggestions_go_on_with_the_old_state_until_the_new_one_is_there():
    Slow.gate.clear()
    model = InBackground(Slow(widths=(8,), members=2, evaluations=5, again=3))
    rng = np.random.default_rng(0)
    data = plain_data(12)
    first = model.fit(data, rng=rng)
    new = plain_points(4, seed=8)
    more = grown(data, new, smooth(new))
    assert model.due(more, first.state, 12)
    meanwhile = model.fit(more, rng=rng, previous=first.state)
    assert model.training
    assert np.array_equal(meanwhile.state["theta"], first.state["theta"])
    assert len(meanwhile.posterior.seen.y) == 16, "new values count at once"
    assert not model.due(more, meanwhile.state, 16), "one fit at a time"
    Slow.gate.set()
    model.wait()
    assert model.due(more, meanwhile.state, 16)
    after = model.fit(more, rng=rng, previous=meanwhile.state)
    assert model.trained == 1
    assert int(after.state["count"]) == 16
    assert not np.array_equal(after.state["theta"], first.state["theta"])
    assert not model.due(more, after.state, 16)


class Broken(NeuralBasis):
    def fit(self, data, *, rng, previous=None, keep=False):
        if not keep and previous is not None:
            raise FloatingPointError("no factor")
        return super().fit(data, rng=rng, previous=previous, keep=keep)


def test_an_error_in_the_background_is_told_where_its_result_is_asked_for():
    model, rng, data = (
        InBackground(Broken(widths=(8,), members=1, evaluations=3)),
        np.random.default_rng(0),
        plain_data(12),
    )
    state = model.fit(data, rng=rng).state
    model.fit(data, rng=rng, previous=state)
    model.wait()
    with pytest.raises(FloatingPointError, match="no factor"):
        model.fit(data, rng=rng, previous=state)
    model.fit(data, rng=rng, previous=state)  # and another one is tried
    model.wait()


def test_a_study_stores_the_state_that_its_suggestions_come_from(tmp_path):
    def study():
        model = InBackground(NeuralBasis(widths=(8,), members=2, evaluations=5, again=3))
        return presage.Study(
            functions.branin.space, surrogate=model, seed=0, storage=str(tmp_path / "s.db"), initial=4
        ), model  # fmt: skip

    one, model = study()
    one.optimize(functions.branin, trials=14)
    model.wait()
    before = one.ask()  # takes over what was trained
    other, _ = study()
    assert model.trained > 0
    states = one._ledger.state(), other._ledger.state()
    for name, array in states[0].items():
        assert np.array_equal(array, states[1][name]), name
    one.tell(before, 1.0)


def test_tanh_is_tanh():
    x = np.concatenate([np.linspace(-25.0, 25.0, 10_001), [-1e3, 1e3]])
    # Each of its five operations rounds numbers of at most 2 by half a unit: 5 * 2 * 1.1e-16.
    np.testing.assert_allclose(tanh(x.copy()), np.tanh(x), rtol=0.0, atol=1.2e-15)
