"""Closed forms of single points: Student-t laws, probabilities, bounds and the wrappers, against quadrature."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from presage.acquisitions import (
    BY_NAME,
    CappedImprovement,
    ConfidenceBound,
    Constrained,
    Context,
    ExpectedImprovement,
    Exploration,
    ExploreWhenFlat,
    Feasible,
    Logarithm,
    LogExpectedImprovement,
    MaxValueEntropySearch,
    Penalised,
    PerCost,
    ProbabilityOfImprovement,
    SometimesGreedy,
    ThompsonSampling,
    UnderSampled,
    gp_ucb,
)
from presage.acquisitions.improvement import (
    NEARLY,
    log_improvement,
    log_improvement_t,
    log_normal,
    log_student,
    tangent,
)
from presage.surrogates import Marginal
from presage.testing.acquisitions import AcquisitionSuite, Waves
from presage.testing.surrogates import central, plain_points, same_slope

DF = (1.5, 3.0, 10.0, 150.0, 3000.0)


@dataclass(frozen=True)
class StudentWaves(Waves):
    """The marginals of waves as Student-t laws."""

    def marginal_gradient(self, x):
        law, by_mean, by_variance = super().marginal_gradient(x)
        return law._replace(df=np.array([2.5, 5.0, 50.0])[: self.components]), by_mean, by_variance


# Student-t improvement: h(z) = (df + z^2) / (df - 1) t(z) + z T(z), in logarithms down to z = -1e4.


def truth(z, df):
    """log h and h'/h by integrals of positive functions, relative to the density at z."""
    a = abs(z)

    def ratio(power):
        # int_0^inf s^power t(a + s) / t(a) ds, in units of a length over which the density falls
        unit = (df + a * a) / (df + 1.0) / max(a, math.sqrt(df + 1.0))

        def part(u):
            s = unit * u
            return u**power * math.exp(-0.5 * (df + 1.0) * math.log1p(s * (2.0 * a + s) / (df + a * a)))

        return unit ** (power + 1) * sum(
            integrate.quad(part, low, high, epsabs=0, epsrel=1e-12, limit=500)[0]
            for low, high in ((0.0, 1.0), (1.0, 20.0), (20.0, np.inf))
        )

    log_density = stats.t.logpdf(a, df)
    if z <= 0:
        return log_density + math.log(ratio(1)), ratio(0) / ratio(1)
    h = z + math.exp(log_density) * ratio(1)
    return math.log(h), (1.0 - math.exp(log_density) * ratio(0)) / h


@pytest.mark.parametrize("df", DF)
def test_student_improvement_is_exact_far_out(df):
    z = np.concatenate(
        [-np.geomspace(1e-6, 1e4, 30), [0.0], np.geomspace(1e-6, 1e3, 20), [-2.0, 2.0, -2.0001, -1.9999]]
    )
    value, slope = log_improvement_t(z, np.full(z.shape, df))
    expected = np.array([truth(one, df) for one in z])
    # G is a difference of terms up to df times its size, each with some ten roundings; the quadrature is good to 1e-11.
    tolerance = 1e-11 + 10.0 * df * np.finfo(float).eps
    assert (np.abs(value - expected[:, 0]) < tolerance * np.maximum(1.0, np.abs(expected[:, 0]))).all()
    assert (np.abs(slope - expected[:, 1]) < tolerance * expected[:, 1]).all()


def test_student_improvement_with_many_degrees_of_freedom_is_the_normal_one():
    z = np.linspace(-5.0, 5.0, 50)
    for one, other in zip(log_improvement_t(z, np.full(50, 1e6)), log_improvement(z), strict=True):
        assert np.abs(one - other).max() < 1e-3


def test_a_student_law_without_a_mean_has_no_expected_improvement():
    with pytest.raises(ValueError, match="df > 1"):
        log_improvement_t(np.zeros(2), np.array([3.0, 1.0]))


