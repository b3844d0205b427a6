"""Sampled hyperparameters: the slice sampler on known laws, and simulation-based calibration of whole fits."""

import math

import numpy as np
import pytest
from scipy import stats

from presage.inference.slice import slice_sample
from presage.kernels import Axes, Matern
from presage.means import ZeroMean
from presage.observations import observe
from presage.priors import Gamma, HalfCauchy, LogNormal
from presage.surrogates import HMC, NUTS, GaussianProcess, Slice
from presage.surrogates.gaussian import Model, Table
from presage.surrogates.hyperparameters import log_posterior
from presage.testing.surrogates import PLAIN, SurrogateSuite, plain_data

pytestmark = pytest.mark.usefixtures("one_thread")


class TestSlice(SurrogateSuite):
    def make(self):
        return GaussianProcess(hyperparameters=Slice(samples=6, warmup=10, thin=1))


# On known laws.


def test_the_slice_sampler_knows_skewed_and_correlated_laws():
    """Moments against the truth, in standard errors by batches of the chain; a gamma law and a tilted normal one."""
    cov = np.array([[1.0, 0.8], [0.8, 2.0]])
    precision = np.linalg.inv(cov)

    def log_density(x: np.ndarray) -> float:
        if x[0] <= 0:
            return -math.inf
        return 2.0 * math.log(x[0]) - x[0] - 0.5 * x[1:] @ precision @ x[1:]  # Gamma(3, 1) and N(0, cov)

    draws, count = slice_sample(
        log_density, np.array([1.0, 0.0, 0.0]), samples=8000, warmup=100, rng=np.random.default_rng(0)
    )
    assert 3 * 8000 <= count < 3 * 8100 * 12  # at least one proposal for each coordinate
    for function, truth in (
        (lambda x: x[:, 0], 3.0), (lambda x: x[:, 0] ** 2, 12.0), (lambda x: np.log(x[:, 0]), 0.9227843350984671),
        (lambda x: x[:, 1], 0.0), (lambda x: x[:, 1] * x[:, 2], 0.8), (lambda x: x[:, 2] ** 2, 2.0),
    ):  # fmt: skip
        batches = function(draws).reshape(40, 200).mean(axis=1)
        assert abs(batches.mean() - truth) < 4.0 * batches.std(ddof=1) / math.sqrt(40)


def test_the_slice_sampler_finds_its_width():
    """Widths far too small and far too large are mended during warm-up: few evaluations are needed afterwards."""
    for width in (1e-3, 1e4):
        _, early = slice_sample(
            lambda x: -0.5 * float(x @ x), np.zeros(2), samples=1, warmup=60, width=width, rng=np.random.default_rng(0)
        )
        _, late = slice_sample(
            lambda x: -0.5 * float(x @ x),
            np.zeros(2),
            samples=201,
            warmup=60,
            width=width,
            rng=np.random.default_rng(0),
        )
        assert (late - early) / 400 < 8.0


def test_the_slice_sampler_refuses_a_bad_start():
    with pytest.raises(ValueError, match="must start where"):
        slice_sample(lambda x: -math.inf, np.zeros(1), samples=1, warmup=0, rng=np.random.default_rng(0))


# Of whole fits.

AXES = Axes(PLAIN)
PRIORS = {
    "log-normal": (LogNormal(0.4, 0.7), LogNormal(1.0, 0.7), LogNormal(0.1, 1.0)),
    "half-Cauchy and gamma": (Gamma(3.0, 6.0), HalfCauchy(1.0), HalfCauchy(0.3)),
}


def world(priors: str) -> Model:
    lengthscale, variance, noise = PRIORS[priors]
    return Model(Matern(lengthscale, variance), ZeroMean(), PLAIN, noise, 1e-4, None)


def inside(model: Model, rng: np.random.Generator) -> np.ndarray:
    """A draw from the prior as the sampler sees it: cut off at its box."""
    while True:
        theta = model.priors.draw(1, rng=rng)[0]
        if ((theta >= model.priors.lower) & (theta <= model.priors.upper)).all():
            return theta


def ranks(how, priors: str, repeats: int, seed: int) -> np.ndarray:
    """Simulation-based calibration (Talts et al., 2018, arXiv 1804.06788): ranks of the truth, [repeats, p]."""
    rng, model, found = np.random.default_rng(seed), world(priors), []
    for _ in range(repeats):
        theta = inside(model, rng)
        x = rng.random((8, 2))
        at = AXES.features(x)
        K = model.kernel.evaluate(theta[: model.noise_at], at, at, AXES).value
        K[np.diag_indices(8)] += math.exp(theta[model.noise_at])
        y = np.linalg.cholesky(K + 1e-10 * np.eye(8)) @ rng.standard_normal(8)
        table = Table(x, at, y, np.zeros(8), 0.0, 1.0)
        draws = how.find(model, table, None, rng=rng).theta
        found.append((draws < theta).sum(axis=0))
    return np.array(found)


