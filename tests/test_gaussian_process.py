"""The Gaussian process against dense algebra, scikit-learn, SciPy's optimiser and finite differences."""

import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.gaussian_process.kernels import Matern as SkMatern

from presage.kernels import ABSENT, Axes, Linear, Matern, SquaredExponential, Trend, Warped
from presage.means import ConstantMean, GivenMean, HalfwayMean, LinearMean, ZeroMean
from presage.observations import Column, observe
from presage.priors import Gamma, LogNormal
from presage.surrogates import GaussianProcess, Slice, SparseGaussianProcess, StudentTProcess
from presage.surrogates.gaussian import Model, Table, cholesky, condition, energy
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


class TestStudentTProcess(SurrogateSuite):
    def make(self):
        return StudentTProcess()


STEEP = observe(plain_points(20, seed=5), np.exp(8 * ((plain_points(20, seed=5) - 0.4) ** 2).sum(axis=1)), PLAIN)


@pytest.mark.parametrize("settings", [{}, {"hyperparameters": Slice(samples=6, warmup=10)}], ids=["mode", "slice"])
def test_a_process_that_believes_itself_foretells_the_same(settings):
    """Conditioned on its own mean a Gaussian process keeps its mean everywhere, whatever the warp of the values."""
    posterior = GaussianProcess(**settings).fit(STEEP, rng=np.random.default_rng(0)).posterior
    at, probes = plain_points(4, seed=8), plain_points(50, seed=9)
    assert min(one.warp.exponent for one in posterior.components) < 0.5
    before, after = posterior.marginal(probes), posterior.believe(at).marginal(probes)
    np.testing.assert_allclose(after.mean, before.mean, atol=1e-6)
    assert (after.variance <= before.variance + 1e-9).all()
    one = at[:1]
    variance, noise = (
        posterior.marginal(one).variance[:, 0],
        [math.exp(c.theta[posterior.model.noise_at]) for c in posterior.components],
    )
    left = posterior.believe(one).marginal(one).variance[:, 0]
    np.testing.assert_allclose(left, variance * noise / (variance + noise), rtol=1e-3, atol=1e-9)


def test_imagined_values_are_in_the_units_of_the_marginal():
    posterior = GaussianProcess().fit(STEEP, rng=np.random.default_rng(0)).posterior
    at, f = plain_points(3, seed=8), np.array([-1.0, 0.5, 1.0])
    after = posterior.imagine(at, f)
    np.testing.assert_allclose(after.marginal(at).mean[0], f, atol=0.05)  # as near as the noise lets it
    np.testing.assert_allclose(after.table.y[-3:], posterior.components[0].warp.inverse(f))


def test_one_draw_is_of_any_component():
    """The mean over generators of single draws is the mixture's, not that of the first component."""
    data = plain_data(8)
    posterior = GaussianProcess(hyperparameters=Slice()).fit(data, rng=np.random.default_rng(0)).posterior
    x = plain_points(40, seed=6)
    law = posterior.marginal(x)
    mean, variance = law.moments()
    farthest = np.argmax(np.abs(law.mean[0] - mean) / np.sqrt(variance))  # where the first component is least like all
    many = 400
    for one in (lambda rng: posterior.sample(x, 1, rng=rng)[0], lambda rng: posterior.draw(1, rng=rng).values(x)[0]):
        drawn = np.mean([one(np.random.default_rng(seed))[farthest] for seed in range(many)])
        standard_error = np.sqrt(variance[farthest] / many)
        assert abs(drawn - mean[farthest]) < 4 * standard_error
        assert abs(drawn - law.mean[0, farthest]) > 4 * standard_error


