"""Kernels against finite differences, positive definiteness, scikit-learn, quadrature and dense algebra."""

import math

import numpy as np
import pytest
from scipy import integrate
from sklearn.gaussian_process import kernels as sk

from presage.kernels import (
    Axes,
    Categorical,
    GammaExponential,
    InfiniteNetwork,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
    Trend,
    Warped,
    White,
    additive,
    squared_distance,
)  # fmt: skip
from presage.observations import Column
from presage.priors import Gamma, HalfCauchy, LogNormal, Priors
from presage.testing.surrogates import MIXED, PLAIN, mixed_points, plain_points

KERNELS = {
    "squared exponential": SquaredExponential(),
    "matern 1/2": Matern(nu=0.5),
    "matern 3/2": Matern(nu=1.5),
    "matern 5/2": Matern(),
    "matern 0.8": Matern(nu=0.8),
    "matern 3.7": Matern(nu=3.7),
    "one lengthscale": Matern(shared=True),
    "on a column": Matern(on=(1,)),
    "gamma-exponential": GammaExponential(),
    "rational quadratic": RationalQuadratic(),
    "periodic": Periodic(),
    "periodic on a column": Periodic(on=(1,)),
    "linear": Linear(),
    "polynomial": Polynomial(3, on=(0, 1)),
    "relu network": InfiniteNetwork(),
    "deep relu network": InfiniteNetwork(3),
    "erf network": InfiniteNetwork(2, "erf", on=(1,)),
    "trend": Trend(),
    "sum": Matern() + Linear() + White(),
    "product": Periodic(on=(0,)) * SquaredExponential(on=(1,)) * RationalQuadratic(),
    "nested": (Linear() + Matern(variance=None)) * Matern(nu=1.5, on=(1,)),
    "warped": Warped(Matern(nu=1.5) + Linear()),
    "additive": additive(Matern(), [(0,), (1,)]),
}
WITH_CATEGORIES = {**KERNELS, "categorical": Categorical(2), "all": Matern(on=(0, 1, 3)) * Categorical(2, rank=1)}


def case(kernel: Kernel, mixed: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, Axes]:
    """Parameters drawn from the prior, features of points, and the axes."""
    axes = Axes(MIXED if mixed else PLAIN)
    points = mixed_points if mixed else plain_points
    priors = Priors(kernel.blocks(axes))
    theta = np.clip(priors.draw(1, rng=np.random.default_rng(seed))[0], priors.center - 1.0, priors.center + 1.0)
    return theta, axes.features(points(7, seed + 1)), axes.features(points(5, seed + 2)), axes


ALL = [(name, False) for name in KERNELS] + [(name, True) for name in WITH_CATEGORIES]