def test_expected_improvement_of_a_student_mixture_is_that_of_quadrature():
    posterior, x = StudentWaves(), plain_points(6)
    law = posterior.marginal(x)
    values = ExpectedImprovement(margin=0.1).values(posterior, x, Context(0.3))
    for n in range(6):
        total = 0.0
        for mean, variance, df, weight in zip(law.mean[:, n], law.variance[:, n], law.df, law.weight, strict=True):
            density = stats.t(df, mean, math.sqrt(variance)).pdf
            total += weight * integrate.quad(lambda f, p=density: (0.2 - f) * p(f), -np.inf, 0.2, epsrel=1e-10)[0]
        assert values[n] == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize(
    "acquisition",
    [LogExpectedImprovement(), CappedImprovement(), ProbabilityOfImprovement(), ConfidenceBound(), Exploration()],
    ids=repr,
)
def test_student_gradients(acquisition):
    posterior, x, context = StudentWaves(), plain_points(10), Context(0.0)
    _, gradient = acquisition.values_and_gradients(posterior, x, context)
    for j in range(2):
        same_slope(
            gradient[:, j], central(lambda h, j=j: acquisition.values(posterior, x + h * np.eye(2)[j], context), 1e-4)
        )


# Improvement whose price of spread is capped.

KAPPAS = (0.3, 1.0, 1.5, 3.0)


def laws(z, sigma=1.0, df=None):
    """Laws of f at points that lie z standard scores below the incumbent 0."""
    z = np.asarray(z, dtype=float)
    variance = np.broadcast_to(np.square(sigma), z.shape)[None]
    return Marginal(-z[None] * np.sqrt(variance), variance, np.ones(1), None if df is None else np.array([df]))


@pytest.mark.parametrize("kappa", KAPPAS)
def test_the_tangent_touches_where_kappa_is_given(kappa):
    def given(z):
        return stats.norm.pdf(z) / stats.norm.cdf(z)  # = h / h' - z

    root = optimize.brentq(lambda z: given(z) - kappa, -10.0, 10.0, xtol=1e-13)
    at, log_h, slope = tangent(kappa)
    h = stats.norm.pdf(root) + root * stats.norm.cdf(root)
    assert at == pytest.approx(root, abs=1e-9)
    assert log_h == pytest.approx(math.log(h), abs=1e-8)
    assert slope == pytest.approx(stats.norm.cdf(root) / h, rel=1e-8)


@pytest.mark.parametrize("df", [None, *DF])
@pytest.mark.parametrize("kappa", KAPPAS)
def test_capped_improvement_is_expected_improvement_and_below_its_tangent_a_confidence_bound(kappa, df):
    at, log_h, _ = tangent(kappa, df)
    above = np.linspace(at, at + 5.0, 30)
    capped, plain = (
        one.score(laws(above, df=df), Context(0.0))[0] for one in (CappedImprovement(kappa), LogExpectedImprovement())
    )
    assert np.allclose(capped, plain, rtol=0, atol=1e-12)
    # Below: sigma h(z0) (z + kappa) / (z0 + kappa), that is (kappa sigma - mean) times a constant.
    z = -kappa + (at + kappa) * np.linspace(NEARLY, 1.0, 30)
    sigma = np.geomspace(1e-3, 1e3, 30)
    found = CappedImprovement(kappa).score(laws(z, sigma, df), Context(0.0))[0]
    bound = sigma * (z + kappa)
    assert np.allclose(found, np.log(bound) + log_h - math.log(at + kappa), rtol=0, atol=1e-9)


