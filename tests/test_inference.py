"""Samplers, networks and diagnostics against closed forms, quadrature-free truths and other libraries."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from presage.inference.chains import run, run_apart
from presage.inference.diagnostics import ess, r_hat
from presage.inference.laws import CAUCHY, Gaussian, Laplace, LogNormal, Stable, StudentT
from presage.inference.network import ACTIVATIONS, SLOPES, Data, Network, evidence
from presage.inference.regression import Regression
from presage.inference.samplers import HMC, MCLMC, NUTS, PlainHMC, RandomWalk, leapfrog

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def table(x, y, mask=None):
    mask = np.ones(len(y), bool) if mask is None else mask
    return Data(jnp.asarray(x), jnp.asarray(y), jnp.zeros(len(y)), jnp.asarray(mask))


def sampled(sampler, density, data, start, seed=0, step=0.1, warmup=200, draws=500, thin=1):
    """Positions after warm-up, [draws, c, p]."""
    start = jnp.asarray(start)
    mass = jnp.ones(start.shape[1])
    chains = run(sampler, density, data, start, step, mass, jax.random.key(seed), warmup, thin, draws=draws)
    return np.asarray(chains.positions)


def within(draws, expected, errors=5.0):
    """Whether the mean over draws [t, c, ...] is as expected, in Monte Carlo standard errors by the chains' own ESS."""
    error = draws.std(axis=(0, 1)) / np.sqrt(ess(draws, rank=False))
    return np.all(np.abs(draws.mean(axis=(0, 1)) - expected) < errors * error)


# Diagnostics.


def autoregressive(rho, draws, chains, count, rng):
    """Stationary AR(1) chains of variance 1, [draws, chains, count]."""
    x = np.empty((draws, chains, count))
    x[0] = rng.standard_normal((chains, count))
    for t in range(1, draws):
        x[t] = rho * x[t - 1] + math.sqrt(1 - rho**2) * rng.standard_normal((chains, count))
    return x


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_ess_of_autoregressive_chains(rho):
    x = autoregressive(rho, 4000, 4, 40, np.random.default_rng(0))
    truth = x.shape[0] * x.shape[1] * (1 - rho) / (1 + rho)
    for rank in (False, True):
        found = ess(x, rank=rank)
        # The autocorrelation time is a sum over some 10 to 50 lags, each known to 1/sqrt(16,000) = 0.8%.
        times = 16_000 / found
        assert abs(times.mean() - 16_000 / truth) < 0.03 * (1 + 16_000 / truth)
        assert np.abs(found / truth - 1).max() < 0.35
    assert (r_hat(x) < 1.01).all()


def test_r_hat_sees_chains_that_differ_in_place_or_in_width():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, 4, 3))
    x[:, 0, 1] += 1.0
    x[:, 0, 2] *= 3.0
    found = r_hat(x)
    assert found[0] < 1.01
    assert (found[1:] > 1.05).all()
    drifting = x[..., :1] + np.linspace(-1, 1, 1000)[:, None, None]
    assert r_hat(drifting)[0] > 1.05, "chains are split to see a drift that they share"
    # Chains of variance 1 whose means are d apart from half of the others: R-hat^2 = 1 + d^2 / 4 times 8/7 (split).
    apart = rng.standard_normal((20_000, 4, 1)) + np.array([0.0, 0.0, 1.0, 1.0])[:, None]
    plain = math.sqrt(1 + 0.25 * 8 / 7)
    assert abs(r_hat(apart)[0] - plain) < 0.02  # ranks of a near-normal law change it little
    heavy = rng.standard_cauchy((1000, 4, 1))
    assert r_hat(heavy)[0] < 1.01


# Laws.

REFERENCE = {
    "gaussian": (Gaussian(), stats.norm()), "laplace": (Laplace(), stats.laplace(scale=math.sqrt(0.5))),
    "t3": (StudentT(3.0), stats.t(3.0)), "t1.5": (StudentT(1.5), stats.t(1.5)), "cauchy": (CAUCHY, stats.cauchy()),
    "stable1": (Stable(1.0), stats.cauchy()),
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCE)
def test_a_law_is_the_one_it_says(name):
    law, truth = REFERENCE[name]
    rng = np.random.default_rng(0)
    u = law.draw((20_000,), rng)
    weight = np.sqrt(law.variance(u, np)) * rng.standard_normal(20_000)
    assert stats.kstest(weight, truth.cdf).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [0.7, 1.3, 1.8])