def differences(function, at: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """Central differences of a scalar function, in the shape of its argument."""
    found = np.empty(at.size)
    for i in range(at.size):
        step = np.zeros(at.size)
        step[i] = h
        found[i] = (function(at + step.reshape(at.shape)) - function(at - step.reshape(at.shape))) / (2.0 * h)
    return found.reshape(at.shape)


@pytest.mark.parametrize(("name", "mixed"), ALL)
def test_pullbacks_are_derivatives(name, mixed):
    kernel = WITH_CATEGORIES[name]
    theta, a, b, axes = case(kernel, mixed)
    weight = np.random.default_rng(5).standard_normal((7, 5))
    found = kernel.evaluate(theta, a, b, axes)
    assert found.value.shape == (7, 5)
    assert len(theta) == kernel.size(axes) == len(found.by_theta(weight))

    def energy(theta: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
        return float((weight * kernel.evaluate(theta, a, b, axes).value).sum())

    # central differences err by about 1e-6^2 times a third derivative, and by 1e-16 / 1e-6 of the value
    near = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(found.by_theta(weight), differences(lambda t: energy(t, a, b), theta), **near)
    numeric = len(axes.numeric)  # the other features are flags and do not move
    for pull, slope in (
        (found.by_a(weight), differences(lambda f: energy(theta, f, b), a)),
        (found.by_b(weight), differences(lambda f: energy(theta, a, f), b)),
    ):
        np.testing.assert_allclose(pull[:, :numeric], slope[:, :numeric], **near)


@pytest.mark.parametrize(("name", "mixed"), ALL)
def test_a_set_of_points_with_itself(name, mixed):
    """The pullback where both sides are the same array, as in a likelihood; the diagonal and its slope."""
    kernel = WITH_CATEGORIES[name]
    theta, a, _, axes = case(kernel, mixed)
    weight = np.random.default_rng(5).standard_normal((7, 7))
    found = kernel.evaluate(theta, a, a, axes)
    slope = differences(lambda t: float((weight * kernel.evaluate(t, a, a, axes).value).sum()), theta)
    np.testing.assert_allclose(found.by_theta(weight), slope, rtol=1e-5, atol=1e-6)
    diagonal = kernel.diagonal(theta, a, axes)
    # a distance of 1e-8, from rounding 1e-16, is 1e-8 in the roughest of these kernels
    np.testing.assert_allclose(diagonal.value, np.diag(found.value), rtol=1e-6)
    numeric = len(axes.numeric)
    slope = differences(lambda f: float(kernel.diagonal(theta, f, axes).value.sum()), a)
    np.testing.assert_allclose(diagonal.slope[:, :numeric], slope[:, :numeric], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "mixed"), ALL)
def test_positive_definite(name, mixed):
    kernel = WITH_CATEGORIES[name]
    for seed in range(5):
        theta, _, _, axes = case(kernel, mixed, seed)
        a = axes.features((mixed_points if mixed else plain_points)(40, seed))
        K = kernel.evaluate(theta, a, a, axes).value
        np.testing.assert_allclose(K, K.T, rtol=1e-12, atol=1e-12)
        assert np.linalg.eigvalsh(K).min() > -1e-9 * np.trace(K)  # rounding of 40 eigenvalues, roots of distances


LENGTHS = np.array([0.3, 0.8])
PEERS = {
    "squared exponential": (SquaredExponential(), sk.RBF(LENGTHS), []),
    "matern 1/2": (Matern(nu=0.5), sk.Matern(LENGTHS, nu=0.5), []),
    "matern 3/2": (Matern(nu=1.5), sk.Matern(LENGTHS, nu=1.5), []),
    "matern 5/2": (Matern(), sk.Matern(LENGTHS, nu=2.5), []),
    "matern 0.8": (Matern(nu=0.8), sk.Matern(LENGTHS, nu=0.8), []),
    "matern 3.7": (Matern(nu=3.7), sk.Matern(LENGTHS, nu=3.7), []),
}


@pytest.mark.parametrize("name", PEERS)
def test_scikit_learn_agrees_on_distances(name):
    ours, theirs, shape = PEERS[name]
    axes = Axes(PLAIN)
    a, b = axes.features(plain_points(7)), axes.features(plain_points(5, 1))
    theta = np.concatenate([np.log(LENGTHS), [math.log(1.7)], shape])
    found = ours.evaluate(theta, a, b, axes).value
    np.testing.assert_allclose(found, 1.7 * theirs(a, b), rtol=1e-12, atol=1e-13)


def test_scikit_learn_agrees_on_the_others():
    axes = Axes(PLAIN)
    a, b = axes.features(plain_points(7)), axes.features(plain_points(5, 1))
    one = math.log(0.7)
    rational = RationalQuadratic(shared=True, variance=None).evaluate(np.array([one, math.log(1.5)]), a, b, axes)
    np.testing.assert_allclose(rational.value, sk.RationalQuadratic(0.7, alpha=1.5)(a, b), rtol=1e-12)
    narrow = Axes(PLAIN[:1])
    circle = Periodic(variance=None).evaluate(np.array([math.log(0.4), one]), a[:, :1], b[:, :1], narrow)
    peer = sk.ExpSineSquared(0.7, periodicity=0.4)(a[:, :1], b[:, :1])
    np.testing.assert_allclose(circle.value, peer, rtol=1e-12)
    line = Linear(variance=None).evaluate(np.array([0.0, 0.0, math.log(0.25)]), a, b, axes)
    np.testing.assert_allclose(line.value, sk.DotProduct(0.5)(a, b), rtol=1e-12)


def test_gamma_exponential_at_its_ends():
    """gamma = 1 is Matern 1/2."""
    axes = Axes(PLAIN)
    a, b = axes.features(plain_points(7)), axes.features(plain_points(5, 1))
    found = GammaExponential(variance=None).evaluate(np.array([-1.0, 0.3, 0.0]), a, b, axes).value
    peer = Matern(nu=0.5, variance=None).evaluate(np.array([-1.0, 0.3]), a, b, axes).value
    np.testing.assert_allclose(found, peer, rtol=1e-12)


@pytest.mark.parametrize(("activation", "phi"), [
    ("relu", lambda u: math.sqrt(2.0) * np.maximum(u, 0.0)),
    ("erf", np.vectorize(math.erf)),
])  # fmt: skip
def test_network_kernels_are_expectations(activation, phi):
    """One hidden layer by two-dimensional quadrature over the Gaussian pre-activations."""
    axes = Axes(PLAIN)
    a, b = axes.features(plain_points(1)), axes.features(plain_points(1, 1))
    weight, bias = 1.3, 0.4
    theta = np.array([0.0, 0.0, math.log(weight), math.log(bias)])
    found = InfiniteNetwork(1, activation, variance=None).evaluate(theta, a, b, axes).value[0, 0]
    both = np.vstack([a, b])
    factor = np.linalg.cholesky(bias + weight * both @ both.T)

    def integrand(s: float, t: float) -> float:
        u, v = factor @ np.array([t, s])
        return float(phi(u) * phi(v)) * math.exp(-0.5 * (s * s + t * t)) / (2.0 * math.pi)

    expected = integrate.dblquad(integrand, -8.0, 8.0, -8.0, 8.0, epsabs=1e-7)[0]
    assert abs(found - (bias + weight * expected)) < 1e-5


def test_a_trend_is_a_sum_of_parabolas_with_its_variance():
    """Least squares in the monomials 1, x_j, x_j^2 explains it; over the cube its mean variance is the parameter."""
    axes = Axes((Column("continuous"),) * 3)
    x = np.random.default_rng(0).random((4000, 3))
    at = axes.features(x)
    theta = np.array([math.log(1.7)])
    variance = Trend().diagonal(theta, at, axes).value
    assert abs(variance.mean() - 1.7) < 5.0 * variance.std() / math.sqrt(4000)
    K = Trend().evaluate(theta, at[:40], at[:40], axes).value
    monomials = np.concatenate([np.ones((40, 1)), x[:40], x[:40] ** 2], axis=1)
    assert np.abs(monomials @ np.linalg.lstsq(monomials, K, rcond=None)[0] - K).max() < 1e-9


def test_a_product_has_one_variance():
    axes = Axes(PLAIN)
    names = [block.name for block in (Matern() * Linear() * Periodic()).blocks(axes)]
    assert sum("variance" in name for name in names) == 1


def test_categories_can_be_alike():
    """With equal places two categories are as alike as one is with itself, apart from what is its own."""
    axes = Axes((Column("categorical", 3),))
    a = axes.features(np.array([[1 / 6], [0.5], [5 / 6]]))
    places = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    theta = np.concatenate([places.ravel(), np.log([0.1, 0.1, 0.1])])
    K = Categorical(0, variance=None).evaluate(theta, a, a, axes).value
    np.testing.assert_allclose(K, 0.5 * np.array([[1, 1, -1], [1, 1, -1], [-1, -1, 1]]) + 0.1 * np.eye(3), rtol=1e-12)


def test_a_categorical_kernel_needs_categories():
    with pytest.raises(ValueError, match="column 0 is continuous"):
        Categorical(0).blocks(Axes(PLAIN))


def test_squared_distance_keeps_small_distances():
    a = np.random.default_rng(0).random((5, 3))
    assert np.abs(squared_distance(a, a + 1e-6) - ((a[:, None] - a - 1e-6) ** 2).sum(axis=2)).max() < 1e-15


@pytest.mark.parametrize("prior", [LogNormal(0.5, 2.0), HalfCauchy(0.7), Gamma(2.0, 3.0), Gamma(2.0, 3.0).scaled(4.0)])
def test_priors_are_laws(prior):
    """Draws have the density that the energy gives, the median, and its slope is its derivative."""
    u = np.linspace(-30.0, 30.0, 60001)
    value, slope = prior.energy(u)
    np.testing.assert_allclose(np.gradient(value, u)[1:-1], slope[1:-1], rtol=1e-3, atol=1e-3)
    density = np.exp(-value)
    below = np.cumsum(density) / density.sum()
    draws = prior.draw(4000, rng=np.random.default_rng(0))
    ranks = np.interp(draws, u, below)
    # Kolmogorov-Smirnov: 1.95 / sqrt(n) is exceeded once in a thousand
    assert np.abs(np.sort(ranks) - (np.arange(4000) + 0.5) / 4000).max() < 1.95 / math.sqrt(4000)
    assert abs(np.interp(math.log(prior.median), u, below) - 0.5) < 1e-3


def test_a_number_is_no_lengthscale():
    with pytest.raises(TypeError, match=r"must be a prior .* but got 1\.5; .* Matern\(nu=1\.5\)"):
        Matern(1.5)


WITHOUT_BASIS = {"polynomial", "relu network", "deep relu network", "erf network", "product", "nested", "all"}
SPANNED = [one for one in ALL if one[0] not in {*WITHOUT_BASIS, "sum"}]  # a sum with White is less on the diagonal


@pytest.mark.parametrize(("name", "mixed"), SPANNED)
def test_a_basis_spans_its_kernel(name, mixed):
    """The inner products of a basis: those of the kernel in the mean over bases, and on the diagonal in each one."""
    kernel = WITH_CATEGORIES[name]
    theta, a, b, axes = case(kernel, mixed)
    k, level = kernel.evaluate(theta, a, b, axes).value, kernel.diagonal(theta, a, axes).value
    products = []
    for seed in range(40):
        basis = kernel.basis(theta, axes, np.random.default_rng(seed))
        here, there = basis(a).value, basis(b).value
        products.append(here @ there.T)
        np.testing.assert_allclose(np.square(here).sum(axis=1), level, rtol=1e-9)
    # one inner product of 512 independent waves errs by at most level / sqrt(2 * 512) in the mean square
    error = level.max() / math.sqrt(2 * 512)
    assert np.abs(np.mean(products, axis=0) - k).max() < 5.0 * error / math.sqrt(40)
    assert np.sqrt(np.mean((np.array(products) - k) ** 2)) < 1.2 * error


@pytest.mark.parametrize(("name", "mixed"), [*SPANNED, ("sum", False), ("sum", True)])
def test_a_basis_has_its_derivatives(name, mixed):
    kernel = WITH_CATEGORIES[name]
    theta, a, _, axes = case(kernel, mixed)
    basis = kernel.basis(theta, axes, np.random.default_rng(0))
    weight = np.random.default_rng(5).standard_normal(basis(a).value.shape)
    slope = differences(lambda f: float((weight * basis(f).value).sum()), a, h=1e-7)
    numeric = len(axes.numeric)
    by_a = basis(a).by_a(weight)
    assert by_a.shape == a.shape
    # the roughest kernels have waves of a thousand turns across the cube, whose third derivatives are large
    keep = np.abs(slope[:, :numeric]) < 1e4
    np.testing.assert_allclose(by_a[:, :numeric][keep], slope[:, :numeric][keep], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", sorted(WITHOUT_BASIS))
def test_kernels_without_a_basis_say_so(name):
    kernel = WITH_CATEGORIES[name]
    theta, _, _, axes = case(kernel, name == "all")
    assert kernel.basis(theta, axes, np.random.default_rng(0)) is None


def test_white_noise_adds_nothing_to_a_basis():
    whole, rest = Matern() + White() + Trend(), Matern() + Trend()
    theta, a, _, axes = case(whole, False)
    kept = np.delete(theta, Matern().size(axes))
    found = whole.basis(theta, axes, np.random.default_rng(0))(a).value
    np.testing.assert_array_equal(found, rest.basis(kept, axes, np.random.default_rng(0))(a).value)


def test_a_kernel_with_a_profile_of_its_own_has_not_the_basis_of_another():
    class Hat(Matern):
        def profile(self, square, shape):
            found = super().profile(square, shape)
            return found._replace(value=found.value**2, slope=2.0 * found.value * found.slope)

    class Named(Matern):
        """The same in all but name."""

    axes, rng = Axes(PLAIN), np.random.default_rng(0)
    assert Hat().basis(np.zeros(3), axes, rng) is None
    assert Named().basis(np.zeros(3), axes, rng) is not None
    assert Linear(degree=2).basis(np.zeros(4), axes, rng) is None


@pytest.mark.parametrize("logit", [-4.0, 0.0, 8.0])
def test_waves_of_the_roughest_kernels_are_finite(logit):
    near = np.array([1e-9, 0.5, 1.0 - 1e-9])
    u = np.stack(np.meshgrid(near, near), axis=-1).reshape(-1, 2)
    tempo = GammaExponential().tempo(u, np.array([logit]))
    assert np.isfinite(tempo).all()
    assert (tempo > 0).all()
