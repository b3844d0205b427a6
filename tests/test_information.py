"""Acquisitions of joint laws against brute force: entropies counted on a grid, expectations over many draws."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import integrate, special

from presage.acquisitions import (
    BY_NAME,
    Context,
    EntropySearch,
    KnowledgeGradient,
    LogExpectedImprovement,
    NoisyExpectedImprovement,
    PredictiveEntropySearch,
)
from presage.acquisitions.entropy import minimum_law
from presage.acquisitions.knowledge import largest_gain
from presage.acquisitions.max_value import JointEntropySearch, MaxValueEntropySearch, truncation_gain
from presage.kernels import Matern
from presage.observations import Column, observe
from presage.priors import LogNormal
from presage.surrogates import (
    ExtraTrees,
    GaussianProcess,
    GradientBoosting,
    RandomForest,
    Slice,
    StudentTProcess,
)
from presage.surrogates.gaussian_joint import GaussianJoint
from presage.surrogates.joint import ByConditioning
from presage.testing.acquisitions import Waves, _basis
from presage.testing.surrogates import mixed_data, mixed_points

pytestmark = pytest.mark.usefixtures("one_thread")

GRID = np.linspace(0.0, 1.0, 25)[:, None]
DRAWS = 100_000
SURE = 1e-6  # spread of a prior that leaves nothing to infer


def test_noise_decides_whether_improvement_is_over_what_the_best_may_be():
    observed = np.array([[0.05], [0.3], [0.55], [0.75], [0.9]])
    rule = BY_NAME["auto"]()
    quiet, loud = process(noise=0.01**2), process(noise=0.2**2)
    assert prepared(rule, quiet, observed) == LogExpectedImprovement()
    assert prepared(rule, quiet) == LogExpectedImprovement()  # nothing was observed
    noisy = prepared(rule, loud, observed)
    assert np.array_equal(
        noisy.values(loud, GRID, context(loud)),
        prepared(NoisyExpectedImprovement(), loud, observed).values(loud, GRID, context(loud)),
    )


def test_noise_that_was_told_counts():
    x, rule = np.linspace(0, 1, 5)[:, None], BY_NAME["auto"]()
    told = observe(x, np.arange(5.0), (Column("continuous"),), stddev=np.full(5, 0.5))
    assert rule.informed(told) == NoisyExpectedImprovement()
    assert rule.informed(observe(x, np.arange(5.0), (Column("continuous"),))) == rule


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"points": 0}, {"least": -0.1}, {"least": math.nan}])
def test_settings_of_noisy_improvement_are_checked(wrong):
    with pytest.raises(ValueError, match="must be at least"):
        NoisyExpectedImprovement(**wrong)


def process(noise=0.05):
    """A Gaussian process on an interval with five observations and known hyperparameters."""
    x = np.array([[0.05], [0.3], [0.55], [0.75], [0.9]])
    kernel = Matern(LogNormal(0.2, SURE), LogNormal(1.0, SURE))
    model = GaussianProcess(kernel, noise=LogNormal(noise, SURE), warp=None)
    data = observe(x, np.sin(9.0 * x[:, 0]) + x[:, 0], (Column("continuous"),))
    return model.fit(data, rng=np.random.default_rng(0)).posterior


def context(posterior, observed=None):
    return Context(posterior.incumbent(), 5, observed, lambda rng: GRID)


def prepared(acquisition, posterior, observed=None):
    return acquisition.prepare(posterior, context(posterior, observed), rng=np.random.default_rng(0))


def on_grid(acquisition, posterior):
    return prepared(acquisition, posterior).values(posterior, GRID, context(posterior))


# Covariances.


def test_covariances_of_waves_are_their_closed_form():
    posterior = Waves().condition(np.array([[0.2, 0.4], [0.7, 0.1]]), np.array([0.3, -0.5]))
    x, z = np.random.default_rng(0).random((2, 6, 2))
    center, spread = posterior.weights
    sigma_x, sigma_z = (np.sqrt(posterior.waves(at)[0].variance) for at in (x, z))
    expected = np.einsum("nk,ckl,ml->cnm", _basis(x)[0], spread, _basis(z)[0])
    expected *= sigma_x[:, :, None] * sigma_z[:, None, :]
    covariance = posterior.joint(z).covariance(x)
    # What is divided is a difference of means of about one standard deviation: rounding times the size of means.
    assert np.abs(covariance - expected).max() < 1e-12 * center.size
    again, slope = posterior.joint(z).covariance_gradient(x)
    assert np.array_equal(again, covariance)
    for j in range(2):
        step = 1e-5 * np.eye(2)[j]
        differences = posterior.joint(z).covariance(x + step) - posterior.joint(z).covariance(x - step)
        assert np.abs(slope[..., j] - differences / 2e-5).max() < 1e-7


def test_covariances_of_a_process_are_those_of_its_draws():
    posterior = process()
    covariance = posterior.joint(GRID[::4]).covariance(GRID)[0]
    draws = posterior.sample(GRID, DRAWS, rng=np.random.default_rng(1))
    expected = np.cov(draws.T)[:, ::4]
    variance = np.diag(np.cov(draws.T))
    error = np.sqrt((np.outer(variance, variance[::4]) + expected**2) / DRAWS)  # of a covariance of normal draws
    assert (np.abs(covariance - expected) < 5.0 * error + 1e-9).all()


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("model", [RandomForest(trees=20), ExtraTrees(trees=20), GradientBoosting(stages=10)])
def test_covariances_of_trees_are_those_of_their_draws(model, told):
    posterior = model.fit(mixed_data(20), rng=np.random.default_rng(0)).posterior
    x, z = mixed_points(8, seed=5), mixed_points(4, seed=6)
    if told:
        posterior = posterior.condition(x[:2], np.array([0.5, -1.0]))
    joint = posterior.joint(z)
    covariance, law = joint.covariance(x), joint.law(posterior.marginal(x))
    assert covariance.shape == (1, 8, 4)
    draws = posterior.sample(np.vstack([x, z]), 10_000, rng=np.random.default_rng(1))
    away = draws - draws.mean(axis=0)
    products = away[:, :8, None] * away[:, None, 8:]
    error = products.std(axis=0) / math.sqrt(len(draws))
    assert (np.abs(covariance[0] - products.mean(axis=0)) < 5.0 * error + 1e-9).all()
    squares = away[:, :8] ** 2
    error = squares.std(axis=0) / math.sqrt(len(draws))
    assert (np.abs(law.variance[0] - squares.mean(axis=0)) < 5.0 * error + 1e-9).all()
    np.testing.assert_allclose(law.mean[0], posterior.marginal(x).moments()[0], rtol=1e-12)
    np.testing.assert_allclose(joint.covariance(z)[0], joint.covariance(z)[0].T, atol=1e-12)


ENTROPIES = [EntropySearch, PredictiveEntropySearch, MaxValueEntropySearch, JointEntropySearch, KnowledgeGradient]


@pytest.mark.parametrize("kind", ENTROPIES)
@pytest.mark.parametrize("model", [RandomForest(), ExtraTrees(), GradientBoosting()])
def test_information_over_trees_is_one_table_and_overflows_nowhere(kind, model):
    """Six values, so that many points share a leaf of every tree and f there is one number."""
    x = np.random.default_rng(0).random((6, 2))
    data = observe(x, np.sin(9.0 * x[:, 0]) + x[:, 1], (Column("continuous"),) * 2)
    posterior = model.fit(data, rng=np.random.default_rng(0)).posterior
    some = Context(posterior.incumbent(), 6, x, lambda rng: rng.random((64, 2)))
    found = kind().prepare(posterior, some, rng=np.random.default_rng(0))
    assert len(getattr(found, "laws", (0,))) == 1
    value = found.values(posterior, np.random.default_rng(1).random((40, 2)), some)
    assert np.isfinite(value).all()
    assert value.min() > -1e-6
    assert value.max() > 1e-4


@pytest.mark.parametrize(
    "model", [GaussianProcess(), StudentTProcess(), GaussianProcess(hyperparameters=Slice(samples=4))]
)
def test_closed_covariances_are_those_that_conditioning_finds(model):
    posterior = model.fit(mixed_data(20), rng=np.random.default_rng(0)).posterior
    x, z = mixed_points(10, seed=5), mixed_points(6, seed=6)
    closed, learned = GaussianJoint.between(posterior, z), ByConditioning.of(posterior, z)
    for one, other in zip(closed.covariance_gradient(x), learned.covariance_gradient(x), strict=True):
        # Conditioning anew moves the jitter of the covariance and the last digits of a factor of condition 1e8.
        assert np.abs(one - other).max() < 1e-6 * np.abs(other).max()
    assert np.array_equal(closed.covariance(x), closed.covariance_gradient(x)[0])


# The place of the minimum.


@cache
def counted(noise):
    """Draws of f on the grid, the place of each one's minimum, its value, and noisy observations of f."""
    posterior, rng = process(noise), np.random.default_rng(2)
    f = posterior.sample(GRID, DRAWS, rng=rng)
    return f.argmin(axis=1), f.min(axis=1), f + math.sqrt(noise) * rng.standard_normal(f.shape)


