import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from presage.surrogates.linear_head import (
    Bayes,
    LeastSquares,
    MeanField,
    ScalePrior,
    Scales,
    Spectrum,
    Weights,
    empty_factor,
    excess,
    extend,
    factor_of,
    negative_evidence,
)

M = 6


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((count, M)) @ np.diag([3.0, 1.0, 1.0, 0.5, 0.1, 0.01])
    return phi, phi @ rng.standard_normal(M) + 0.1 * rng.standard_normal(count)


def of(count):
    phi, y = rows(count)
    return phi, y, extend(empty_factor(M), phi, y)


@pytest.mark.parametrize("count", [1, 4, 50])
def test_a_factor_holds_what_the_rows_say_however_they_come(count):
    phi, y, at_once = of(count)
    whole = np.column_stack([phi, y])
    np.testing.assert_allclose(at_once.T @ at_once, whole.T @ whole, atol=1e-12 * np.abs(whole.T @ whole).max())
    assert np.array_equal(at_once, np.triu(at_once))
    one_by_one = factor_of(((phi[[i]], y[[i]]) for i in range(count)), M)
    np.testing.assert_allclose(np.abs(one_by_one), np.abs(at_once), atol=1e-12 * np.abs(whole).max() * count)


def test_rows_that_are_not_finite_are_refused():
    with pytest.raises(FloatingPointError, match="not finite"):
        extend(empty_factor(M), np.full((1, M), np.nan), np.zeros(1))


@pytest.mark.parametrize("count", [3, 40])
def test_the_evidence_is_that_of_a_gaussian_and_has_its_gradient(count):
    phi, y, factor = of(count)
    spectrum, prior = Spectrum.of(factor, count), ScalePrior()
    theta = np.log([[2.0, 0.05], [0.3, 1e-3]])
    value, gradient = negative_evidence(theta, spectrum, spectrum.singular**2, count, prior)
    for i, (variance, noise) in enumerate(np.exp(theta)):
        dense = multivariate_normal(np.zeros(count), variance * phi @ phi.T + noise * np.eye(count)).logpdf(y)
        z = [math.log(variance / 1.0) / 1.0, math.log(noise / 1e-4) / 3.0]
        expected = -dense - 0.5 * count * math.log(2 * math.pi) + 0.5 * np.dot(z, z)
        assert abs(value[i] - expected) < 1e-8 * abs(expected)
    for volume in (spectrum.singular**2, spectrum.diagonal):
        _, gradient = negative_evidence(theta, spectrum, volume, count, prior)
        for j, step in enumerate(1e-5 * np.eye(2)):
            up, down = (negative_evidence(theta + s * step, spectrum, volume, count, prior)[0] for s in (1, -1))
            np.testing.assert_allclose(gradient[:, j], (up - down) / 2e-5, rtol=1e-6)


def test_the_scales_have_the_largest_evidence():
    _, _, factor = of(40)
    spectrum, prior = Spectrum.of(factor, 40), ScalePrior()
    found = Bayes().scales(spectrum, 40, prior, Scales(1.0, 1.0))
    assert 0.05**2 < found.noise < 0.2**2, "the noise was 0.1"
    grid = np.log(np.array(found)) + np.random.default_rng(0).normal(0.0, 0.3, (200, 2))
    least = negative_evidence(np.log([found]), spectrum, spectrum.singular**2, 40, prior)[0]
    assert (negative_evidence(grid, spectrum, spectrum.singular**2, 40, prior)[0] > least - 1e-6).all()


def test_the_weights_are_those_of_ridge_regression():
    phi, y, factor = of(20)
    law = Weights.given(factor, Scales(2.0, 0.05))
    precision = phi.T @ phi / 0.05 + np.eye(M) / 2.0
    np.testing.assert_allclose(law.mean, np.linalg.solve(precision, phi.T @ y / 0.05), rtol=1e-9)
    np.testing.assert_allclose(law.covariance, np.linalg.inv(precision), rtol=1e-8, atol=1e-12)
    at = rows(7, seed=1)[0]
    mean, variance = law.moments(at)
    np.testing.assert_allclose(mean, at @ law.mean, rtol=1e-12)
    np.testing.assert_allclose(variance, np.diag(at @ np.linalg.inv(precision) @ at.T), rtol=1e-8)
    draws = law.draw(20_000, np.random.default_rng(0))
    error = np.sqrt(np.diag(law.covariance) / 20_000)
    assert (np.abs(draws.mean(axis=0) - law.mean) < 5 * error).all()
    np.testing.assert_allclose(np.cov(draws.T), law.covariance, atol=0.05 * np.diag(law.covariance).max())