@pytest.mark.parametrize(
    ("surrogate", "d"),
    [(GaussianProcess(), 2), (GaussianProcess(), 6), (GaussianProcess(), 12), (GaussianProcess(), 30),
     (StudentTProcess(), 12), (SparseGaussianProcess(inducing=40), 12)],
)  # fmt: skip
def test_drawn_functions_spread_as_the_posterior_does(surrogate, d):
    """In many dimensions too, where hardly any point is near one of a thousand others."""
    rng = np.random.default_rng(d)
    x, columns = rng.random((60, d)), (Column("continuous"),) * d
    y = np.sin(9 * x[:, 0]) + np.cos(7 * x[:, -1])
    made = replace(surrogate, kernel=Matern(lengthscale=LogNormal(0.3, 0.01)))  # times sqrt(d)
    posterior = made.fit(observe(x, y, columns), rng=rng).posterior
    at, near = rng.random((30, d)), x[:10] + 0.05 * rng.standard_normal((10, d))
    for points in (at, np.clip(near, 0, 1)):
        drawn = np.concatenate([posterior.draw(200, rng=np.random.default_rng(s)).values(points) for s in range(10)])
        ratio = drawn.var(axis=0) / posterior.marginal(points).moments()[1]
        assert 0.9 < ratio.mean() < 1.1
        exact = posterior.sample(points, 2000, rng=np.random.default_rng(1))
        apart = np.cov(drawn.T) - np.cov(exact.T)
        assert np.sqrt(np.mean(apart**2)) < 0.06 * exact.var(axis=0).max()  # the error of 2,000 draws is 0.03


@pytest.mark.parametrize(("d", "length"), [(2, 0.1), (2, 0.3), (6, 0.3), (12, 0.3)])
def test_drawn_functions_spread_as_the_posterior_does_among_many_values(d, length):
    """Where most values lie close to each other and what is left open is small and fluctuates fast."""
    rng = np.random.default_rng(d)
    home = 0.3 + 0.4 * rng.random(d)
    x = np.clip(np.vstack([rng.random((20, d)), home + 0.01 * rng.standard_normal((40, d))]), 0, 1)
    made = GaussianProcess(Matern(lengthscale=LogNormal(length, 0.01)))
    data = observe(x, np.sin(9 * x[:, 0]) + np.cos(7 * x[:, -1]), (Column("continuous"),) * d)
    posterior = made.fit(data, rng=rng).posterior
    for far in (0.005, 0.02, 0.05):
        points = np.clip(home + far * rng.standard_normal((30, d)), 0, 1)
        drawn = np.concatenate([posterior.draw(100, rng=np.random.default_rng(s)).values(points) for s in range(10)])
        ratio = drawn.var(axis=0) / posterior.marginal(points).moments()[1]
        assert 0.85 < ratio.mean() < 1.15  # 0.3 to 0.8 with kernels at points that were all over the cube


def test_draws_travel_between_processes():
    rng = np.random.default_rng(0)
    x = rng.random((30, 15))
    data = observe(x, x.sum(axis=1) + np.sin(9 * x[:, 0]), (Column("continuous"),) * 15)
    made = GaussianProcess(Matern(lengthscale=LogNormal(0.2, 0.01)) + Trend())
    draws = made.fit(data, rng=rng).posterior.draw(3, rng=rng)
    assert draws.waves[0] is not None
    at = rng.random((4, 15))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(draws)).values(at), draws.values(at))  # noqa: S301


class TestComposedKernel(SurrogateSuite):
    def make(self):
        return GaussianProcess(Warped(Matern()) + Linear(), LinearMean(), warp=None)


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
    d = len(data.columns)
    X, y, noise, mean = data.x[data.mask], data.y[data.mask], math.exp(theta[d + 1]), theta[d + 2]
    K = matrix(X, X, data.columns, theta) + np.diag(noise + data.noise[data.mask])
    k = matrix(x, X, data.columns, theta)
    return mean + k @ np.linalg.solve(K, y - mean), matrix(x, x, data.columns, theta) - k @ np.linalg.solve(K, k.T)