@pytest.mark.parametrize("df", [None, 1.5, 10.0])
@pytest.mark.parametrize("kappa", KAPPAS)
def test_capped_improvement_never_gives_more_than_kappa_of_mean_for_spread(kappa, df):
    z = np.concatenate([-np.geomspace(1e-3, 1e4, 60), np.linspace(0.0, 8.0, 40)])
    law = laws(z, 0.7, df)
    value, by_mean, by_variance = CappedImprovement(kappa).score(law, Context(0.0))
    given = by_variance[0] * 2.0 * np.sqrt(law.variance[0]) / -by_mean[0]
    assert np.isfinite(value).all()
    assert (by_mean < 0.0).all()  # what is lower is worth more, however far out
    hoped = z > -kappa + NEARLY * (tangent(kappa, df).at + kappa)  # where the tangent has not ended
    assert (given[hoped] <= kappa + 1e-9).all()
    assert (np.diff(value[np.argsort(z)]) > 0.0).all()
    far = LogExpectedImprovement().score(law, Context(0.0))
    free = far[2][0] * 2.0 * np.sqrt(law.variance[0]) / -far[1][0]
    assert free.max() > 1e3  # expected improvement itself has no such limit


def test_points_of_which_little_is_expected_are_ordered_as_by_the_bound():
    rng = np.random.default_rng(0)
    sigma, z = rng.uniform(0.1, 2.0, 200), rng.uniform(-1.45, -1.0, 200)
    law = laws(z, sigma)
    capped, bound, plain = (
        one.score(law, Context(0.0))[0]
        for one in (CappedImprovement(1.5), ConfidenceBound(1.5), LogExpectedImprovement())
    )
    assert (np.argsort(capped) == np.argsort(bound)).all()
    assert (np.argsort(plain) != np.argsort(bound)).any()


@pytest.mark.parametrize("kappa", [0.0, -1.0, math.inf, math.nan])
def test_a_price_must_be_a_price(kappa):
    with pytest.raises(ValueError, match="kappa must be finite and at least"):
        CappedImprovement(kappa)


# Probabilities.


def test_log_probabilities_far_out():
    z = np.concatenate([-np.geomspace(1e-6, 1e4, 40), np.geomspace(1e-6, 30.0, 40)])
    value, slope = log_normal(z)
    assert np.allclose(value, stats.norm.logcdf(z), rtol=1e-13)
    assert np.allclose(slope[z > -30], np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))[z > -30], rtol=1e-11)
    far = z[z < -1e3]
    assert np.allclose(slope[z < -1e3], -far / (1 - 1 / far**2 + 3 / far**4), rtol=1e-13)
    for df in DF:
        value, slope = log_student(z, np.full(z.shape, df))
        near = z > (-1e4 if df < 20 else -10.0)  # where the distribution function itself does not underflow
        expected = np.log(special.stdtr(df, z[near]))
        assert np.allclose(value[near], expected, rtol=1e-9, atol=1e-15)
        h = 1e-4 * np.maximum(1.0, np.abs(z))
        differences = (log_student(z + h, np.full(z.shape, df))[0] - log_student(z - h, np.full(z.shape, df))[0]) / (
            2 * h
        )
        assert np.allclose(slope, differences, rtol=1e-4, atol=1e-12)


def test_probability_of_improvement_of_a_mixture():
    posterior, x = Waves(), plain_points(8)
    law = posterior.marginal(x)
    expected = law.weight @ stats.norm.cdf(0.1, law.mean, np.sqrt(law.variance))
    assert np.allclose(ProbabilityOfImprovement(margin=0.2).values(posterior, x, Context(0.3)), np.log(expected))


# Bounds.


def test_a_bound_is_so_many_standard_deviations_below_the_mean_of_the_mixture():
    posterior, x = Waves(), plain_points(8)
    draws = posterior.sample(x, 200_000, rng=np.random.default_rng(0))
    mean, stddev = draws.mean(axis=0), draws.std(axis=0)
    error = 5.0 * stddev / math.sqrt(200_000)  # the standard deviation's own error is of the same order
    assert (np.abs(ConfidenceBound(1.5).values(posterior, x, Context(0.0)) - (1.5 * stddev - mean)) < 4 * error).all()
    assert (np.abs(Exploration().values(posterior, x, Context(0.0)) - stddev) < 2 * error).all()


