"""The Gaussian process against dense algebra, scikit-learn, SciPy's optimiser and finite differences."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from presage.kernels import ABSENT, feature_owners, features, matern52, squared_distance
from presage.observations import Column, observe
from presage.surrogates import GaussianProcess
from presage.surrogates.gaussian_process import Table, cholesky, condition, energy
from presage.testing.surrogates import (
    MIXED,
    PLAIN,
    SurrogateSuite,
    central,
    mixed_data,
    mixed_points,
    plain_data,
    plain_points,
    smooth,
)
from presage.warping import Warp

DATA = {"plain": plain_data(), "mixed": mixed_data()}


pytestmark = pytest.mark.usefixtures("one_thread")


class TestGaussianProcess(SurrogateSuite):
    def make(self):
        return GaussianProcess()


class TestGaussianProcessWithoutWarp(SurrogateSuite):
    def make(self):
        return GaussianProcess(warp=None)


# The same model, written a second time for one pair of points.


def covariance(a, b, columns, theta):
    """k(a, b): Rasmussen & Williams, eq. 4.17, on the distances that `presage.kernels.features` promises."""
    square = 0.0
    for p, q, column, log_scale in zip(a, b, columns, theta, strict=False):
        here, there = not math.isnan(p), not math.isnan(q)
        if column.kind != "categorical":
            apart = ((p if here else 0.5) - (q if there else 0.5)) ** 2
        elif here and there:
            apart = float(math.floor(p * column.levels) != math.floor(q * column.levels))
        else:
            apart = 0.5 * (here != there)
        square += (apart + ABSENT**2 * (here != there)) / math.exp(2 * log_scale)
    r = math.sqrt(5 * square)
    return math.exp(theta[len(columns)]) * (1 + r + r * r / 3) * math.exp(-r)


def matrix(a, b, columns, theta):
    return np.array([[covariance(p, q, columns, theta) for q in b] for p in a])


def dense(data, theta, x):
    """Mean and covariance at x by numpy.linalg.solve."""
    X, y, noise, mean = data.x[data.mask], data.y[data.mask], math.exp(theta[-3]), theta[-2]
    K = matrix(X, X, data.columns, theta) + np.diag(noise + data.noise[data.mask])
    k = matrix(x, X, data.columns, theta)
    return mean + k @ np.linalg.solve(K, y - mean), matrix(x, x, data.columns, theta) - k @ np.linalg.solve(K, k.T)


def thetas(d, count, noise=(1e-3, 1e-1), seed=0, exponent=(1.0, 1.0)):
    """Hyperparameters of the usual sizes, [count, d + 4]: log lengthscales, log variance, log noise, mean, exponent."""
    rng = np.random.default_rng(seed)
    low = [*np.log([0.1] * d + [0.3, noise[0]]), -1.0, exponent[0]]
    high = [*np.log([2.0] * d + [3.0, noise[1]]), 1.0, exponent[1]]
    return rng.uniform(low, high, (count, d + 4))


def at(data, theta):
    """The posterior with given hyperparameters, values left alone."""
    return GaussianProcess(warp=None).fit(
        data, rng=np.random.default_rng(0), previous={"theta": theta[None]}, keep=True
    )[0]


# Jitter is 1e-10 of the process variance (at most 3) and the noise here at least 1e-2 of 1: relatively 3e-8 of what is
# predicted, which is of order 1. Rounding is a condition number of 20 * 3 / 1e-2 times 1e-16.
CLOSE = 1e-7


@pytest.mark.parametrize("name", DATA)
def test_the_posterior_is_that_of_dense_algebra(name):
    data = DATA[name]
    known = np.where(np.arange(len(data.y)) % 3 == 0, 0.2, 0.0)
    for table in (data, observe(data.x, smooth(data.x), data.columns, stddev=known)):
        x = plain_points(10, seed=5) if data.columns == PLAIN else mixed_points(10, seed=5)
        for theta in thetas(len(data.columns), 3, noise=(1e-2, 1e-1)):
            law = at(table, theta).marginal(x)
            mean, cov = dense(table, theta, x)
            assert np.abs(law.mean[0] - mean).max() < CLOSE
            assert np.abs(law.variance[0] - np.diag(cov)).max() < CLOSE
            assert np.array_equal(law.weight, [1.0])


def test_the_posterior_is_that_of_scikit_learn():
    data, x = DATA["plain"], plain_points(20, seed=5)
    for theta in thetas(2, 4, noise=(1e-2, 1e-1)):
        kernel = ConstantKernel(math.exp(theta[2])) * Matern(np.exp(theta[:2]), nu=2.5)
        peer = GaussianProcessRegressor(kernel, alpha=math.exp(theta[3]), optimizer=None).fit(data.x, data.y - theta[4])
        mean, stddev = peer.predict(x, return_std=True)
        law = at(data, theta).marginal(x)
        assert np.abs(law.mean[0] - mean - theta[4]).max() < CLOSE
        assert np.abs(law.variance[0] - stddev**2).max() < CLOSE


def test_a_posterior_of_several_hyperparameters_is_a_mixture():
    data, x = DATA["mixed"], mixed_points(6, seed=5)
    several = thetas(4, 3)
    mixture = condition(Table.of(data), several, warped=False)
    parts = [condition(Table.of(data), theta[None], warped=False).marginal(x) for theta in several]
    law = mixture.marginal(x)
    assert np.allclose(law.weight, 1 / 3)
    assert np.allclose(law.mean, np.vstack([part.mean for part in parts]), atol=1e-12)
    assert np.allclose(law.variance, np.vstack([part.variance for part in parts]), atol=1e-12)
    mean, variance = law.moments()
    draws = mixture.sample(x, 6000, rng=np.random.default_rng(0))
    square = (draws - mean) ** 2
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / 6000)).all()
    assert (np.abs(square.mean(axis=0) - variance) < 5 * square.std(axis=0) / np.sqrt(6000)).all()


def test_samples_have_the_covariance_of_dense_algebra():
    data, x = DATA["mixed"], mixed_points(6, seed=5)
    theta = thetas(4, 1)[0]
    mean, cov = dense(data, theta, x)
    count = 20_000
    draws = at(data, theta).sample(x, count, rng=np.random.default_rng(0))
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / count)  # of a Gaussian's covariance
    assert (np.abs((draws - mean).T @ (draws - mean) / count - cov) < 5 * error).all()


# The energy and its minimum.


WARPS = {"values left alone": (False, (1.0, 1.0)), "warped": (True, (-1.0, 1.0))}


@pytest.mark.parametrize("warp", WARPS)
@pytest.mark.parametrize("name", DATA)
def test_energy_is_the_negative_log_posterior(name, warp):
    data, (warped, exponents) = DATA[name], WARPS[warp]
    d = len(data.columns)
    center, spread = GaussianProcess().prior(d)
    several = thetas(d, 4, noise=(1e-2, 1e-1), exponent=exponents)
    value, _ = energy(several, Table.of(data), center, spread, warped)
    expected = []
    for theta in several:
        K = matrix(data.x, data.x, data.columns, theta) + math.exp(theta[d + 1]) * np.eye(len(data.y))
        law = stats.multivariate_normal(np.full(len(data.y), theta[d + 2]), K)
        latent, jacobian = data.y, 0.0
        if warped:  # the density of y is that of its image times the slope of the image
            latent = Warp.of(data.y, theta[d + 3])[0].forward(data.y)
            low, high = (Warp.of(data.y, theta[d + 3])[0].forward(data.y + step) for step in (-1e-6, 1e-6))
            slope = (high - low) / 2e-6
            slope[data.y.argmin()] = ((high - latent) / 1e-6)[data.y.argmin()]  # a straight line below the least value
            jacobian = np.log(slope).sum()
        expected.append(-law.logpdf(latent) - jacobian - stats.norm(center, spread).logpdf(theta).sum())
    # Up to a constant; differences over 1e-6 are good to 1e-6 at the kink and 1e-10 elsewhere.
    assert np.abs(np.diff(value) - np.diff(expected)).max() < (1e-5 if warped else CLOSE * np.abs(value).max())


@pytest.mark.parametrize("warp", WARPS)
@pytest.mark.parametrize("name", DATA)
def test_energy_has_the_gradient_of_finite_differences(name, warp):
    data, (warped, exponents) = DATA[name], WARPS[warp]
    center, spread = GaussianProcess().prior(len(data.columns))
    table = Table.of(observe(data.x, smooth(data.x), data.columns, stddev=0.1 * data.x[:, 0]))
    several = thetas(len(data.columns), 4, exponent=exponents)
    _, gradient = energy(several, table, center, spread, warped)

    def along(step, p):
        return energy(several + step * np.eye(several.shape[1])[p], table, center, spread, warped)[0]

    for p in range(several.shape[1]):
        slope = central(lambda step, p=p: along(step, p))
        # step^4 = 1e-12 times the fifth derivative in a logarithm, or 1e-14 of the energy divided by the step
        assert np.abs(gradient[:, p] - slope).max() < 1e-8 * np.abs(gradient).max(), p


@pytest.mark.parametrize("name", DATA)
def test_the_fit_finds_what_scipy_finds(name):
    data, model = DATA[name], GaussianProcess()
    d = len(data.columns)
    center, spread = model.prior(d)
    lower, upper = model.bounds(d)
    table = Table.of(data)

    def one(theta):
        value, gradient = energy(theta[None], table, center, spread, model.warp is not None)
        return value[0], gradient[0]

    peers = [
        optimize.minimize(one, start, jac=True, method="L-BFGS-B", bounds=list(zip(lower, upper, strict=True))).fun
        for start in [center, *np.clip(thetas(d, 3, exponent=(0.0, 1.0)), lower, upper)]
    ]
    found = model.fit(data, rng=np.random.default_rng(0)).state["theta"][0]
    # A tenth of a nat: hyperparameters 10% less plausible are as good.
    assert one(found)[0] < min(peers) + 0.1


@pytest.mark.parametrize("name", DATA)
def test_a_warm_start_ends_no_worse_than_a_cold_one(name):
    whole, model, rng = DATA[name], GaussianProcess(), np.random.default_rng(0)
    center, spread = model.prior(len(whole.columns))
    previous = None
    for count in range(5, len(whole.y) + 1):
        data = observe(whole.x[:count], smooth(whole.x[:count]), whole.columns)
        warm, cold = (model.fit(data, rng=rng, previous=state).state["theta"] for state in (previous, None))
        previous = {"theta": warm}
        value, _ = energy(np.vstack([warm, cold]), Table.of(data), center, spread, model.warp is not None)
        assert value[0] < value[1] + 0.1, count


@pytest.mark.parametrize("name", DATA)
def test_conditioning_is_refitting_with_kept_hyperparameters(name):
    data = DATA[name]
    first, last = np.arange(len(data.y)) < 9, np.arange(len(data.y)) >= 9
    for theta in thetas(len(data.columns), 2):
        whole = condition(Table.of(data), theta[None], warped=False)
        part = Table.at(data.x[first], data.y[first], data.noise[first], data.columns)
        grown = condition(part, theta[None], warped=False).condition(data.x[last], data.y[last])
        x = data.x[:5] * 0.9
        assert np.allclose(grown.marginal(x).mean, whole.marginal(x).mean, atol=1e-10)
        assert np.allclose(grown.marginal(x).variance, whole.marginal(x).variance, atol=1e-10)
        assert abs(grown.incumbent() - whole.incumbent()) < 1e-10


# The kernel.

columns = st.lists(
    st.one_of(
        st.builds(Column, st.just("continuous"), st.none(), st.booleans()),
        st.builds(Column, st.just("ordinal"), st.integers(2, 5), st.booleans()),
        st.builds(Column, st.just("categorical"), st.integers(2, 5), st.booleans()),
    ), min_size=1, max_size=4,
)  # fmt: skip


@given(columns, st.integers(0, 2**32 - 1))
def test_the_kernel_is_the_one_for_pairs_and_positive_definite(columns, seed):
    rng = np.random.default_rng(seed)
    x = rng.random((12, len(columns)))
    for j, column in enumerate(columns):
        if column.levels is not None:
            x[:, j] = (np.floor(column.levels * x[:, j]) + 0.5) / column.levels
        if column.conditional:
            x[rng.random(12) < 0.4, j] = np.nan
    theta = thetas(len(columns), 1, seed=seed)[0]
    scaled = features(x, tuple(columns)) / np.exp(theta[: len(columns)])[feature_owners(tuple(columns))]
    K = math.exp(theta[len(columns)]) * matern52(squared_distance(scaled, scaled))[0]
    # |a|^2 is at most 3 per column over a lengthscale of 0.1, so a squared distance has an error of 1e-13, and the
    # kernel, whose slope in it is at most 5/6 of the variance, one of 3e-13.
    assert np.abs(K - matrix(x, x, columns, theta)).max() < 1e-12
    assert np.linalg.eigvalsh(K).min() > -12 * 1e-12


def test_the_kernel_has_the_slope_of_finite_differences():
    square = np.geomspace(0.05, 50, 30)
    assert np.allclose(matern52(square)[1], central(lambda step: matern52(square + step)[0]), rtol=1e-7)
    assert matern52(np.zeros(1))[0] == 1.0
    assert matern52(np.zeros(1))[1] == -5 / 6


# Numerical trouble.


def test_repeated_points_without_noise():
    x = np.repeat(plain_points(6), 3, axis=0)
    y = smooth(x)
    theta = np.array([*np.log([0.5, 0.5, 1.0, 1e-30]), 0.0, 1.0])
    posterior = condition(Table.at(x, y, np.zeros(18), PLAIN), theta[None], warped=False)
    law = posterior.marginal(x)
    # The jitter that lets a singular matrix be factored is at most 1e-6 here: it acts as noise on three equal values.
    assert np.abs(law.mean - y).max() < 1e-4
    assert (law.variance > 0).all()
    assert law.variance.max() < 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = energy(theta[None], Table.of(observe(x, y, PLAIN)), *GaussianProcess().prior(2), True)
    assert not np.isnan(value).any()
    assert not np.isnan(gradient).any()


def test_jitter_is_the_least_that_helps():
    for deficit in (0.0, 1e-9, 1e-7, 1e-5, 1e-3):
        vector = np.ones((3, 1)) / math.sqrt(3)
        K = np.eye(3) - (1 + deficit) * vector @ vector.T  # its least eigenvalue is -deficit
        factor = np.tril(cholesky(K.copy(), 1.0))
        added = np.diag(factor @ factor.T - K)
        assert np.allclose(added, added[0], rtol=1e-3)
        assert deficit < added[0] + 1e-15 < 100 * max(deficit, 1e-10) * (1 + 1e-3)
    with pytest.raises(FloatingPointError, match="no Cholesky factor"):
        cholesky(-10 * np.eye(3), 1.0)


def test_mixed_columns_matter():
    """Categories and absences that change the value are told apart, which a kernel blind to them could not."""
    x = mixed_points(40)
    y = np.where(np.isnan(x[:, 3]), 2.0, 0.0) + (x[:, 2] > 2 / 3)
    data = observe(x, y, MIXED)
    posterior = GaussianProcess().fit(data, rng=np.random.default_rng(0)).posterior
    new = mixed_points(40, seed=9)
    truth = np.where(np.isnan(new[:, 3]), 2.0, 0.0) + (new[:, 2] > 2 / 3)
    mean, _ = posterior.predict(new)
    assert np.abs(data.center + data.scale * mean - truth).max() < 0.1
