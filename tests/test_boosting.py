"""Boosting: the shipped suite, quantiles against NumPy's, conditioning against dense algebra."""

import numpy as np
import pytest

import presage
from presage.observations import Column, observe
from presage.surrogates import GradientBoosting
from presage.surrogates.boosting import _quantiles
from presage.surrogates.trees import inputs
from presage.testing.surrogates import PLAIN, SurrogateSuite, mixed_data, plain_data, plain_points, probes, smooth

pytestmark = pytest.mark.usefixtures("one_thread")


class TestGradientBoosting(SurrogateSuite):
    def make(self):
        return GradientBoosting(stages=30, learning_rate=0.25)


def fitted(data, seed=0, **settings):
    return GradientBoosting(**settings).fit(data, rng=np.random.default_rng(seed)).posterior


def test_quantiles_in_groups_are_those_of_numpy():
    rng = np.random.default_rng(0)
    values, group, level = rng.normal(size=(50, 3)), rng.integers(6, size=50) * 2, np.array([0.1, 0.5, 0.93])
    found = _quantiles(values, group, level, 12)
    for g in range(12):
        inside = values[group == g]
        expected = [np.quantile(inside[:, j], level[j]) for j in range(3)] if len(inside) else np.zeros(3)
        np.testing.assert_allclose(found[g], expected, rtol=1e-12, atol=1e-12)


def test_boosted_quantiles_are_quantiles_of_the_values():
    """Where x says nothing, each model must stay at the quantiles of its 300 values; their standard error is 0.08."""
    y = np.random.default_rng(0).normal(size=400)
    data = observe(np.full((400, 2), 0.5), y, PLAIN)
    prior = fitted(data, folds=4, quantiles=(0.2, 0.5, 0.8)).prior
    leaves = prior.leaves(inputs(data.x[:1], PLAIN))
    quantiles = (prior.value[leaves].sum(axis=1) + prior.first[:, None])[:, 0]
    np.testing.assert_allclose(quantiles, [np.quantile(data.y, [0.2, 0.5, 0.8])] * 4, atol=0.25)
    mean, variance = prior.moments(leaves)
    np.testing.assert_allclose(mean, 0.0, atol=0.2)
    np.testing.assert_allclose(variance, 1.0, atol=0.4)  # a standard normal sample


def test_quantiles_that_cross_are_put_in_order():
    prior = fitted(plain_data(30)).prior
    crossed = prior._replace(first=prior.first[:, ::-1] * 10.0)
    leaves = prior.leaves(inputs(plain_points(5), PLAIN))
    raw = crossed.value[leaves].sum(axis=1) + crossed.first[:, None]
    assert (np.diff(raw, axis=2) < 0).any()
    expected = (np.sort(raw, axis=2) @ prior.score / (prior.score @ prior.score)) ** 2
    np.testing.assert_allclose(crossed.moments(leaves)[1], np.maximum(expected, 1 / 24**2))


@pytest.mark.parametrize("data", [plain_data(), mixed_data()], ids=["plain", "mixed"])
def test_conditioning_is_the_gaussian_update(data):
    posterior = fitted(data)
    x, y = probes(data)[:5], np.array([1.0, -1.0, 0.5, 0.0, 2.0])
    after = posterior.condition(x[:2], y[:2]).condition(x[2:], y[2:]).marginal(probes(data))
    every = np.vstack([x, probes(data)])
    law = posterior.marginal(every)
    leaves = posterior.prior.trees.leaves(inputs(every, data.columns)).reshape(len(law.mean), -1, len(every))
    for b, (mean, variance) in enumerate(zip(law.mean, law.variance, strict=True)):
        share = np.array([[np.mean(leaves[b, :, i] == leaves[b, :, j]) for i in range(len(every))] for j in range(5)])
        k = np.sqrt(np.outer(variance[:5], variance)) * share
        noise = np.clip(posterior.observation_noise, 1e-6 * variance[:5], variance[:5])
        gain = np.linalg.solve(k[:, :5] + np.diag(noise), k[:, 5:]).T
        np.testing.assert_allclose(after.mean[b], mean[5:] + gain @ (y - mean[:5]), rtol=1e-6, atol=1e-8)
        left = variance[5:] - np.einsum("ij,ji->i", gain, k[:, 5:])
        np.testing.assert_allclose(after.variance[b], left, rtol=1e-6, atol=1e-8)


def test_draws_after_conditioning_have_the_law_of_the_posterior():
    posterior = fitted(plain_data()).condition(plain_points(5, seed=4), np.linspace(-1.0, 1.0, 5))
    x = plain_points(10, seed=5)
    value = posterior.draw(2000, rng=np.random.default_rng(0)).values(x)
    mean, variance = posterior.marginal(x).moments()
    square = (value - mean) ** 2
    assert (np.abs(value.mean(axis=0) - mean) < 5.0 * np.sqrt(variance / 2000) + 1e-9).all()
    assert (np.abs(square.mean(axis=0) - variance) < 5.0 * square.std(axis=0) / np.sqrt(2000) + 1e-9).all()


def test_intervals_cover_what_they_say():
    """Without what was held out they would cover a third of what they say."""
    f = presage.functions.hartmann4
    x = np.random.default_rng(2).random((460, 4))
    y, columns = f.on_array(x), (Column("continuous"),) * 4
    data = observe(x[:60], y[:60], columns)
    fresh = observe(x[60:], y[60:], columns).rescaled(data.center, data.scale)
    score = fitted(data).score(fresh)
    assert 0.4 < score.coverage50 < 0.8
    assert score.coverage90 > 0.84


def test_what_was_held_out_is_foretold_by_the_model_that_had_not_seen_it():
    data = observe(plain_points(20), smooth(plain_points(20)), PLAIN)
    posterior = fitted(data)
    assert posterior.leave_one_out().shape == (20,)
    assert posterior.prior.seen.tolist() == [16] * 5
    seen = posterior.foretold(data.x, data.y, np.zeros(20))[0]
    assert posterior.leave_one_out().mean() < seen.mean()
