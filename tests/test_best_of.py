"""Choosing among surrogates by what they predict of each observation from the others."""

import math

import numpy as np
import pytest

from presage.kernels import Axes
from presage.priors import LogNormal
from presage.surrogates import BestOf, GaussianProcess
from presage.surrogates.gaussian import Table, condition
from presage.testing.surrogates import SurrogateSuite, mixed_data, plain_data

pytestmark = pytest.mark.usefixtures("one_thread")

RNG = np.random.default_rng(0)


class TestBestOf(SurrogateSuite):
    def make(self):
        return BestOf((GaussianProcess(), GaussianProcess(noise=LogNormal(0.01, 1.0))))


@pytest.mark.parametrize("data", [plain_data(), mixed_data()], ids=["plain", "mixed"])
def test_leave_one_out_is_what_leaving_one_out_gives(data):
    fit = GaussianProcess(warp=None).fit(data, rng=RNG)
    model = GaussianProcess(warp=None).model(data.columns)
    table, theta = Table.of(data, Axes(data.columns)), fit.state["theta"]
    expected = []
    for i in range(len(table.y)):
        rest = np.arange(len(table.y)) != i
        part = Table(table.x[rest], table.features[rest], table.y[rest], table.noise[rest], 0.0, 1.0)
        posterior = condition(model, part, theta)
        law = posterior.marginal(data.x[data.mask][[i]])
        variance = law.variance[0, 0] + math.exp(theta[0, -2]) + table.noise[i]
        miss = table.y[i] - law.mean[0, 0]
        expected.append(-0.5 * (math.log(2 * math.pi * variance) + miss**2 / variance))
    # the jitter, 1e-10 of the variance, counts as noise in one and not in the other
    assert np.allclose(fit.posterior.leave_one_out(), expected, rtol=1e-4, atol=1e-4)


def test_the_better_predictor_is_taken():
    data = plain_data()
    good, bad = GaussianProcess(), GaussianProcess(noise=LogNormal(5.0, 0.01))
    for members, best in (((good, bad), 0), ((bad, good), 1)):
        fit = BestOf(members).fit(data, rng=RNG)
        assert fit.diagnostics["chosen"] == best == int(fit.state["chosen"])
        kept = BestOf(members).fit(data, rng=RNG, previous=fit.state, keep=True)
        thetas = ([one.theta for one in found.posterior.components] for found in (kept, fit))
        assert np.array_equal(*thetas)