def thetas(d, count, noise=(1e-3, 1e-1), seed=0, exponent=(1.0, 1.0)):
    """Hyperparameters of the usual sizes, [count, d + 4]: log lengthscales, log variance, log noise, mean, exponent."""
    rng = np.random.default_rng(seed)
    low = [*np.log([0.1] * d + [0.3, noise[0]]), -1.0, exponent[0]]
    high = [*np.log([2.0] * d + [3.0, noise[1]]), 1.0, exponent[1]]
    return rng.uniform(low, high, (count, d + 4))


def model(data, warped=False):
    """The default process; values left alone or warped."""
    return (GaussianProcess() if warped else GaussianProcess(warp=None)).model(data.columns)


def table(data):
    return Table.of(data, Axes(data.columns))


def at(data, theta):
    """The posterior with given hyperparameters (the exponent is not used), values left alone."""
    return condition(model(data), table(data), theta[None, :-1])


# Jitter is 1e-10 of the process variance (at most 3) and the noise here at least 1e-2 of 1: relatively 3e-8 of what is
# predicted, which is of order 1. Rounding is a condition number of 20 * 3 / 1e-2 times 1e-16.
CLOSE = 1e-7


@pytest.mark.parametrize("name", DATA)
def test_the_posterior_is_that_of_dense_algebra(name):
    data = DATA[name]
    known = np.where(np.arange(len(data.y)) % 3 == 0, 0.2, 0.0)
    for seen in (data, observe(data.x, smooth(data.x), data.columns, stddev=known)):
        x = plain_points(10, seed=5) if data.columns == PLAIN else mixed_points(10, seed=5)
        for theta in thetas(len(data.columns), 3, noise=(1e-2, 1e-1)):
            law = at(seen, theta).marginal(x)
            mean, cov = dense(seen, theta, x)
            assert np.abs(law.mean[0] - mean).max() < CLOSE
            assert np.abs(law.variance[0] - np.diag(cov)).max() < CLOSE
            assert np.array_equal(law.weight, [1.0])


def test_the_posterior_is_that_of_scikit_learn():
    data, x = DATA["plain"], plain_points(20, seed=5)
    for theta in thetas(2, 4, noise=(1e-2, 1e-1)):
        kernel = ConstantKernel(math.exp(theta[2])) * SkMatern(np.exp(theta[:2]), nu=2.5)
        peer = GaussianProcessRegressor(kernel, alpha=math.exp(theta[3]), optimizer=None).fit(data.x, data.y - theta[4])
        mean, stddev = peer.predict(x, return_std=True)
        law = at(data, theta).marginal(x)
        assert np.abs(law.mean[0] - mean - theta[4]).max() < CLOSE
        assert np.abs(law.variance[0] - stddev**2).max() < CLOSE


def test_a_posterior_of_several_hyperparameters_is_a_mixture():
    data, x = DATA["mixed"], mixed_points(6, seed=5)
    several = thetas(4, 3)
    mixture = condition(model(data), table(data), several[:, :-1])
    parts = [at(data, theta).marginal(x) for theta in several]
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
    several = thetas(d, 4, noise=(1e-2, 1e-1), exponent=exponents)
    spread = [math.sqrt(3.0)] * d + [1.0, 3.0, 1.0, 1.0]
    center = [math.log(0.205 * math.sqrt(d))] * d + [0.0, math.log(1e-4), 0.0, 1.0]
    value, _ = energy(model(data, warped), table(data), several if warped else several[:, :-1])
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
    seen = table(observe(data.x, smooth(data.x), data.columns, stddev=0.1 * data.x[:, 0]))
    several = thetas(len(data.columns), 4, exponent=exponents)
    several = several if warped else several[:, :-1]
    assert_gradient(model(data, warped), seen, several)


def assert_gradient(model, seen, several):
    _, gradient = energy(model, seen, several)

    def along(step, p):
        return energy(model, seen, several + step * np.eye(several.shape[1])[p])[0]

    for p in range(several.shape[1]):
        slope = central(lambda step, p=p: along(step, p))
        # step^4 = 1e-12 times the fifth derivative in a logarithm, or 1e-14 of the energy divided by the step
        assert np.abs(gradient[:, p] - slope).max() < 1e-8 * np.abs(gradient).max(), p