def binned(values, bins):
    """Equally many values per bin."""
    return np.argsort(np.argsort(values)) * bins // len(values)


def information(one, other):
    """Mutual information of two columns of whole numbers, by counting, with the bias of counting removed."""
    table = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(table, (one, other), 1.0 / len(one))
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    cells = [p[p > 0] for p in (table, rows, columns)]
    entropies = [-(p * np.log(p)).sum() + (len(p) - 1) / (2.0 * len(one)) for p in cells]  # Miller & Madow
    return entropies[1] + entropies[2] - entropies[0]


@pytest.mark.parametrize("noise", [1e-4, 0.05])
def test_the_law_of_the_place_of_the_minimum(noise):
    posterior = process(noise)
    law = posterior.marginal(GRID)
    covariance = posterior.joint(GRID).covariance(GRID)[0]
    p = np.exp(minimum_law(law.mean[0], 0.5 * (covariance + covariance.T)).log_p)
    often = np.bincount(counted(noise)[0], minlength=len(GRID)) / DRAWS
    assert abs(p.sum() - 1.0) < 1e-12
    # Counting has an error of at most 0.0016 here; expectation propagation is known to be good to about 0.01.
    assert np.abs(p - often).max() < 0.01


def test_the_place_of_the_minimum_of_two_and_of_independent_points():
    two = minimum_law(np.array([0.0, 0.7]), np.array([[1.0, 0.3], [0.3, 0.5]]))
    assert math.exp(two.log_p[0]) == pytest.approx(special.ndtr(0.7 / math.sqrt(1.5 - 0.6)), abs=1e-12)
    even = minimum_law(np.zeros(6), np.eye(6))
    assert np.exp(even.log_p) == pytest.approx(np.full(6, 1 / 6), abs=1e-12)


