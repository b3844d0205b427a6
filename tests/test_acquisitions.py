"""Acquisitions against quadrature and finite differences, however far from the incumbent."""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from presage.acquisitions import (
    CappedImprovement,
    ConfidenceBound,
    Constrained,
    Context,
    EntropySearch,
    ExpectedImprovement,
    Exploration,
    Feasible,
    JointEntropySearch,
    KnowledgeGradient,
    LogExpectedImprovement,
    MaxValueEntropySearch,
    NoisyExpectedImprovement,
    PerCost,
    PredictiveEntropySearch,
    ProbabilityOfImprovement,
    ThompsonSampling,
    UnderSampled,
    gp_ucb,
)
from presage.acquisitions.improvement import log_improvement
from presage.observations import observe
from presage.surrogates import GaussianProcess, Marginal
from presage.testing.acquisitions import AcquisitionSuite, Waves
from presage.testing.surrogates import MIXED, PLAIN, central, mixed_data, mixed_points, plain_points, same_slope

pytestmark = pytest.mark.usefixtures("one_thread")


class TestLogExpectedImprovement(AcquisitionSuite):
    def make(self, data):
        return LogExpectedImprovement()


class TestCappedImprovement(AcquisitionSuite):
    def make(self, data):
        return CappedImprovement()


class TestFeasible(AcquisitionSuite):
    def make(self, data):
        return Feasible.learned(LogExpectedImprovement(), data)


class TestExpectedImprovement(AcquisitionSuite):
    def make(self, data):
        return ExpectedImprovement()


class TestProbabilityOfImprovement(AcquisitionSuite):
    def make(self, data):
        return ProbabilityOfImprovement()


class TestConfidenceBound(AcquisitionSuite):
    def make(self, data):
        return ConfidenceBound()


class TestScheduledBound(AcquisitionSuite):
    def make(self, data):
        return ConfidenceBound(gp_ucb)


class TestExploration(AcquisitionSuite):
    likes_low_means = False

    def make(self, data):
        return Exploration()


class TestThompsonSampling(AcquisitionSuite):
    likes_variance = False  # of one function drawn there is none

    def make(self, data):
        return ThompsonSampling()


class TestUnderSampled(AcquisitionSuite):
    likes_variance = False

    def make(self, data):
        return UnderSampled()


class TestNoisyExpectedImprovement(AcquisitionSuite):
    likes_low_means = likes_variance = False  # the incumbent is f at observed points, which moves with all of f

    def make(self, data):
        return NoisyExpectedImprovement()


class TestKnowledgeGradient(AcquisitionSuite):
    likes_low_means = likes_variance = False  # at a point whose mean is the least already, neither counts

    def make(self, data):
        return KnowledgeGradient(points=12)


class TestMaxValueEntropySearch(AcquisitionSuite):
    likes_low_means = likes_variance = False  # all of f is scaled at once, which entropies do not see

    def make(self, data):
        return MaxValueEntropySearch(samples=8)


class TestJointEntropySearch(AcquisitionSuite):
    likes_low_means = likes_variance = False

    def make(self, data):
        return JointEntropySearch(samples=8)


class TestEntropySearch(AcquisitionSuite):
    likes_low_means = likes_variance = False

    def make(self, data):
        return EntropySearch(points=10)


class TestPredictiveEntropySearch(AcquisitionSuite):
    likes_low_means = likes_variance = False

    def make(self, data):
        return PredictiveEntropySearch(points=10)


class TestFeasibleEntropySearch(AcquisitionSuite):
    likes_low_means = likes_variance = False

    def make(self, data):
        return Feasible.learned(EntropySearch(points=10), data)


class TestPerCost(AcquisitionSuite):
    def make(self, data):
        return PerCost(LogExpectedImprovement(), Waves(level=2.0))


class TestConstrained(AcquisitionSuite):
    def make(self, data):
        return Constrained(ExpectedImprovement(), Waves(level=0.3))


# log h(z), h(z) = phi(z) + z Phi(z).