@pytest.mark.parametrize("name", DATA)
def test_the_fit_finds_what_scipy_finds(name):
    data = DATA[name]
    d, process, seen = len(data.columns), model(data, True), table(data)
    lower, upper = process.priors.lower, process.priors.upper

    def one(theta):
        value, gradient = energy(process, seen, theta[None])
        return value[0], gradient[0]

    peers = [
        optimize.minimize(one, start, jac=True, method="L-BFGS-B", bounds=list(zip(lower, upper, strict=True))).fun
        for start in [process.priors.center, *np.clip(thetas(d, 3, exponent=(0.0, 1.0)), lower, upper)]
    ]
    found = GaussianProcess().fit(data, rng=np.random.default_rng(0)).state["theta"][0]
    # A tenth of a nat: hyperparameters 10% less plausible are as good.
    assert one(found)[0] < min(peers) + 0.1


@pytest.mark.parametrize("name", DATA)
def test_a_warm_start_ends_no_worse_than_a_cold_one(name):
    whole, rng = DATA[name], np.random.default_rng(0)
    previous = None
    for count in range(5, len(whole.y) + 1):
        data = observe(whole.x[:count], smooth(whole.x[:count]), whole.columns)
        warm, cold = (GaussianProcess().fit(data, rng=rng, previous=state).state["theta"] for state in (previous, None))
        previous = {"theta": warm}
        value, _ = energy(model(data, True), table(data), np.vstack([warm, cold]))
        assert value[0] < value[1] + 0.1, count


@pytest.mark.parametrize("name", DATA)
def test_conditioning_is_refitting_with_kept_hyperparameters(name):
    data = DATA[name]
    first, last = np.arange(len(data.y)) < 9, np.arange(len(data.y)) >= 9
    for theta in thetas(len(data.columns), 2):
        whole = at(data, theta)
        part = replace(data, mask=first)
        grown = at(part, theta).condition(data.x[last], data.y[last])
        x = data.x[:5] * 0.9
        # the jitter of the last block is 1e-10 of its own variance, not of the whole
        assert np.allclose(grown.marginal(x).mean, whole.marginal(x).mean, atol=1e-6)
        assert np.allclose(grown.marginal(x).variance, whole.marginal(x).variance, atol=1e-6)
        assert abs(grown.incumbent() - whole.incumbent()) < 1e-6


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
    axes = Axes(tuple(columns))
    at = axes.features(x)
    K = Matern().evaluate(theta[: len(columns) + 1], at, at, axes).value
    # |a|^2 is at most 3 per column over a lengthscale of 0.1, so a squared distance has an error of 1e-13, and the
    # kernel, whose slope in it is at most 5/6 of the variance, one of 3e-13.
    assert np.abs(K - matrix(x, x, columns, theta)).max() < 1e-12
    assert np.linalg.eigvalsh(K).min() > -12 * 1e-12


# Numerical trouble.


def test_repeated_points_without_noise():
    x = np.repeat(plain_points(6), 3, axis=0)
    y = smooth(x)
    theta = np.array([*np.log([0.5, 0.5, 1.0, 1e-30]), 0.0, 1.0])
    data = replace(observe(x, y, PLAIN), y=y)
    posterior = at(data, theta)
    law = posterior.marginal(x)
    # The jitter that lets a singular matrix be factored is at most 1e-6 here: it acts as noise on three equal values.
    assert np.abs(law.mean - y).max() < 1e-4
    assert (law.variance > 0).all()
    assert law.variance.max() < 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = energy(model(data, True), table(data), theta[None])
    assert not np.isnan(value).any()
    assert not np.isnan(gradient).any()


