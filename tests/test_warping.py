"""The warp of values against SciPy's Box-Cox transformation, quadrature and finite differences."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from presage.testing.surrogates import central, same_slope
from presage.warping import Warp, power

EXPONENTS = (-1.0, -0.3, -1e-5, 0.0, 1e-9, 1e-4, 0.5, 1.0)
Y = np.random.default_rng(0).lognormal(0.0, 2.0, 30)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_power_is_box_and_coxs(exponent):
    t = np.concatenate([[0.0], np.geomspace(1e-12, 1e12, 60)])
    value, slope = power(np.log1p(t), exponent)
    assert np.allclose(value, special.boxcox1p(t, exponent), rtol=1e-9)
    same_slope(slope[:40], central(lambda step: special.boxcox1p(t[:40], exponent + step)))


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_a_warp_standardises_keeps_order_and_can_be_undone(exponent):
    warp, latent, _, _ = Warp.of(Y, exponent)
    assert np.array_equal(np.argsort(latent), np.argsort(Y))
    assert abs(latent.mean()) < 1e-12
    assert latent.std() == pytest.approx(1.0, rel=1e-12)
    assert np.allclose(warp.forward(Y), latent, atol=1e-12)
    below = np.array([Y.min() - 3.0, Y.min() - 1e-3])
    for y in (np.sort(Y)[:27], below):
        assert np.allclose(warp.inverse(warp.forward(y)), y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_slopes_are_those_of_finite_differences(exponent):
    warp, _, slope, log_scale_slope = Warp.of(Y, exponent)
    y = np.sort(Y)[5:]
    same_slope(np.exp(warp.log_slope(y)), central(lambda step: warp.forward(y + step)))
    same_slope(slope, central(lambda step: Warp.of(Y, exponent + step)[1]))
    scale = central(lambda step: np.log(np.array([Warp.of(Y, exponent + step)[0].scale])))
    same_slope(np.array([log_scale_slope]), scale)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_moments_are_those_of_quadrature(exponent):
    warp, latent, _, _ = Warp.of(Y, exponent)
    for mean in np.quantile(latent, [0.3, 0.5, 0.7]):  # away from the least value, where the warp has a kink
        law = stats.norm(mean, 0.02)

        def expected(function, law=law):
            integrand = lambda z: function(float(warp.inverse(np.array(z)))) * law.pdf(z)  # noqa: E731
            return integrate.quad(integrand, mean - 0.16, mean + 0.16, epsabs=0, epsrel=1e-10)[0]  # noqa: B023

        first, second = warp.moments(np.array([mean]), np.array([0.02**2]))
        assert first[0] == pytest.approx(expected(lambda y: y), rel=1e-9)
        assert second[0] == pytest.approx(expected(lambda y: (y - first[0]) ** 2), rel=1e-6)  # noqa: B023


def test_no_warp_is_the_identity():
    assert np.allclose(Warp().forward(Y), Y, rtol=1e-14)
    assert np.allclose(Warp().inverse(Y), Y, rtol=1e-14)
    assert np.array_equal(Warp().log_slope(Y), np.zeros_like(Y))
    mean, variance = Warp().moments(Y, Y**2)
    assert np.array_equal(mean, Y)
    assert np.array_equal(variance, Y**2)


@pytest.mark.parametrize("values", [[3.0], [2.0, 2.0], [0.0, 0.0, 1e9], [-1e-300, 0.0, 1e-300]])
def test_values_without_spread(values):
    for exponent in EXPONENTS:
        warp, latent, slope, _ = Warp.of(np.array(values), exponent)
        for numbers in (latent, slope, warp.log_slope(np.array(values)), *warp.moments(latent, np.ones_like(latent))):
            assert np.isfinite(numbers).all(), exponent


def test_predictions_stay_within_thrice_what_was_seen():
    """With a negative exponent the image of a Gaussian has no mean; what was never seen must not make one up."""
    warp, latent, _, _ = Warp.of(Y, -1.0)
    mean, _ = warp.moments(np.array([latent.max(), latent.max() + 2.0]), np.ones(2))
    assert (mean <= Y.min() + 3.0 * np.ptp(Y) + 1e-9).all()
    assert np.allclose(warp.inverse(latent), Y, rtol=1e-6)