@pytest.mark.parametrize("noise", [1e-4, 0.05])
@pytest.mark.parametrize("kind", ["es", "pes"])
def test_entropy_search_gains_the_information_that_counting_finds(kind, noise):
    from presage.acquisitions import PredictiveEntropySearch

    posterior = process(noise)
    place, _, y = counted(noise)
    truth = np.array([information(place, binned(column, 64)) for column in y.T])
    acquisition = (EntropySearch if kind == "es" else PredictiveEntropySearch)(points=len(GRID))
    values = on_grid(acquisition, posterior)
    # Both take the law of an observation given the place as Gaussian. Where an observation nearly gives the place away
    # (0.75 nats), it is farthest from that.
    assert np.abs(values - truth).max() < (0.12 if noise < 0.01 else 0.02)
    assert np.corrcoef(values, truth)[0, 1] > 0.99
    assert abs(int(values.argmax()) - int(truth.argmax())) <= 1
    # It is not the plain variance, which is largest elsewhere.
    assert np.corrcoef(posterior.marginal(GRID).variance[0], truth)[0, 1] < 0.6


def test_information_about_the_place_does_not_exceed_its_entropy():
    posterior = process(1e-4)
    place = np.bincount(counted(1e-4)[0], minlength=len(GRID)) / DRAWS
    entropy = -np.sum(place[place > 0] * np.log(place[place > 0]))
    values = on_grid(EntropySearch(points=len(GRID)), posterior)
    assert (values >= 0).all()
    assert values.max() <= entropy