def test_a_search_that_has_converged_does_not_forget_the_rest():
    """Sixty values within 1e-9 of the least warped all others away: lengthscales fell to their bound."""
    rng = np.random.default_rng(0)
    x = np.vstack([rng.random((40, 2)), 0.4 + 1e-5 * rng.standard_normal((60, 2))])

    def bump(x):
        return -np.exp(-np.square(x - 0.4).sum(axis=1) / 0.08)

    data = observe(x, bump(x), PLAIN)
    posterior = GaussianProcess().fit(data, rng=rng).posterior
    away = rng.random((200, 2))
    assert np.allclose(data.center + data.scale * posterior.predict(away)[0], bump(away), atol=0.1)


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


# Means and tails.


MEANS = {
    "zero": ZeroMean(),
    "constant": ConstantMean(),
    "linear": LinearMean(),
    "halfway": HalfwayMean(),
    "given": GivenMean(lambda x: 3.0 + 2.0 * np.nansum(x, axis=1)),
}


@pytest.mark.parametrize("warped", [False, True])
@pytest.mark.parametrize("name", MEANS)
def test_every_mean_has_the_gradient_of_finite_differences(name, warped):
    data = DATA["mixed"]
    process = GaussianProcess(mean=MEANS[name], warp=(1.0, 1.0) if warped else None).model(data.columns)
    theta = process.priors.center + 0.3 * np.random.default_rng(0).standard_normal((2, process.priors.size))
    theta = np.clip(theta, process.priors.lower + 1e-2, process.priors.upper - 1e-2)
    assert_gradient(process, table(data), theta)
    posterior = condition(process, table(data), theta)
    x = mixed_points(5, seed=3)
    _, slope, _ = posterior.marginal_gradient(x)
    for j in (0, 3):
        step = np.zeros(4)
        step[j] = 1e-5
        moved = (posterior.marginal(x + step).mean - posterior.marginal(x - step).mean) / 2e-5
        assert np.allclose(slope[..., j], np.nan_to_num(moved), atol=1e-5)


def test_a_known_function_is_the_mean():
    """Far from the data a process returns to its mean, and values that lie on it leave nothing to learn."""
    known = lambda x: 5.0 - 40.0 * x[:, 0]  # noqa: E731
    x = plain_points(10)
    data = observe(x, known(x), PLAIN)
    posterior = GaussianProcess(mean=GivenMean(known), warp=None).fit(data, rng=np.random.default_rng(0)).posterior
    new = plain_points(10, seed=1)
    mean, _ = posterior.predict(new)
    assert np.abs(data.center + data.scale * mean - known(new)).max() < 1e-8


def test_halfway_is_halfway():
    data = DATA["plain"]
    theta = np.array([[math.log(1e-3)] * 2 + [0.0, -5.0]])
    process = GaussianProcess(mean=HalfwayMean(), warp=None).model(data.columns)
    law = condition(process, table(data), theta).marginal(np.array([[0.123, 0.987]]))
    assert abs(law.mean[0, 0] - 0.5 * data.y.min()) < 1e-9  # the values have mean 0


def student(data, warped=False):
    process = GaussianProcess(warp=(1.0, 1.0) if warped else None).model(data.columns)
    return replace(process, tail=Gamma(2.0, 0.1))


def test_the_energy_of_a_student_t():
    """SciPy's multivariate t, whose shape is the covariance times (df - 2) / df."""
    data = DATA["plain"]
    n, several = len(data.y), thetas(2, 3, noise=(1e-2, 1e-1))
    several[:, -1] = np.log([0.5, 3.0, 40.0])  # df - 2
    value, _ = energy(student(data), table(data), several, prior=False)
    expected = []
    for theta in several:
        K = matrix(data.x, data.x, data.columns, theta) + math.exp(theta[3]) * np.eye(n)
        df = 2.0 + math.exp(theta[-1])
        law = stats.multivariate_t(np.full(n, theta[4]), K * (df - 2.0) / df, df=df)
        expected.append(-law.logpdf(data.y))
    assert np.abs(np.diff(value) - np.diff(expected)).max() < CLOSE * np.abs(value).max()