def test_a_stable_law_has_its_characteristic_function(alpha):
    rng, count, t = np.random.default_rng(0), 40_000, np.array([0.3, 1.0, 2.0])
    law = Stable(alpha)
    weight = np.sqrt(law.variance(law.draw((count,), rng), np)) * rng.standard_normal(count)
    assert np.abs(np.cos(t[:, None] * weight).mean(axis=1) - np.exp(-(t**alpha))).max() < 4 / math.sqrt(count)


@pytest.mark.parametrize("law", [Laplace(), StudentT(3.0), CAUCHY, Stable(1.3)], ids=repr)
def test_the_density_of_latent_numbers_is_that_of_their_draws(law):
    rng = np.random.default_rng(0)
    u = law.draw((20_000,), rng)
    for j in range(law.latents):
        grid = np.linspace(-60, 60, 40_001)
        others = np.zeros((law.latents, len(grid)))  # latent numbers are independent: any value of the others will do
        others[j] = grid
        with np.errstate(over="ignore", under="ignore"):
            density = np.exp(law.log_density(others, np))
        cdf = np.cumsum(density) / density.sum()
        assert stats.kstest(u[j], lambda v, cdf=cdf, grid=grid: np.interp(v, grid, cdf)).pvalue > 1e-3


# The network.

NETWORK = Network(
    2, (5, 4), laws=(Gaussian(), Laplace(), CAUCHY), weight=(LogNormal(2.0, 0.5), LogNormal(1.0, 0.3), LogNormal(1.5)),
    bias=(1.0, 0.5, 2.0), noise=LogNormal(0.1, 1.0), groups=(0, 0),
)  # fmt: skip


def test_activations_have_their_slopes():
    x = np.linspace(-3, 3, 41) + 0.01
    for name, slope in SLOPES.items():
        f = ACTIVATIONS[name]
        found = (f(x + 1e-6, np) - f(x - 1e-6, np)) / 2e-6
        assert np.abs(slope(x, f(x, np)) - found).max() < 1e-8, name
        assert np.allclose(f(x, np), f(jnp.asarray(x), jnp), atol=1e-12), name


def test_evidence_is_the_density_of_the_values():
    rng = np.random.default_rng(0)
    both_of = jax.jit(jax.value_and_grad(evidence))
    for n, width in ((3, 6), (9, 4)):
        basis, y, noise = rng.standard_normal((n, width)), rng.standard_normal(n), rng.uniform(0.1, 1.0, n)

        def truth(basis, y=y, noise=noise):
            return stats.multivariate_normal(np.zeros(len(y)), basis @ basis.T + np.diag(noise)).logpdf(y)

        constant = 0.5 * n * math.log(2 * math.pi)
        value, gradient = both_of(jnp.asarray(basis.T), jnp.asarray(y), jnp.asarray(noise))
        assert abs(value - constant - truth(basis)) < 1e-10
        for i in range(n):
            for j in range(width):
                step = np.zeros_like(basis)
                step[i, j] = 1e-5
                assert abs(gradient[j, i] - (truth(basis + step) - truth(basis - step)) / 2e-5) < 1e-7
        both = Regression.of(basis[None], y, noise[None])
        assert abs(both.evidence[0] - truth(basis)) < 1e-10
        padded, _ = both_of(
            np.pad(basis.T, ((0, 0), (0, 2))), np.pad(y, (0, 2)), np.pad(noise, (0, 2), constant_values=1)
        )
        assert abs(padded - value) < 1e-10


def test_leave_one_out_is_leaving_one_out():
    rng = np.random.default_rng(0)
    for n in (4, 12):
        basis, y, noise = rng.standard_normal((2, n, 6)), rng.standard_normal(n), rng.uniform(0.1, 1.0, (2, n))
        found = Regression.of(basis, y, noise).leave_one_out()
        for i in range(n):
            rest = np.arange(n) != i
            mean, variance = Regression.of(basis[:, rest], y[rest], noise[:, rest]).moments(basis[:, i : i + 1])
            truth = stats.norm(mean[:, 0], np.sqrt(variance[:, 0] + noise[:, i])).logpdf(y[i])
            assert np.abs(found[:, i] - truth).max() < 1e-9