def assert_uniform(found: np.ndarray, draws: int, level: float = 1e-4) -> None:
    """A chi-squared test of each coordinate's ranks in six bins; once in ten thousand it is wrong."""
    for j in range(found.shape[1]):
        counts, _ = np.histogram(found[:, j], bins=np.linspace(-0.5, draws + 0.5, 7))
        width = np.histogram(np.arange(draws + 1), bins=np.linspace(-0.5, draws + 0.5, 7))[0]
        expected = len(found) * width / width.sum()
        assert stats.chisquare(counts, expected).pvalue > level, (j, counts)


def test_calibration_of_the_slice_sampler_in_short():
    """40 worlds: enough to see a sampler whose law is too narrow, as the next test shows."""
    found = ranks(Slice(samples=23, warmup=10, thin=3), "half-Cauchy and gamma", 40, 0)
    assert_uniform(found, 23)


@pytest.mark.slow
def test_calibration_sees_a_wrong_sampler():
    """The same test fails for a sampler of the prior's centre with too little spread."""

    class Wrong(Slice):
        def find(self, model, table, known, *, rng):
            right = super().find(model, table, known, rng=rng)
            return right._replace(theta=right.theta.mean(axis=0) + 0.3 * (right.theta - right.theta.mean(axis=0)))

    found = ranks(Wrong(samples=23, warmup=10, thin=3), "log-normal", 40, 0)
    with pytest.raises(AssertionError):
        assert_uniform(found, 23)


@pytest.mark.slow
@pytest.mark.parametrize("priors", PRIORS)
def test_calibration_of_the_slice_sampler(priors):
    assert_uniform(ranks(Slice(samples=47, warmup=30, thin=5), priors, 300, 1), 47)


@pytest.mark.slow
@pytest.mark.parametrize("how", [NUTS(47, 300, 4), HMC(47, 300, 6, 15)], ids=["nuts", "hmc"])
def test_calibration_of_gradient_based_samplers(how):
    assert_uniform(ranks(how, "log-normal", 100, 2), 47)


@pytest.mark.parametrize(
    "how", [NUTS(150, 150, 2), pytest.param(HMC(150, 150, 4, 12), marks=pytest.mark.slow)], ids=["nuts", "hmc"]
)
def test_gradient_based_samplers_agree_with_the_slice_sampler(how):
    """Means of each hyperparameter on one data set, in standard errors from the effective sample sizes."""
    from presage.inference.diagnostics import ess

    data = plain_data(10)
    model = world("log-normal")
    table = Table.of(data, AXES)
    one = Slice(600, 50, 2).find(model, table, None, rng=np.random.default_rng(0)).theta
    found = how.find(model, table, None, rng=np.random.default_rng(0))
    assert found.report["divergent"] < 10
    error = sum(draws.var(axis=0) / ess(draws[:, None]) for draws in (one, found.theta))
    assert (np.abs(one.mean(axis=0) - found.theta.mean(axis=0)) < 4.5 * np.sqrt(error)).all()


def test_samples_make_a_mixture_and_a_warm_start():
    data = plain_data(12)
    process = GaussianProcess(hyperparameters=Slice(samples=8, warmup=10, thin=1))
    fit = process.fit(data, rng=np.random.default_rng(0))
    assert len(fit.posterior.marginal(data.x).weight) == 8
    assert {"r_hat", "ess", "evaluations"} <= set(fit.diagnostics)
    again = process.fit(data, rng=np.random.default_rng(1), previous=fit.state)
    assert again.diagnostics["evaluations"] < fit.diagnostics["evaluations"]
    kept = process.fit(data, rng=np.random.default_rng(1), previous=fit.state, keep=True)
    assert np.array_equal(kept.state["theta"], fit.state["theta"])


def test_nothing_is_sampled_outside_the_box():
    data = observe(np.array([[0.1, 0.2], [0.7, 0.4]]), np.array([0.0, 1.0]), PLAIN)
    model = GaussianProcess().model(PLAIN)
    draws = Slice(50, 10, 1).find(model, Table.of(data, AXES), None, rng=np.random.default_rng(0)).theta
    assert (draws >= model.priors.lower).all()
    assert (draws <= model.priors.upper).all()
    assert log_posterior(model, Table.of(data, AXES), model.priors.upper + 0.1) == -math.inf


def test_gradient_based_samplers_compile_once():
    """For a number of hyperparameters, whatever the data and their number."""
    from presage.surrogates.hyperparameters import _program

    model, how = world("log-normal"), NUTS(3, 20, 1)
    for count in (5, 8, 13):
        how.find(model, Table.of(plain_data(count), AXES), None, rng=np.random.default_rng(count))
    assert _program("nuts", model.priors.size, 20, 3, None)._cache_size() == 1