def truth(z):
    """log h and h'/h without cancellation: sums of positive terms for z > 0, integrals of positive functions for z < 0.

    For z = -a: h(z) = phi(a) G with G = int_0^inf t exp(-a t - t^2/2) dt, and h'(z) = Phi(-a) = phi(a) R with R the
    same integral without its first t. In s = (1 + a) t both integrands keep their size for every a.
    """
    if z > 0:
        h = stats.norm.pdf(z) + z * special.ndtr(z)
        return math.log(h), special.ndtr(z) / h
    a = -z

    def integral(power):
        integrand = lambda s: s**power * math.exp(-s * a / (1 + a) - 0.5 * (s / (1 + a)) ** 2)  # noqa: E731
        return integrate.quad(integrand, 0, 60, epsabs=0, epsrel=1e-13, limit=200)[0] / (1 + a) ** (power + 1)

    return -0.5 * a * a - 0.5 * math.log(2 * math.pi) + math.log(integral(1)), integral(0) / integral(1)


Z = np.concatenate([
    -np.geomspace(1e-12, 1e4, 80), [0.0], np.geomspace(1e-12, 1e3, 80), [-1e-3, -0.999e-3, 1e-3, -5.0, 5.0, -0.9, 0.9],
])  # fmt: skip


def test_log_improvement_is_exact_from_minus_ten_thousand_to_a_thousand():
    value, slope = log_improvement(Z)
    expected = np.array([truth(z) for z in Z])
    # Quadrature is good to 1e-13 (and exp(-60) of its tail); log h passes through 0, near which h counts.
    assert (np.abs(value - expected[:, 0]) < 3e-13 * np.maximum(1.0, np.abs(expected[:, 0]))).all()
    assert (np.abs(slope - expected[:, 1]) < 3e-13 * expected[:, 1]).all()


def test_log_improvement_grows_and_bends_as_it_must():
    z = np.concatenate([-np.geomspace(1e8, 1e-8, 3000), np.geomspace(1e-8, 1e8, 3000)])
    value, slope = log_improvement(z)
    assert (np.diff(value) > 0).all()
    assert (slope > 0).all()
    assert (np.diff(slope) < 1e-12 * slope[1:]).all()  # concave, to rounding
    # Far out: h(z) -> z, and h(z) -> phi(z) / z^2 (1 - 3/z^2 + ...).
    assert np.allclose(value[z > 50], np.log(z[z > 50]), rtol=1e-15)
    left = z[z < -1e5]
    assert np.allclose(value[z < -1e5], -0.5 * left**2 - 0.5 * math.log(2 * math.pi) - 2 * np.log(-left), rtol=1e-15)


def test_a_scalar_will_do():
    assert log_improvement(np.float64(0.0))[0] == pytest.approx(-0.5 * math.log(2 * math.pi), rel=1e-15)
    assert log_improvement(np.float64(0.0))[1] == pytest.approx(math.sqrt(math.pi / 2), rel=1e-14)


# Expected improvement of mixtures.


def improvement(law, n, best):
    """E[max(best - f, 0)] at one point by quadrature, component by component."""
    total = 0.0
    for mean, variance, weight in zip(law.mean[:, n], law.variance[:, n], law.weight, strict=True):
        density = stats.norm(mean, math.sqrt(variance)).pdf
        low = min(mean, best) - 12 * math.sqrt(variance)
        total += weight * integrate.quad(lambda f, p=density: (best - f) * p(f), low, best, epsrel=1e-12, limit=200)[0]
    return total


@pytest.mark.parametrize("components", [1, 3])
def test_log_expected_improvement_is_that_of_quadrature(components):
    posterior = Waves(components=components)
    x = mixed_points(12)
    law = posterior.marginal(x)
    for best in (-2.0, 0.0, 2.0):
        values = LogExpectedImprovement().values(posterior, x, Context(best))
        expected = [math.log(improvement(law, n, best)) for n in range(12)]
        assert np.abs(values - expected).max() < 1e-9


def test_log_expected_improvement_differentiates_in_means_and_variances():
    law = Waves().marginal(mixed_points(10))
    _, by_mean, by_variance = LogExpectedImprovement().score(law, Context(-0.5))

    def score(mean, variance):
        return LogExpectedImprovement().score(Marginal(mean, variance, law.weight), Context(-0.5))[0]

    for c in range(3):
        only = (np.arange(3) == c)[:, None]
        same_slope(by_mean[c], central(lambda h, only=only: score(law.mean + h * only, law.variance)))
        relative = central(lambda h, only=only: score(law.mean, law.variance * np.exp(h * only)))
        same_slope(by_variance[c] * law.variance[c], relative)