def test_integrating_the_output_layer_out_is_what_it_says():
    """log p(hidden, y) = log of the joint density at any output weights, less their log posterior density there."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((7, 2)), rng.standard_normal(7)
    open_ = replace(NETWORK, collapsed=False)
    position = open_.draw(2, rng)
    last = [name for name in open_.pieces if name not in NETWORK.pieces]
    totals, whole, part = [], jax.jit(open_), jax.jit(NETWORK)
    for q in position:
        inner = np.concatenate([open_.piece(q, name).ravel() for name in NETWORK.pieces])
        output = np.concatenate([open_.piece(q, name).ravel() for name in last])
        weights = NETWORK.weights(inner)
        basis = NETWORK.basis(weights, x)
        layer = Regression.of(basis[None], y, np.full((1, 7), weights.noise))
        cov = layer.root[0].T @ layer.root[0]
        at = stats.multivariate_normal(layer.mean[0], cov).logpdf(output)
        joint = float(whole(q, table(x, y)))
        totals.append(joint - at - float(part(inner, table(x, y))))
    # Both are known up to constants: (2 pi)^(-n/2) is left out of each, and of the prior of the output (2 pi)^(-H/2).
    assert abs(totals[0] - totals[1]) < 1e-8


def test_the_density_is_that_of_the_values_under_the_basis():
    """The compiled density, units before rows, against SciPy's on the basis that predictions use."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((7, 2)), rng.standard_normal(7)
    positions = NETWORK.draw(2, rng)
    weights = NETWORK.weights(positions)
    values = [
        stats.multivariate_normal(np.zeros(7), basis @ basis.T + noise * np.eye(7)).logpdf(y)
        for basis, noise in zip(NETWORK.basis(weights, x), weights.noise, strict=True)
    ]
    prior = [NETWORK.log_prior(q, np) for q in positions]
    density = jax.jit(jax.vmap(NETWORK, (0, None)))(positions, table(x, y))
    assert abs(np.diff(density)[0] - np.diff(values)[0] - np.diff(prior)[0]) < 1e-9


def test_the_slope_of_the_density_is_its_difference():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((7, 2)), rng.standard_normal(7)
    for network in (NETWORK, replace(NETWORK, collapsed=False)):
        both_of = jax.jit(jax.value_and_grad(network))
        q = network.draw(1, rng)[0]
        slope = both_of(q, table(x, y))[1]
        for way in rng.standard_normal((3, len(q))):
            ahead, behind = (both_of(q + step * way, table(x, y))[0] for step in (1e-5, -1e-5))
            # the third derivative times 1e-10, and rounding of a value of size 1e2 over 1e-5
            assert abs(slope @ way - (ahead - behind) / 2e-5) < 1e-6 * (1.0 + np.abs(slope) @ np.abs(way))


def test_padding_changes_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 2)), rng.standard_normal(5)
    more = np.vstack([x, np.full((3, 2), 0.3)]), np.append(y, np.zeros(3)), np.arange(8) < 5
    for network in (NETWORK, replace(NETWORK, collapsed=False)):
        q, density = network.draw(1, rng)[0], jax.jit(network)
        assert abs(density(q, table(x, y)) - density(q, table(*more))) < 1e-9


def test_pull_back_is_the_derivative_in_the_inputs():
    rng = np.random.default_rng(0)
    weights = NETWORK.weights(NETWORK.draw(3, rng))
    x, seed = rng.standard_normal((4, 2)), rng.standard_normal((3, 4, 5))
    slope = NETWORK.pull_back(weights, x, seed)
    for j in range(2):
        step = 1e-6 * np.eye(2)[j]
        moved = [np.einsum("snp,snp->sn", seed, NETWORK.basis(weights, x + sign * step)) for sign in (1, -1)]
        assert np.allclose(slope[..., j], (moved[0] - moved[1]) / 2e-6, rtol=1e-6, atol=1e-6 * np.abs(slope).max())


# Samplers.


def gaussian(q, data):
    """A correlated, shifted Gaussian whose precision is the data."""
    return -0.5 * (q - 1.0) @ data @ (q - 1.0)


def skewed(q, data):
    """log of a Gamma(data) variable, in each coordinate: not symmetric, so that a wrong sign shows."""
    return (data * q - jnp.exp(q)).sum()