def test_a_scheduled_bound_widens():
    posterior, x = Waves(), plain_points(3)
    narrow, wide = (ConfidenceBound(gp_ucb).values(posterior, x, Context(0.0, count=n)) for n in (5, 500))
    assert (wide > narrow).all()
    # Srinivas et al.: beta_t = 2 log(|D| t^2 pi^2 / (6 delta)), here |D| = 1000, delta = 0.1, divided by 5
    assert gp_ucb(10) ** 2 == pytest.approx(2 * math.log(1000 * 100 * math.pi**2 / 0.6) / 5)


def test_the_spread_of_a_student_law_is_its_standard_deviation():
    law = Marginal(np.zeros((1, 1)), np.full((1, 1), 2.0), np.ones(1), np.array([6.0]))
    assert Exploration().score(law, Context(0.0))[0][0] == pytest.approx(stats.t(6.0, scale=math.sqrt(2.0)).std())


def test_exploration_where_nothing_is_expected_to_improve():
    def context(best):
        return Context(best, candidates=lambda rng: plain_points(50))

    rule = ExploreWhenFlat(LogExpectedImprovement(), threshold=1e-3)
    posterior, rng = Waves(variance=1e-3), np.random.default_rng(0)
    assert rule.prepare(posterior, context(1.0), rng=rng) == LogExpectedImprovement()
    assert rule.prepare(posterior, context(-5.0), rng=rng) == Exploration()


def test_every_second_point_is_greedy_unless_far_more_is_expected_elsewhere():
    posterior, rng = Waves(), np.random.default_rng(0)
    points = plain_points(50)
    least = posterior.marginal(points).moments()[0].min()

    def turns(best):
        contexts = [Context(best, count, candidates=lambda rng: points) for count in range(6)]
        return [SometimesGreedy().prepare(posterior, context, rng=rng) for context in contexts]

    assert turns(least + 1.0) == [ConfidenceBound(0.0), LogExpectedImprovement()] * 3
    assert turns(least) == [LogExpectedImprovement()] * 6
    expected = np.exp(LogExpectedImprovement().values(posterior, points, Context(least)).max())
    assert turns(least + 0.04 * expected)[0] == ConfidenceBound(0.0)
    assert turns(least + 0.02 * expected)[0] == LogExpectedImprovement()
    assert turns(least - 10.0) == [ConfidenceBound(0.0), LogExpectedImprovement()] * 3  # nothing is expected anywhere


# Draws.


def test_thompson_sampling_is_one_function_and_another_one_next_time():
    posterior, x = Waves(components=1), plain_points(9)
    rng = np.random.default_rng(0)
    one, other = (ThompsonSampling().prepare(posterior, Context(0.0), rng=rng) for _ in range(2))
    values = -one.values(posterior, x, Context(0.0))
    assert np.array_equal(values, -one.values(posterior, x, Context(0.0)))
    assert not np.allclose(values, -other.values(posterior, x, Context(0.0)))
    many = [
        -ThompsonSampling().prepare(posterior, Context(0.0), rng=rng).values(posterior, x, Context(0.0))
        for _ in range(2000)
    ]
    law = posterior.marginal(x)
    assert (np.abs(np.mean(many, axis=0) - law.mean[0]) < 5 * np.sqrt(law.variance[0] / 2000)).all()


def test_many_draws_have_the_improvement_of_the_law_and_few_do_not():
    posterior, x, context = Waves(components=1), plain_points(9), Context(0.3)
    rng = np.random.default_rng(0)
    exact = ExpectedImprovement().values(posterior, x, context)

    def error(samples):
        drawn = UnderSampled(ExpectedImprovement(), samples, width=1e-3).prepare(posterior, context, rng=rng)
        return np.abs(drawn.values(posterior, x, context) - exact).max()

    assert error(20_000) < 0.02
    assert error(3) > 0.05


# Wrappers.


