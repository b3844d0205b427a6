"""Forests: the shipped suite, variances near and far from the data, conditioning, studies."""

import subprocess
import sys

import numpy as np
import pytest

import presage
from presage.observations import Column, observe
from presage.surrogates import BY_NAME, ExtraTrees, RandomForest
from presage.surrogates.trees import inputs
from presage.testing.surrogates import PLAIN, SurrogateSuite, mixed_data, plain_data, plain_points, probes, smooth

pytestmark = pytest.mark.usefixtures("one_thread")

BOTH = pytest.mark.parametrize("make", [RandomForest, ExtraTrees])


class TestRandomForest(SurrogateSuite):
    def make(self):
        return RandomForest(trees=40)


class TestExtraTrees(SurrogateSuite):
    def make(self):
        return ExtraTrees(trees=40)


def fitted(make, data, seed=0):
    return make().fit(data, rng=np.random.default_rng(seed))


@BOTH
@pytest.mark.parametrize("data", [plain_data(40), mixed_data(40)], ids=["plain", "mixed"])
def test_the_data_are_met_exactly_but_for_the_noise(make, data):
    """Every leaf holds one point, at which its variance is the noise's alone."""
    posterior = fitted(make, data).posterior
    law = posterior.marginal(data.x)
    np.testing.assert_allclose(law.mean, posterior.transformed(data.y)[0], atol=1e-12)
    np.testing.assert_allclose(law.variance, posterior.observation_noise, rtol=1e-5)


@BOTH
def test_the_variance_grows_with_the_distance(make):
    """Two points, so that every tree splits once, somewhere between them.

    The values are -1 and 1, their variance is 2; the mean squared distance of two draws of the points is 0.6^2 / 2.
    """
    fit = fitted(make, observe(np.array([[0.2], [0.8]]), np.array([3.0, 5.0]), (Column("continuous"),)))
    for distance in (0.0, 0.01, 0.1, 0.2):
        law = fit.posterior.marginal(np.array([[0.2 - distance], [0.8 + distance]]))
        np.testing.assert_allclose(law.mean, [[-1.0, 1.0]])
        spread = 2.0 * distance**2 / (distance**2 + 0.18)
        expected = fit.diagnostics["inflation"] * spread + fit.diagnostics["noise"]
        np.testing.assert_allclose(law.variance, expected, rtol=1e-5)


@BOTH
def test_equal_points_with_other_values_are_averaged(make):
    x = np.repeat(plain_points(10), 3, axis=0)
    y = np.repeat(smooth(plain_points(10)), 3) + np.tile([-0.3, 0.0, 0.3], 10)
    data = observe(x, y, PLAIN)
    posterior = fitted(make, data).posterior
    average = posterior.transformed(data.y)[0].reshape(10, 3).mean(axis=1)
    np.testing.assert_allclose(posterior.marginal(data.x).mean[0], np.repeat(average, 3), atol=1e-9)
    expected = posterior.observation_noise / 3.0
    np.testing.assert_allclose(posterior.marginal(data.x).variance, expected, rtol=1e-4)


@BOTH
def test_noise_is_found_by_what_was_left_out(make):
    """y = f + e with the variance of e 0.25 of that of y; the forest's own errors count as noise or as variance."""
    rng = np.random.default_rng(1)
    x = rng.random((300, 2))
    f = smooth(x) / smooth(x).std()
    noisy, clean = (fitted(make, observe(x, f + s * rng.normal(size=300), PLAIN)).posterior for s in (0.577, 0.0))
    assert 0.05 < noisy.observation_noise < 0.5
    assert clean.observation_noise < 0.1 * noisy.observation_noise


@BOTH
def test_known_noise_makes_a_value_count_less(make):
    x = np.array([[0.5, 0.5], [0.5, 0.5], [0.1, 0.2], [0.9, 0.7]])
    data = observe(x, np.array([0.0, 3.0, 1.0, 2.0]), PLAIN, stddev=np.array([np.nan, 10.0, np.nan, np.nan]))
    posterior = fitted(make, data).posterior
    latent, log_slope = (part[0] for part in posterior.transformed(data.y[:2]))
    weight = 1.0 / (1.0 + data.noise[:2] * np.exp(2.0 * log_slope))
    assert posterior.marginal(x[:1]).mean[0, 0] == pytest.approx(weight @ latent / weight.sum())


@BOTH
def test_intervals_cover_what_they_say(make):
    """Of 400 new values per function, or somewhat more; the standard error of a coverage is 0.025 at most."""
    for f in (presage.functions.branin, presage.functions.hartmann4):
        low, high = f.formula.box(f.num_dims)
        x = np.random.default_rng(2).random((460, f.num_dims))
        y, columns = f.on_array(low + (high - low) * x), (Column("continuous"),) * f.num_dims
        data = observe(x[:60], y[:60], columns)
        score = fitted(make, data).posterior.score(observe(x[60:], y[60:], columns).rescaled(data.center, data.scale))
        assert 0.4 < score.coverage50 < 0.8
        assert score.coverage90 > 0.84


def test_out_of_bag_density_agrees_with_leaving_out():
    """Not the same number, since a bag lacks a third of the data and not one value; but alike."""
    data, forest, left = plain_data(20), ExtraTrees(trees=60), []
    fit = forest.fit(data, rng=np.random.default_rng(0))
    for i in range(20):
        rest = np.arange(20) != i
        part = observe(data.x[rest], data.y[rest], PLAIN).rescaled(0.0, 1.0)
        posterior = forest.fit(part, rng=np.random.default_rng(0), previous=fit.state, keep=True).posterior
        left.append(posterior.foretold(data.x[[i]], data.y[[i]], np.zeros(1))[0][0])
    out_of_bag = fit.posterior.leave_one_out()
    assert out_of_bag.shape == (20,)
    assert abs(out_of_bag.mean() - np.mean(left)) < 0.5
    assert np.corrcoef(out_of_bag, left)[0, 1] > 0.5