SAMPLERS = {
    "hmc": (HMC(), 1500), "plain": (PlainHMC(leapfrogs=4), 3000), "walk": (RandomWalk(), 10_000),
    "nuts": (NUTS(doublings=5), 1000), "mclmc": (MCLMC(), 2000),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_find_known_moments(name):
    sampler, draws = SAMPLERS[name]
    shape = np.array([2.0, 5.0])
    found = sampled(sampler, skewed, jnp.asarray(shape), np.zeros((4, 2)), draws=draws)
    assert r_hat(found).max() < 1.02
    assert within(found, special.digamma(shape))
    assert within((found - special.digamma(shape)) ** 2, special.polygamma(1, shape))
    assert within((found - special.digamma(shape)) ** 3, special.polygamma(2, shape), 6.0)


def test_chains_on_several_cores_find_known_moments_whatever_the_cores(monkeypatch):
    shape, found = jnp.asarray([2.0, 5.0]), []
    for cores in ({0}, {0, 1, 2}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: cores, raising=False)
        key, start = jax.random.key(0), jnp.zeros((4, 2))
        found.append(run_apart(HMC(), skewed, shape, start, 0.1, jnp.ones(2), key, 200, 1, draws=1500))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    positions = np.asarray(found[0].positions)
    assert positions.shape == (1500, 4, 2)
    assert positions.dtype == float
    assert r_hat(positions).max() < 1.02
    assert within(positions, special.digamma(shape))
    assert within((positions - special.digamma(shape)) ** 2, special.polygamma(1, shape))
    short = HMC(), skewed, shape, start, 0.1, jnp.ones(2), key, 4, 1  # before rounding grows
    there, here = (run_apart(*short, draws=4, **more) for more in ({"spread": lambda f, *a: jax.vmap(f)(*a)}, {}))
    assert all(np.allclose(a, b) for a, b in zip(there, here, strict=True))


def test_chains_apart_without_warm_up_start_where_they_are_told():
    start = jnp.asarray([[0.3, 0.4], [0.5, 0.6]])
    chains = run_apart(HMC(), skewed, jnp.ones(2), start, 1e-9, jnp.ones(2), jax.random.key(0), 0, 1, draws=3)
    assert np.allclose(chains.positions, start, atol=1e-4)
    assert np.allclose(chains.step, 1e-9)


CROWD = """
import jax, jax.numpy as jnp, numpy as np, os
os.sched_getaffinity = lambda _: set(range(6))
from presage.inference.chains import run_apart
from presage.inference.network import Data, Network
from presage.inference.samplers import HMC
network, rng = Network(2, (32, 32)), np.random.default_rng(0)
data = Data(jnp.asarray(rng.random((48, 2))), jnp.ones(48), jnp.zeros(48), jnp.ones(48, bool))
start = jnp.asarray(network.draw(12, rng))
chains = run_apart(HMC(most=24), network, data, start, 0.05, jnp.ones(network.size), jax.random.key(0), 50, 1, draws=50)
assert np.isfinite(chains.positions).all()
"""


def test_chains_that_factorise_at_once_do_not_wait_for_each_other_forever():
    # Pairs of chains did: their factorisations waited inside jaxlib's pool for threads that waited as well.
    subprocess.run([sys.executable, "-c", CROWD], check=True, timeout=120)


def test_leapfrog_is_reversible():
    precision = jnp.asarray([[2.0, 0.5], [0.5, 1.0]])
    rng = np.random.default_rng(0)
    q, p, mass = (jnp.asarray(a) for a in (*rng.standard_normal((2, 3, 2)), np.array([1.0, 3.0])))
    there = leapfrog(lambda q: gaussian(q, precision), q, p, 0.1, 25, mass)
    back = leapfrog(lambda q: gaussian(q, precision), there.position, -there.momentum, 0.1, 25, mass)
    assert np.abs(back.position - q).max() < 1e-12
    assert np.abs(back.momentum + p).max() < 1e-12
    assert np.array_equal(back.after, there.before) or np.abs(back.after - there.before).max() < 1e-12


def test_the_energy_error_is_of_second_order():
    network = Network(1, (6,), collapsed=False)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (8, 1))
    data = table(x, np.sin(3 * x[:, 0]))
    q, p = (jnp.asarray(a) for a in (network.draw(8, rng), rng.standard_normal((8, network.size))))
    mass = jnp.ones(network.size)
    errors = []
    for count in (400, 800, 1600):
        path = leapfrog(lambda q: network(q, data), q, p, 0.4 / count, count, mass)
        gain = path.after - path.before + 0.5 * ((p**2).sum(axis=1) - (path.momentum**2).sum(axis=1))
        errors.append(np.abs(gain).mean())
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert (np.abs(ratios - 4.0) < 0.2).all(), ratios  # halving the step quarters the error