# How low f gets.


def lost(gamma, variance, noise):
    """Entropy of y less that of y given f above its bound, by quadrature over y."""
    total = variance + noise
    rho, s = math.sqrt(variance / total), math.sqrt(noise / total)
    log_p = special.log_ndtr(gamma)

    def part(u):
        log_density = special.log_ndtr((gamma + rho * u) / s) - 0.5 * u * u - 0.5 * math.log(2 * math.pi) - log_p
        return -math.exp(log_density) * log_density

    middle = rho * math.exp(-0.5 * gamma**2 - 0.5 * math.log(2 * math.pi) - log_p)
    edge = -gamma / rho
    ends = sorted(
        {middle - 14.0, middle + 14.0, *[e for e in (edge - 8 * s, edge, edge + 8 * s, middle) if abs(e - middle) < 14]}
    )
    given = sum(integrate.quad(part, a, b, epsabs=1e-12, limit=500)[0] for a, b in itertools.pairwise(ends))
    return 0.5 * math.log(2 * math.pi * math.e) - given


def test_the_gain_of_a_truncation_is_that_of_quadrature():
    gamma, ratio = np.meshgrid([-10.0, -5.0, -2.0, -0.5, 0.0, 0.5, 2.0, 5.0], [1e-4, 1e-2, 0.1, 0.5, 1.0, 10.0, 1e3])
    values, by_gamma, by_variance = truncation_gain(gamma, np.full(gamma.shape, 2.0), 2.0 * ratio)
    truth = np.vectorize(lost)(gamma, 2.0, 2.0 * ratio)
    assert np.abs(values - truth).max() < 1e-5  # 32 nodes
    h = 1e-4
    for given, moved in (
        (by_gamma, [truncation_gain(gamma + e, np.full(gamma.shape, 2.0), 2.0 * ratio)[0] for e in (h, -h)]),
        (by_variance, [truncation_gain(gamma, np.full(gamma.shape, 2.0 + e), 2.0 * ratio)[0] for e in (h, -h)]),
    ):
        assert np.abs(given - (moved[0] - moved[1]) / (2 * h)).max() < 1e-4


def test_without_noise_the_gain_is_the_published_formula():
    gamma = np.linspace(-3.0, 6.0, 40)
    psi = np.exp(-0.5 * gamma**2 - 0.5 * math.log(2 * math.pi) - special.log_ndtr(gamma))
    published = 0.5 * gamma * psi - special.log_ndtr(gamma)
    values = truncation_gain(gamma, np.ones(40), np.full(40, 1e-20))[0]
    assert np.abs(values - published).max() < 1e-9


def test_max_value_entropy_search_against_counting():
    """Its one approximation: f(x) given the minimum is a truncated normal, which leaves out what neighbours tell.

    So it is exact where f(x) itself is about the only one that may be lowest, and short of the truth elsewhere.
    """
    posterior, (_, low, y) = process(), counted(0.05)
    truth = np.array([information(binned(low, 32), binned(column, 64)) for column in y.T])
    values = on_grid(MaxValueEntropySearch(samples=256), posterior)
    assert (values >= 0).all()
    assert values.max() < 1.2 * truth.max()
    assert np.corrcoef(values, truth)[0, 1] > 0.9
    assert abs(int(values.argmax()) - int(truth.argmax())) <= 1


def test_joint_entropy_search_against_counting():
    posterior, (place, low, y) = process(), counted(0.05)
    both = np.unique(place * 12 + binned(low, 12), return_inverse=True)[1]
    truth = np.array([information(both, binned(column, 48)) for column in y.T])
    values = on_grid(JointEntropySearch(samples=256), posterior)
    assert np.corrcoef(values, truth)[0, 1] > 0.95
    assert np.abs(values - truth).max() < 0.15
    assert abs(int(values.argmax()) - int(truth.argmax())) <= 1
    # Place and value together say more than the value alone.
    assert values.max() > on_grid(MaxValueEntropySearch(samples=256), posterior).max()