def test_an_unprepared_acquisition_says_what_to_do():
    with pytest.raises(RuntimeError, match="call prepare"):
        MaxValueEntropySearch().values(Waves(), plain_points(2), Context(0.0))
    with pytest.raises(ValueError, match="candidates="):
        MaxValueEntropySearch().prepare(Waves(), Context(0.0), rng=np.random.default_rng(0))


def test_logarithms():
    posterior, x, context = Waves(), plain_points(5), Context(0.0)
    plain, log = (a.values(posterior, x, context) for a in (Exploration(), Exploration().logarithm()))
    assert np.allclose(np.log(plain), log, rtol=1e-14)
    assert isinstance(Exploration().logarithm(), Logarithm)
    assert ExpectedImprovement(margin=0.1).logarithm() == LogExpectedImprovement(margin=0.1)
    assert ConfidenceBound().logarithm() == ConfidenceBound()


def test_worth_per_second():
    posterior, x, context = Waves(), plain_points(5), Context(0.0)
    cost = Waves(level=1.0, height=0.5)
    added = PerCost(ExpectedImprovement(), cost, exponent=0.5).values(posterior, x, context)
    log_cost, _ = cost.marginal(x).moments()
    assert np.allclose(added, LogExpectedImprovement().values(posterior, x, context) - 0.5 * log_cost)


def test_worth_under_a_constraint():
    posterior, x, context = Waves(), plain_points(5), Context(0.0)
    quantity = Waves(level=0.5)
    values = Constrained(LogExpectedImprovement(), quantity, bound=0.7).values(posterior, x, context)
    law = quantity.marginal(x)
    holds = law.weight @ stats.norm.cdf(0.7, law.mean, np.sqrt(law.variance))
    assert np.allclose(values, LogExpectedImprovement().values(posterior, x, context) + np.log(holds))


def test_a_penalty_is_the_chance_of_lying_outside_the_ball():
    posterior, x = Waves(components=1), plain_points(7)
    at = np.array([[0.5, 0.5]])
    penalised = Penalised(LogExpectedImprovement(), at, np.array([1.0]), np.array([0.2]), steepness=3.0)
    added = penalised.values(posterior, x, Context(0.0)) - LogExpectedImprovement().values(posterior, x, Context(0.0))
    outside = stats.norm.logcdf((3.0 * np.linalg.norm(x - at, axis=1) - 1.0) / 0.2)
    assert np.allclose(added, outside, atol=1e-4, rtol=1e-4)  # distances are smoothed at 1e-6


def test_penalties_are_drawn_from_the_posterior():
    context = Context(-2.0, candidates=lambda rng: plain_points(4000))
    at = plain_points(2, seed=5)
    posterior = Waves(components=1)
    penalised = Penalised.around(LogExpectedImprovement(), at, posterior, context, np.random.default_rng(0))
    # f = sin(x) + sin(y): the steepest slope is sqrt(2), at the origin
    assert penalised.steepness == pytest.approx(math.sqrt(2.0), rel=0.01)
    assert np.allclose(penalised.above, np.sin(at).sum(axis=1) + 2.0)


class TestPenalised(AcquisitionSuite):
    def make(self, data):
        at = replace(data).x[:3]
        return Penalised(ExpectedImprovement(), at, np.full(3, 0.5), np.full(3, 0.3), steepness=2.0)


def test_every_public_name_makes_an_acquisition():
    assert {"auto", "ei", "logei", "pi", "lcb", "ucb", "es", "pes", "mes", "kg", "ts", "explore"} <= set(BY_NAME)
    names = {name: type(make()).__name__ for name, make in BY_NAME.items()}
    assert names["mes"] == "MaxValueEntropySearch"
    assert names["logei"] == "LogExpectedImprovement"
    assert names["auto"] == names["nei"] == "NoisyExpectedImprovement"  # the plain one where there is no noise
    assert names["capped"] == "CappedImprovement"


def test_feasible_takes_any_scale():
    assert Feasible.scale == "logarithm"