def test_a_further_row_is_as_good_as_one_that_was_there():
    factor = of(20)[2]
    new, value = rows(3, seed=2)
    more = Weights.given(factor, Scales(2.0, 0.05)).and_rows(new, value, np.array([0.0, 0.1, 0.0]))
    weight = np.sqrt(0.05 / (0.05 + np.array([0.0, 0.1, 0.0])))
    whole = Weights.given(extend(factor, new * weight[:, None], value * weight), Scales(2.0, 0.05))
    np.testing.assert_allclose(more.mean, whole.mean, rtol=1e-9)
    np.testing.assert_allclose(more.covariance, whole.covariance, rtol=1e-8, atol=1e-12)


def test_the_mean_field_is_the_best_of_independent_laws():
    """The bound of some q is a lower bound of the evidence; that of the q given here is the value maximised."""
    phi, y, factor = of(20)
    variance, noise = 2.0, 0.05
    spectrum, prior = Spectrum.of(factor, 20), ScalePrior()

    def bound(mean, spread):
        fit = np.sum((y - phi @ mean) ** 2) + np.sum(phi**2 @ spread)
        kl = 0.5 * np.sum((spread + mean**2) / variance - 1.0 - np.log(spread / variance))
        return -0.5 * (fit / noise + 20 * math.log(2 * math.pi * noise)) - kl

    law = Weights.given(factor, Scales(variance, noise), mean_field=True)
    best = bound(law.mean, np.diag(law.covariance))
    rng = np.random.default_rng(0)
    for _ in range(100):
        assert best > bound(
            law.mean + 0.02 * rng.standard_normal(M), np.diag(law.covariance) * np.exp(0.2 * rng.standard_normal(M))
        )
    theta = np.log([[variance, noise]])
    z = [math.log(variance), math.log(noise / 1e-4) / 3.0]
    value = negative_evidence(theta, spectrum, spectrum.diagonal, 20, prior)[0][0] - 0.5 * np.dot(z, z)
    assert abs(-value - 10 * math.log(2 * math.pi) - best) < 1e-8 * abs(best)
    exact = negative_evidence(theta, spectrum, spectrum.singular**2, 20, prior)[0][0] - 0.5 * np.dot(z, z)
    assert exact < value, "the evidence is larger than the bound"
    found = MeanField().scales(spectrum, 20, prior, Scales(1.0, 1.0))
    at = negative_evidence(np.log([found]), spectrum, spectrum.diagonal, 20, prior)[0]
    assert at <= negative_evidence(theta, spectrum, spectrum.diagonal, 20, prior)[0]


def test_least_squares_has_the_noise_of_the_residuals():
    phi, y, factor = of(20)
    rest = np.linalg.lstsq(phi, y, rcond=None)[1][0]
    found = LeastSquares().scales(Spectrum.of(factor, 20), 20, ScalePrior(), Scales(1.0, 1.0))
    assert abs(found.noise - rest / (20 - M)) < 1e-9
    few = LeastSquares().scales(Spectrum.of(of(M)[2], M), M, ScalePrior(), Scales(1.0, 1.0))
    assert few == Scales(1.0, 1e-4), "not defined without more rows than features: the prior"


def test_excess_is_the_factor_by_which_variances_were_too_small():
    """For Student-t errors; for normal ones a scale of t(5) is smaller, by what its tails explain."""
    rng = np.random.default_rng(0)
    for factor in (1.5, 40.0):
        found = excess(factor * rng.standard_t(5.0, 20_000) ** 2)
        assert abs(found / factor - 1.0) < 0.06, "the standard error is a hundredth"
    assert excess(0.3 * rng.standard_t(5.0, 20_000) ** 2) == 1.0, "variances are not narrowed"
    assert excess(np.zeros(0)) == pytest.approx(1.0)
    steady = excess(np.append(rng.standard_normal(50) ** 2, 1e6))
    assert steady < 2.0, "one wild error does not sway it"