# Knowledge.


def test_the_gain_of_the_largest_of_lines_is_that_of_quadrature():
    rng = np.random.default_rng(3)
    level, slope = rng.standard_normal((2, 20, 7))
    slope[3] = 0.0  # parallel lines
    level[4], slope[4] = level[4, 0], slope[4, 0]  # equal lines
    value, by_level, by_slope = largest_gain(level, slope)
    w = np.linspace(-9.0, 9.0, 200_001)
    weight = np.exp(-0.5 * w * w) / math.sqrt(2 * math.pi) * (w[1] - w[0])
    truth = [weight @ (a[:, None] + b[:, None] * w).max(axis=0) - a.max() for a, b in zip(level, slope, strict=True)]
    assert np.abs(value - truth).max() < 1e-8
    assert value[3] == value[4] == 0.0
    h = 1e-6
    rows = np.arange(20) > 4
    for j in range(7):
        step = h * np.eye(7)[j]
        by = (largest_gain(level + step, slope)[0] - largest_gain(level - step, slope)[0]) / (2 * h)
        assert np.abs(by - by_level[:, j])[rows].max() < 1e-6
        by = (largest_gain(level, slope + step)[0] - largest_gain(level, slope - step)[0]) / (2 * h)
        assert np.abs(by - by_slope[:, j])[rows].max() < 1e-6


def test_small_gains_keep_their_digits():
    value, by_level, _ = largest_gain(np.array([[0.0, -20.0]]), np.array([[0.0, 1.0]]))
    assert value[0] == pytest.approx(5.4e-92, rel=0.05)  # phi(20) / 20^2
    assert by_level[0, 1] == pytest.approx(special.ndtr(-20.0), rel=1e-9)
    assert by_level[0, 0] == -by_level[0, 1]


def test_the_knowledge_gradient_is_what_conditioning_says():
    posterior = process()
    acquisition = prepared(KnowledgeGradient(points=len(GRID)), posterior)
    x = np.array([[0.12], [0.47], [0.5], [0.62]])
    values = acquisition.values(posterior, x, context(posterior))
    node, weight = np.polynomial.hermite_e.hermegauss(61)
    weight = weight / weight.sum()
    for point, value in zip(x, values, strict=True):
        law = posterior.marginal(point[None])
        spread = math.sqrt(law.variance[0, 0] + posterior.noise(point[None])[0])
        everywhere = np.vstack([GRID, point])
        before = posterior.marginal(everywhere).mean[0].min()
        after = [
            posterior.condition(point[None], law.mean[0] + spread * w).marginal(everywhere).mean[0].min() for w in node
        ]
        # The rule is for smooth functions and the least of lines has corners: its error goes with 1 / nodes.
        assert value == pytest.approx(before - weight @ after, rel=0.05)


# Noisy incumbents.


@pytest.mark.parametrize("noise", [1e-4, 0.05, 0.5])
def test_noisy_improvement_is_that_of_joint_draws(noise):
    posterior = process(noise)
    observed = np.array([[0.05], [0.3], [0.55], [0.75], [0.9]])
    x = np.array([[0.15], [0.45], [0.5], [0.6], [0.8]])
    acquisition = prepared(NoisyExpectedImprovement(samples=2000), posterior, observed)
    values = np.exp(acquisition.values(posterior, x, context(posterior, observed)))
    draws = posterior.sample(np.vstack([observed, x]), DRAWS, rng=np.random.default_rng(4))
    improvement = np.maximum(draws[:, :5].min(axis=1, keepdims=True) - draws[:, 5:], 0.0)
    error = improvement.std(axis=0) * math.sqrt(1.0 / DRAWS + 1.0 / 2000)
    assert (np.abs(values - improvement.mean(axis=0)) < 5.0 * error + 1e-6).all()