@pytest.mark.parametrize("collapsed", [False, True])
def test_a_network_without_hidden_layer_is_linear_regression(collapsed):
    """Mean and covariance of the function values against the closed form (Rasmussen & Williams, eq. 2.8)."""
    rng = np.random.default_rng(0)
    x, at = rng.standard_normal((12, 3)), rng.standard_normal((4, 3))
    y = x @ [1.0, -0.5, 0.2] + 0.3 + 0.2 * rng.standard_normal(12)
    network = Network(3, (), weight=(LogNormal(1.5),), bias=(0.7,), noise=LogNormal(0.04), collapsed=collapsed)
    scale = np.array([1.5 / math.sqrt(3)] * 3 + [0.7])
    design, new = (np.hstack([a, np.ones((len(a), 1))]) for a in (x, at))
    cov = np.linalg.inv(design.T @ design / 0.04 + np.diag(scale**-2))
    mean, spread = new @ cov @ design.T @ y / 0.04, new @ cov @ new.T
    if collapsed:  # nothing is left to sample
        assert network.size == 0
        weights = network.weights(np.empty((1, 0)))
        layer = Regression.of(network.basis(weights, x), y, np.full((1, 12), 0.04))
        found = layer.moments(network.basis(weights, at))
        assert np.allclose(found[0][0], mean)
        assert np.allclose(found[1][0], np.diag(spread))
        return
    positions = sampled(HMC(), network, table(x, y), network.draw(4, rng), draws=2000)
    weights = network.weights(positions)
    values = np.einsum("tcnp,tcp->tcn", network.basis(weights, at), weights.output)
    assert within(values, mean)
    centred = values - mean
    assert within(centred[..., :, None] * centred[..., None, :], spread)


@pytest.mark.slow
def test_a_wide_network_is_its_infinite_kernel():
    """Mean and variance of the prior and the posterior at width 2048 against the kernel of Williams (1998), eq. 11."""
    width, noise, rng = 2048, 0.01, np.random.default_rng(0)
    x, at = np.linspace(-1, 1, 6)[:, None], np.linspace(-1.3, 1.3, 9)[:, None]
    y = np.sin(3 * x[:, 0])
    network = Network(1, (width,), "erf", weight=(LogNormal(3.0), LogNormal(1.2)), bias=(1.5, 0.5),
                      noise=LogNormal(noise))  # fmt: skip

    def kernel(a, b):
        u, v = (np.hstack([np.ones((len(c), 1)), c]) * [1.5, 3.0] for c in (a, b))
        cross = 2 * u @ v.T
        size = [1 + 2 * (c * c).sum(axis=1) for c in (u, v)]
        return 0.25 + 1.44 * 2 / math.pi * np.arcsin(cross / np.sqrt(size[0][:, None] * size[1][None, :]))

    K, k = kernel(x, x) + noise * np.eye(6), kernel(at, x)
    mean, variance = k @ np.linalg.solve(K, y), np.diag(kernel(at, at) - k @ np.linalg.solve(K, k.T))
    positions = sampled(HMC(most=40), network, table(x, y), network.draw(4, rng), warmup=30, draws=40)
    weights = network.weights(positions.reshape(-1, network.size))
    basis, new = network.basis(weights, x), network.basis(weights, at)
    K, k = basis @ np.swapaxes(basis, 1, 2) + noise * np.eye(6), new @ np.swapaxes(basis, 1, 2)  # of each draw
    gain = np.swapaxes(np.linalg.solve(K, np.swapaxes(k, 1, 2)), 1, 2)
    means, variances = gain @ y, (new**2).sum(axis=2) - (gain * k).sum(axis=2)
    found = means.mean(axis=0), (variances + means**2).mean(axis=0) - means.mean(axis=0) ** 2
    # The kernel of one draw of 2048 units is off by 1/sqrt(2048) = 2%; the average over draws by 1/2048 and by the
    # Monte Carlo error of 160 draws.
    error = means.std(axis=0) / math.sqrt(len(means) / 4)
    assert (np.abs(found[0] - mean) < 5 * error + 2e-3).all()
    assert (np.abs(found[1] / variance - 1) < 0.05).all()