@pytest.mark.parametrize("warped", [False, True])
def test_the_energy_of_a_student_t_has_the_gradient_of_finite_differences(warped):
    data = DATA["mixed"]
    process = student(data, warped)
    theta = np.column_stack([thetas(4, 3, exponent=(0.0, 0.9))[:, : 8 if warped else 7], np.log([0.5, 3.0, 40.0])])
    assert_gradient(process, table(data), theta)


def test_the_posterior_of_a_student_t_is_a_conditional_of_the_joint():
    """The density of one more value is the quotient of two joint densities, which SciPy knows."""
    data, x = DATA["plain"], plain_points(4, seed=5)
    theta = thetas(2, 1, noise=(1e-2, 1e-1))[0]
    theta[-1] = math.log(3.0)
    df, noise = 5.0, math.exp(theta[3])
    posterior = condition(student(data), table(data), theta[None])
    for point, y in zip(x, (-1.0, 0.0, 0.5, 2.0), strict=True):
        both = np.vstack([data.x, point])
        K = (matrix(both, both, data.columns, theta) + noise * np.eye(len(both))) * (df - 2.0) / df
        joint = stats.multivariate_t(np.full(len(both), theta[4]), K, df=df).logpdf(np.append(data.y, y))
        seen = stats.multivariate_t(np.full(len(data.y), theta[4]), K[:-1, :-1], df=df).logpdf(data.y)
        log_density, _ = posterior.foretold(point[None], np.array([y]), np.zeros(1))
        assert abs(log_density[0] - (joint - seen)) < 1e-6
    # leaving one out, by the same quotient
    K = (matrix(data.x, data.x, data.columns, theta) + noise * np.eye(len(data.y))) * (df - 2.0) / df
    whole = stats.multivariate_t(np.full(len(data.y), theta[4]), K, df=df).logpdf(data.y)
    for i in range(3):
        rest = np.arange(len(data.y)) != i
        part = stats.multivariate_t(np.full(rest.sum(), theta[4]), K[np.ix_(rest, rest)], df=df).logpdf(data.y[rest])
        assert abs(posterior.leave_one_out()[i] - (whole - part)) < 1e-6


def test_type_two_likelihood_ignores_the_prior():
    from presage.surrogates.hyperparameters import Mode

    data = DATA["plain"]
    process, seen = model(data), table(data)
    rng = np.random.default_rng(0)
    with_prior, without = (Mode(prior).find(process, seen, None, rng=rng).theta for prior in (True, False))
    assert energy(process, seen, without, prior=False)[0] < energy(process, seen, with_prior, prior=False)[0] - 0.1


@pytest.mark.parametrize("kernel", [Matern(), SquaredExponential() + Linear()], ids=["matern", "sum"])
def test_scores_of_a_true_model_are_honest(kernel):
    """Values drawn from the process itself: 50 % and 90 % intervals cover what they say, over many points."""
    rng = np.random.default_rng(0)
    x = rng.random((300, 2))
    axes = Axes(PLAIN)
    process = Model(kernel, ZeroMean(), PLAIN, GaussianProcess().noise, 1e-8, None)
    theta = process.priors.center.copy()
    theta[process.noise_at] = math.log(0.01)
    K = kernel.evaluate(theta[: process.noise_at], axes.features(x), axes.features(x), axes).value
    cover = []
    for _ in range(40):
        y = np.linalg.cholesky(K + 0.01 * np.eye(300)) @ rng.standard_normal(300)
        seen = Table(x[:30], axes.features(x[:30]), y[:30], np.zeros(30), 0.0, 1.0)
        posterior = condition(process, seen, theta[None])
        fresh = replace(observe(x[30:], y[30:], PLAIN), y=y[30:], center=0.0, scale=1.0)
        cover.append(posterior.score(fresh)[1:3])
    mean, error = np.mean(cover, axis=0), np.std(cover, axis=0) / math.sqrt(40)
    assert (np.abs(mean - [0.5, 0.9]) < 4.0 * error).all()
