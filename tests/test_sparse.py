"""The sparse process against the exact one, finite differences and dense algebra."""

import math

import numpy as np
import pytest
from scipy import stats

from presage.kernels import Axes, Linear, Matern
from presage.means import LinearMean
from presage.observations import observe
from presage.surrogates import GaussianProcess, SparseGaussianProcess
from presage.surrogates.gaussian import Model, Table, condition
from presage.surrogates.sparse import _pivots, _posterior, negative_bound
from presage.testing.surrogates import PLAIN, SurrogateSuite, central, mixed_data, plain_data, plain_points, smooth

pytestmark = pytest.mark.usefixtures("one_thread")


class TestSparseGaussianProcess(SurrogateSuite):
    def make(self):
        return SparseGaussianProcess()


def case(data, kernel=None, noise=0.05):
    model = Model(kernel or Matern(), LinearMean(), data.columns, SparseGaussianProcess().noise, 1e-6, None)
    theta = model.priors.center.copy()
    theta[model.noise_at] = math.log(noise)
    theta[model.mean_at] = 0.3
    return model, Table.of(data, Axes(data.columns)), theta


@pytest.mark.parametrize("kernel", [Matern(), Matern(nu=1.5) + Linear()], ids=["matern", "sum"])
def test_the_bound_is_that_of_dense_algebra(kernel):
    x = plain_points(30)
    data = observe(x, smooth(x), PLAIN, stddev=np.where(x[:, 0] > 0.5, 0.2, np.nan))
    model, table, theta = case(data, kernel)
    at = table.features[:8]
    K = lambda a, b: kernel.evaluate(theta[: model.noise_at], a, b, model.axes).value  # noqa: E731
    Q = K(table.features, at) @ np.linalg.solve(K(at, at), K(at, table.features))
    noise = 0.05 + table.noise
    mean = 0.3 + 0.3 * table.features.sum(axis=1)
    evidence = stats.multivariate_normal(mean, Q + np.diag(noise)).logpdf(table.y)
    full = K(table.features, table.features).diagonal()
    bound = evidence - 0.5 * ((full - Q.diagonal()) / noise).sum()
    value, _ = negative_bound(model, table, at, theta)
    assert abs(-value - 0.5 * len(table.y) * math.log(2.0 * math.pi) - bound) < 1e-5  # jitter is 1e-10, cond(K) 1e4


@pytest.mark.parametrize("data", [plain_data(40), mixed_data(40)], ids=["plain", "mixed"])
@pytest.mark.parametrize("kernel", [Matern(), Matern() + Linear()], ids=["matern", "sum"])
def test_the_bound_has_the_gradient_of_finite_differences(data, kernel):
    model, table, theta = case(data, kernel)
    at = table.features[_pivots(model, table, theta, 9)]
    _, gradient = negative_bound(model, table, at, theta)
    for p in range(len(theta)):
        step = np.eye(len(theta))[p]
        slope = central(lambda h, step=step: np.array(negative_bound(model, table, at, theta + h * step)[0]))
        assert abs(gradient[p] - slope) < 1e-6 * np.abs(gradient).max(), p


def test_with_a_point_for_every_row_it_is_the_exact_process():
    data = plain_data(25)
    model, table, theta = case(data)
    exact = condition(model, table, theta[None])
    sparse = _posterior(model, table, np.arange(25), theta)
    x = plain_points(10, seed=4)
    for one, other in zip(exact.marginal(x)[:2], sparse.marginal(x)[:2], strict=True):
        assert np.abs(one - other).max() < 1e-5
    assert abs(exact.incumbent() - sparse.incumbent()) < 1e-5
    assert np.abs(exact.leave_one_out() - sparse.leave_one_out()).max() < 1e-3
    more, y = plain_points(3, seed=5), np.array([0.1, -0.4, 1.0])
    for one, other in zip(
        exact.condition(more, y).marginal(x)[:2], sparse.condition(more, y).marginal(x)[:2], strict=True
    ):
        assert np.abs(one - other).max() < 1e-5


def test_pivots_are_spread():
    """Each explains what the others do not: repeated rows are never chosen twice."""
    x = np.repeat(plain_points(6), 5, axis=0)
    data = observe(x, smooth(x), PLAIN)
    model, table, theta = case(data)
    chosen = _pivots(model, table, theta, 20)
    assert len(chosen) == 6
    assert len(np.unique(x[chosen], axis=0)) == 6


def test_it_learns_from_many_rows_what_a_few_do_not_tell():
    rng = np.random.default_rng(0)
    x = rng.random((6000, 2))
    truth = np.sin(12.0 * x[:, 0]) * np.cos(9.0 * x[:, 1])
    data = observe(x, truth + 0.5 * rng.standard_normal(6000), PLAIN)
    new = rng.random((500, 2))
    target = (np.sin(12.0 * new[:, 0]) * np.cos(9.0 * new[:, 1]) - data.center) / data.scale
    sparse = SparseGaussianProcess(inducing=100, rows=1500).fit(data, rng=rng).posterior
    few = observe(x[:200], data.center + data.scale * data.y[:200], PLAIN)
    exact = GaussianProcess(warp=None).fit(few, rng=rng).posterior
    error = np.sqrt(np.mean((sparse.predict(new)[0] - target) ** 2))
    other = (few.center + few.scale * exact.predict(new)[0] - data.center) / data.scale
    # 6000 rows average the noise 0.5 away over about 60 bumps: 0.05; 200 rows do so five times worse.
    assert error < 0.12
    assert error < 0.5 * np.sqrt(np.mean((other - target) ** 2))