def test_a_component_without_hope_does_not_count():
    """One component far from the incumbent underflows in plain numbers; the logarithm is that of the others alone."""
    near_, far = np.array([[0.0]]), np.array([[1e4]])
    both = Marginal(np.vstack([near_, far]), np.ones((2, 1)), np.array([0.25, 0.75]))
    alone = Marginal(near_, np.ones((1, 1)), np.array([1.0]))
    values = [LogExpectedImprovement().score(law, Context(0.0))[0] for law in (both, alone)]
    assert values[0] == pytest.approx(values[1] + math.log(0.25), abs=1e-14)


def test_gradients_hold_over_a_fitted_process():
    data = mixed_data()
    posterior = GaussianProcess().fit(data, rng=np.random.default_rng(0)).posterior
    x, context = mixed_points(20, seed=3), Context(posterior.incumbent())
    x = x[~np.isnan(x[:, 3])]
    for acquisition in (LogExpectedImprovement(), learned()):
        _, gradient = acquisition.values_and_gradients(posterior, x, context)
        for j in (0, 1, 3):
            slope = central(lambda h, j=j, a=acquisition: a.values(posterior, x + h * np.eye(4)[j], context), 1e-4)
            same_slope(gradient[:, j], slope)


# Feasibility.


def learned():
    x = mixed_points(20, seed=4)
    failed = x[:, 0] > 0.6
    return Feasible.learned(LogExpectedImprovement(), observe(x, np.where(failed, np.nan, 0.0), MIXED, failed=failed))


def test_feasible_adds_the_log_of_a_probability():
    acquisition, posterior, x = learned(), Waves(), np.vstack([mixed_points(30), mixed_points(20, seed=4)])
    added = acquisition.values(posterior, x, Context(0.0)) - LogExpectedImprovement().values(posterior, x, Context(0.0))
    law = acquisition.latent.marginal(x)
    log_p = stats.norm.logcdf(law.mean[0] / np.sqrt(1.0 + law.variance[0]))
    assert log_p.min() < math.log(0.5) < math.log(0.8) < log_p.max()
    # below 0.8, or 0.9 of the surest success, a point is ruled out: a thousand times the logarithm of what is missing
    worked = x[30:][x[30:, 0] <= 0.6]
    law = acquisition.latent.marginal(worked)
    surest = stats.norm.logcdf(law.mean[0] / np.sqrt(1.0 + law.variance[0])).max()
    likely = min(math.log(0.8), math.log(0.9) + surest)
    expected = log_p + 1000.0 * np.minimum(log_p - likely, 0.0)
    assert np.abs(added - expected).max() < 1e-9 * np.abs(expected).max()


def test_few_values_make_nobody_sure():
    """Of two successes and a failure the classifier is as sure as 0.8 nowhere: 0.9 of the surest success counts."""
    x = np.array([[0.48, 0.5], [0.98, 0.5], [0.23, 0.5]])
    failed = np.array([False, True, False])
    one = Feasible.learned(LogExpectedImprovement(), observe(x, np.where(failed, np.nan, 0.0), PLAIN, failed=failed))
    surest = one.log_p(x[~failed]).max()
    assert surest < math.log(0.8)
    assert one.likely == pytest.approx(math.log(0.9) + surest)


def test_feasible_learns_where_evaluations_fail():
    x = plain_points(30)
    failed = x[:, 0] > 0.5
    data = observe(x, np.where(failed, np.nan, 0.0), PLAIN, failed=failed)
    acquisition, flat = Feasible.learned(LogExpectedImprovement(), data), Waves(height=0.0)
    new = plain_points(200, seed=1)
    values = acquisition.values(flat, new, Context(0.0))
    away = np.abs(new[:, 0] - 0.5) > 0.15  # from the edge, where it cannot be sure
    assert values[away & (new[:, 0] > 0.5)].max() < values[away & (new[:, 0] < 0.5)].min()


def test_pending_rows_are_neither_success_nor_failure():
    x = plain_points(10)
    failed, pending = np.arange(10) < 3, np.arange(10) >= 7
    values = np.where(failed | pending, np.nan, 1.0)
    whole = Feasible.learned(LogExpectedImprovement(), observe(x, values, PLAIN, failed=failed, pending=pending))
    part = Feasible.learned(LogExpectedImprovement(), observe(x[:7], values[:7], PLAIN, failed=failed[:7]))
    new = plain_points(5, seed=1)
    assert np.array_equal(whole.latent.marginal(new).mean, part.latent.marginal(new).mean)