@BOTH
@pytest.mark.parametrize("data", [plain_data(), mixed_data()], ids=["plain", "mixed"])
def test_new_observations_are_met_and_the_others_stay(make, data):
    posterior = fitted(make, data).posterior
    x, y = probes(data)[:6], np.linspace(-2.0, 2.0, 6)
    after = posterior.condition(x, y)
    latent = posterior.transformed(y)[0]
    np.testing.assert_allclose(after.marginal(x).mean, latent, atol=1e-12)
    np.testing.assert_allclose(after.marginal(x).variance, posterior.observation_noise, rtol=1e-5)
    np.testing.assert_allclose(after.marginal(data.x).mean, posterior.transformed(data.y)[0], atol=1e-12)
    assert after.incumbent() == pytest.approx(min(posterior.transformed(data.y)[0].min(), latent.min()))
    assert len(after.leave_one_out()) == len(data.y) + 6
    again = after.condition(x[:1], np.array([1.0]))  # the same point: the average of -2 and 1
    average = posterior.transformed(np.array([-2.0, 1.0]))[0].mean()
    np.testing.assert_allclose(again.marginal(x[:1]).mean, average, atol=1e-12)


@BOTH
def test_a_split_cuts_halfway(make):
    """One point at 0.2, a new one at 0.6: the boundary is at 0.4."""
    posterior = fitted(make, observe(np.array([[0.2]]), np.array([5.0]), (Column("continuous"),))).posterior
    after = posterior.condition(np.array([[0.6]]), np.array([7.0]))
    law = after.marginal(np.array([[0.0], [0.39], [0.41], [1.0]]))
    there = after.transformed(np.array([7.0]))[0][0, 0]
    np.testing.assert_allclose(law.mean, [[0.0, 0.0, there, there]], atol=1e-12)


@BOTH
def test_thresholds_lie_anywhere_between_two_points(make):
    """With one point at 0 and one at 1 the share of the trees that side with the second grows evenly in between."""
    posterior = make(trees=600).fit(
        observe(np.array([[0.0], [1.0]]), np.array([0.0, 1.0]), (Column("continuous"),)), rng=np.random.default_rng(0)
    ).posterior  # fmt: skip
    at = np.linspace(0.1, 0.9, 9)
    mean = posterior.marginal(at[:, None]).mean[0]
    np.testing.assert_allclose(0.5 + 0.5 * mean / posterior.transformed(np.array([1.0]))[0], [at], atol=4 * 0.0204)


@BOTH
def test_bad_values_far_above_the_others_are_drawn_together(make):
    """Values that span decades upward: held-out ones are foretold best by the logarithm; downward it would not help."""
    x = np.random.default_rng(3).random((80, 2))
    wide = fitted(make, observe(x, np.exp(8.0 * smooth(x)), PLAIN))
    deep = fitted(make, observe(x, -np.exp(8.0 * smooth(x)), PLAIN))
    assert wide.diagnostics["exponent"] == 0.0
    assert deep.diagnostics["exponent"] == 1.0


@BOTH
def test_draws_after_conditioning_have_the_law_of_the_posterior(make):
    data = plain_data()
    posterior = fitted(make, data).posterior.condition(plain_points(5, seed=4), np.zeros(5))
    x = plain_points(10, seed=5)
    value = posterior.draw(2000, rng=np.random.default_rng(0)).values(x)
    mean, variance = posterior.marginal(x).moments()
    square = (value - mean) ** 2
    assert (np.abs(value.mean(axis=0) - mean) < 5.0 * np.sqrt(variance / 2000) + 1e-9).all()
    assert (np.abs(square.mean(axis=0) - variance) < 5.0 * square.std(axis=0) / np.sqrt(2000) + 1e-9).all()


@pytest.mark.parametrize("name", ["rf", "et", "gbm"])
def test_a_batch_has_no_two_points_next_to_each_other(name):
    f = presage.functions.branin
    study = presage.Study(f.space, surrogate=name, seed=0, initial=8)
    study.optimize(f, 8)
    x = np.array([study.space.encode(trial.params) for trial in study.ask(4)])
    distance = np.linalg.norm(x[:, None] - x, axis=2)[np.triu_indices(4, 1)]
    assert distance.min() > 1e-3


def test_forests_split_on_categories_and_absence():
    data = mixed_data(20)
    assert inputs(data.x, data.columns).shape == (20, 3 + 3 + 1)


def test_scikit_learn_is_imported_when_a_forest_is_made():
    assert {"rf", "et", "gbm"} <= set(BY_NAME)
    script = "import sys, presage.surrogates as s; print('sklearn' in sys.modules); s.BY_NAME['rf'](); "
    script += "print('sklearn' in sys.modules, 'jax' in sys.modules, s.RandomForest.__name__)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["False", "True", "False", "RandomForest"]


@pytest.mark.slow
@BOTH
def test_a_study_with_a_forest_beats_chance(make):
    """Random search has a median regret of 0.9 on Branin after 30 trials, and so had suggestions next to the data."""
    f, found = presage.functions.branin, []
    for seed in range(5):
        study = presage.Study(f.space, surrogate=make(), seed=seed, initial=5)
        found.append(study.optimize(f, 30).best.value - f.minimum)
    assert np.median(found) < 0.6