def ranks(network, count, draws, at, x, seed):
    """Of the true function values at `at` among posterior draws, for simulated data sets, [count, m] in 0 ... draws."""
    rng = np.random.default_rng(seed)
    open_ = replace(network, collapsed=False)
    out = []
    for k in range(count):
        truth = open_.weights(open_.draw(1, rng)[0])
        f, noise = (open_.basis(truth, np.vstack([x, at])) @ truth.output), float(truth.noise)
        y = f[: len(x)] + math.sqrt(noise) * rng.standard_normal(len(x))
        positions = sampled(HMC(), network, table(x, y), network.draw(4, rng), seed=k, warmup=200, draws=draws // 4,
                            thin=4).reshape(-1, network.size)  # fmt: skip
        weights = network.weights(positions)
        layer = Regression.of(network.basis(weights, x), y, np.broadcast_to(weights.noise[:, None], (draws, len(x))))
        output = layer.weights(np.arange(draws), rng)
        values = np.einsum("snp,sp->sn", network.basis(weights, at), output)
        out.append((values < f[len(x) :]).sum(axis=0))
    return np.array(out)


def uniform(rank, draws, bins):
    """Smallest p-value of chi-square tests that ranks fill equal bins, one test per column."""
    edges = np.linspace(0, draws + 1, bins + 1)
    expected = np.diff(np.ceil(edges)) / (draws + 1) * len(rank)
    found = [np.histogram(column + 1e-9, edges)[0] for column in rank.T]
    return min(stats.chisquare(count, expected).pvalue for count in found)


CALIBRATED = Network(
    1, (5,), laws=(Gaussian(), StudentT(3.0)), weight=(LogNormal(3.0, 0.5), LogNormal(1.0)), bias=(1.0, 0.5),
    noise=LogNormal(0.05, 0.5),
)  # fmt: skip
AT, DESIGN = np.array([[-1.2], [0.1], [0.8]]), np.linspace(-1, 1, 6)[:, None]


def test_calibration_by_simulation_in_short():
    assert uniform(ranks(CALIBRATED, 40, 60, AT, DESIGN, seed=0), 60, 4) > 0.003  # 1% for three tests


@pytest.mark.slow
def test_calibration_by_simulation():
    assert uniform(ranks(CALIBRATED, 200, 100, AT, DESIGN, seed=1), 100, 10) > 0.003


@pytest.mark.parametrize("law", [Gaussian(), CAUCHY], ids=repr)
def test_geweke(law):
    """Alternating data given weights and weights given data leaves the prior as it was (Geweke, 2004)."""
    network = Network(1, (4,), laws=(Gaussian(), law), weight=(LogNormal(2.0, 0.5), LogNormal(1.0)),
                      noise=LogNormal(0.2, 0.5), collapsed=False)  # fmt: skip
    rng, chains, rounds = np.random.default_rng(0), 64, 150
    x = np.linspace(-1, 1, 4)[:, None]
    position = network.draw(chains, rng)
    step = jax.jit(jax.vmap(lambda q, data, key: HMC(memory=0.0).move(
        lambda p: network(p, data), q[None], 0.15, jnp.ones(network.size), key)[0][0],
        in_axes=(0, Data(None, 0, None, None), 0)))  # fmt: skip
    kept = []
    for i in range(rounds):
        weights = network.weights(position)
        f = np.einsum("snp,sp->sn", network.basis(weights, x), weights.output)
        y = f + np.sqrt(weights.noise)[:, None] * rng.standard_normal(f.shape)
        data = Data(jnp.asarray(x), jnp.asarray(y), jnp.zeros(4), jnp.ones(4, bool))
        position = np.asarray(step(jnp.asarray(position), data, jax.random.split(jax.random.key(i), chains)))
        kept.append(position)
    after = network.piece(np.array(kept), "noise"), np.array(kept)[..., :8]
    for found in (after[0][..., None], after[1]):  # standard normal numbers before, and so after
        assert within(found, 0.0)
        assert within(found**2, 1.0)
    if law.latents:
        u = network.piece(np.array(kept), "latent1")[:, :, 0, :, 0]
        assert within(u, special.digamma(0.5) - math.log(0.5))
