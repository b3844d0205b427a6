"""Models of training curves against dense algebra, finite differences and by-hand constructions."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from presage.design.curves import (
    GPAR,
    Curves,
    FreezeThaw,
    KroneckerModel,
    LatentKronecker,
    PowerLawEnsemble,
    Squash,
    moments_of,
)
from presage.design.curves.kronecker import DROP, JITTER, LEVEL, Cells, Constant, Decay, Plus, Smooth, _thinned
from presage.design.curves.power_law import PowerLawPosterior, PowerLaws, prior
from presage.surrogates.gaussian import negative_evidence


def curves(rng, n=7, c=5, share=0.7):
    """A table of noisy power laws, some of them cut short, one complete and one not started."""
    x = rng.random((n, 2))
    steps = np.array([50, 100, 200, 400, 800])[:c]
    level = 1.0 + x @ [1.0, -0.5] + 0.1 * rng.standard_normal(n)
    values = level[:, None] + 30.0 * steps[None] ** -0.6 + 0.02 * rng.standard_normal((n, c))
    known = rng.integers(1, c + 1, n)
    known[0], known[1] = c, 0
    return Curves.of(x, steps, np.where(np.arange(c) < known[:, None], values, np.nan)), values


@pytest.fixture
def table():
    return curves(np.random.default_rng(3))[0]


def test_known_values_end_at_the_first_gap():
    values = np.array([[1.0, np.nan, 2.0], [np.nan, 1.0, 1.0], [1.0, 2.0, 3.0]])
    table = Curves.of(np.zeros((3, 1)), np.array([1, 2, 3]), values)
    assert table.known.tolist() == [1, 0, 3]
    assert table.last().tolist() == [1.0, 3.0]


@pytest.mark.parametrize("values", [[5.0], [2.0, 2.0, 2.0], [0.0, 0.0], [1.0, 2.0, 4.0, 8.0, 1e9]])
def test_a_squash_is_undone_and_has_its_slope(values):
    table = Curves.of(np.zeros((len(values), 1)), np.array([1]), np.array(values)[:, None])
    squash = Squash.of(table)
    assert squash.scale > 0.0
    at = np.linspace(-10.0, 10.0, 7)
    np.testing.assert_allclose(squash.inverse(squash.forward(at)), at, rtol=1e-6, atol=1e-6)
    h = 1e-4 * squash.scale
    slope = (squash.forward(at + h) - squash.forward(at - h)) / (2 * h)
    np.testing.assert_allclose(np.exp(squash.log_slope(at)), slope, rtol=1e-3)  # 1e-8 relative, less rounding


@pytest.mark.parametrize("part", [Smooth(0.5), Smooth(1.5), Smooth(2.5), Constant(), Decay(), Plus()])
def test_covariances_between_steps_are_positive_and_have_their_slopes(part):
    u = np.array([0.03, 0.1, 0.2, 0.4, 0.7, 1.0])
    theta = np.random.default_rng(1).normal(0.0, 0.4, sum(block.size for block in part.blocks()))
    value, slopes = part.evaluate(theta, u)
    assert len(slopes) == len(theta)
    assert np.linalg.eigvalsh(value).min() > -1e-12 * value.max()
    for i, slope in enumerate(slopes):
        h = 1e-6 * np.eye(len(theta))[i]
        by_hand = (part.evaluate(theta + h, u)[0] - part.evaluate(theta - h, u)[0]) / 2e-6
        np.testing.assert_allclose(slope, by_hand, rtol=1e-6, atol=1e-8)


def test_the_decay_kernel_is_a_mixture_of_exponentials():
    """The integral of exp(-l (u + u')) over a gamma law of rates l with shape alpha and rate beta."""
    alpha, beta = 1.7, 0.6
    value = Decay().evaluate(np.log([1.0, alpha, beta]), np.array([0.2, 1.0]))[0]
    rates = np.random.default_rng(0).gamma(alpha, 1.0 / beta, 200_000)
    draws = np.exp(-1.2 * rates)
    assert abs(value[0, 1] - draws.mean()) < 4.0 * draws.std() / math.sqrt(len(draws))


@pytest.mark.parametrize("model", [LatentKronecker(), FreezeThaw()])
def test_the_evidence_has_its_derivative(model, table):
    cells = Cells.of(model, table, Squash.of(table))
    theta = cells.priors.center + np.random.default_rng(0).normal(0.0, 0.2, cells.priors.size)
    gradient = cells.energies(theta[None])[1][0]
    for i in range(len(theta)):
        h = 1e-5 * np.eye(len(theta))[i]
        up, down = cells.energies(np.array([theta + h, theta - h]))[0]
        assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def dense(model, table, theta, squash):
    """The process as one big normal law of all cells, known or not: covariance [n c, n c], without noise."""
    cells = Cells.of(model, table, squash)
    first, second, third, fourth, (noise,), (power,) = cells.parts(theta)
    n = len(table.values)
    u = table.steps / table.steps[-1]
    between = model.kernel.evaluate(first, cells.features, cells.features, cells.axes).value
    shared, own, common = (
        part.evaluate(t, u)[0] for part, t in ((model.shared, second), (model.own, third), (model.common, fourth))
    )
    p = u ** -math.exp(power) - 1.0
    whole = np.kron(between, shared) + np.kron(np.eye(n), own) + np.kron(np.ones((n, n)), common)
    whole += LEVEL + DROP * np.kron(np.ones((n, n)), np.outer(p, p))
    return whole, math.exp(noise)


@pytest.mark.parametrize("model", [LatentKronecker(), KroneckerModel(ends=2.0), FreezeThaw()])
def test_predictions_and_evidence_are_those_of_one_big_normal_law(model, table):
    rng = np.random.default_rng(0)
    squash = Squash.of(table)
    cells = Cells.of(model, table, squash)
    theta = cells.priors.center + rng.normal(0.0, 0.2, cells.priors.size)
    state = {"theta": theta, "squash": np.array([squash.center, squash.scale])}
    posterior = model.fit(table, rng=rng, previous=state, keep=True).posterior
    whole, noise = dense(model, table, theta, squash)
    # Before the data a network is worse towards the ends of its ranges, by `ends` at each.
    before = np.repeat([model.ends * sum((2.0 * at - 1.0) ** 4 for at in x) for x in table.x], table.values.shape[1])
    z = squash.forward(table.values).ravel() - before
    seen = np.isfinite(z)
    K = whole[np.ix_(seen, seen)] + (noise + JITTER) * np.eye(seen.sum())
    value = -multivariate_normal(np.zeros(seen.sum()), K).logpdf(z[seen]) - 0.5 * seen.sum() * math.log(2 * math.pi)
    assert cells.negative_evidence(theta, np.zeros_like(theta)) == pytest.approx(value, rel=1e-9)
    mean = before + whole[:, seen] @ np.linalg.solve(K, z[seen])
    cov = whole - whole[:, seen] @ np.linalg.solve(K, whole[seen])
    n, c = table.values.shape
    for column in range(c):
        law = posterior.marginal(column)
        free = ~np.isfinite(table.values[:, column])
        at = np.arange(n) * c + column
        np.testing.assert_allclose(law.mean[0, free], mean[at][free], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(law.variance[0, free], np.diag(cov)[at][free] + noise, rtol=1e-5, atol=1e-7)
        assert (law.variance[0, ~free] == 0.0).all()
    ends = np.arange(n) * c + c - 1
    for column in range(c - 1):  # what a look at (i, column) would leave of the variance of (i, end)
        at = np.arange(n) * c + column
        left = np.diag(cov)[ends] + noise - cov[ends, at] ** 2 / (np.diag(cov)[at] + noise)
        np.testing.assert_allclose(posterior.informed()[column], np.sqrt(left), rtol=1e-4, atol=1e-5)
    draws = posterior.sample(20_000, rng=rng)
    free = ~np.isfinite(table.values[:, -1])
    error = np.abs(np.cov(draws[:, free].T) - cov[np.ix_(ends, ends)][np.ix_(free, free)] - noise * np.eye(free.sum()))
    assert (np.abs(draws.mean(axis=0) - mean[ends])[free] < 5.0 * draws.std(axis=0)[free] / math.sqrt(20_000)).all()
    scale = np.sqrt(np.outer(np.diag(cov)[ends][free] + noise, np.diag(cov)[ends][free] + noise))
    assert (error / scale).max() < 5.0 * math.sqrt(
        2.0 / 20_000
    )  # a covariance's relative error is at most sqrt(2 / draws)


def power_laws(table, seed=0):
    """Two small members somewhere about their anchors, and their weights by name."""
    rng = np.random.default_rng(seed)
    mean, stddev = prior(2, 3)
    anchor, unit = mean + stddev * rng.standard_normal((2, len(mean))), 0.3 * rng.standard_normal((2, len(mean)))
    squash = Squash.of(table)
    laws = PowerLaws(table.x - 0.5, table.steps / table.steps[-1], squash.forward(table.values), anchor, stddev)
    return PowerLawPosterior(squash, laws, unit)


def test_power_laws_and_their_energy_are_those_of_one_normal_law_for_each_network(table):
    """By hand, network by network and member by member, from the equations that the module states."""
    posterior = power_laws(table)
    laws, unit = posterior.laws, posterior.unit
    weights = laws.anchor + laws.stddev * unit
    energy = laws.energies(unit)[0]
    u = laws.u
    for k in range(2):
        inner, offset, outer = weights[k, :6].reshape(2, 3), weights[k, 6:9], weights[k, 9:18].reshape(3, 3)
        level, (variance, noise, length, fall) = weights[k, 18:21], weights[k, 21:]
        own = np.array([
            [math.exp(variance - abs(math.log(s / t)) / math.exp(length)) * (s * t) ** -fall for t in u] for s in u
        ])  # fmt: skip
        noise = math.exp(noise)
        wanted = 0.5 * (unit[k] ** 2).sum()
        for i, (x, z) in enumerate(zip(table.x, laws.z, strict=True)):
            a, b, c = np.tanh((x - 0.5) @ inner + offset) @ outer + level
            mean = a + b * (u ** -math.exp(min(max(c, -2.0), 1.0) - 0.7) - 1.0)
            seen = np.isfinite(z)
            known = own[np.ix_(seen, seen)] + noise * np.eye(seen.sum())
            if seen.any():
                wanted -= multivariate_normal(mean[seen], known).logpdf(z[seen]) + 0.5 * seen.sum() * math.log(
                    2.0 * math.pi
                )
            gain = own[:, seen] @ np.linalg.inv(known)
            after = mean + gain @ (z - mean)[seen]
            left = np.diag(own) + noise - np.einsum("ij,ij->i", gain, own[:, seen])
            for column in np.flatnonzero(~seen):
                law = posterior.marginal(int(column))
                assert law.mean[k, i] == pytest.approx(after[column], rel=1e-9)
                assert law.variance[k, i] == pytest.approx(left[column], rel=1e-9)
        assert energy[k] == pytest.approx(wanted, rel=1e-9)
    draws = posterior.sample(20_000, rng=np.random.default_rng(1))
    mean, variance = posterior.marginal().moments()
    assert (np.abs(draws.mean(axis=0) - mean) <= 5.0 * np.sqrt(variance / 20_000) + 1e-9).all()  # known ones: rounding


def test_the_energy_of_power_laws_has_its_derivative(table):
    posterior = power_laws(table)
    value, gradient = posterior.laws.energies(posterior.unit)
    for i in range(posterior.unit.shape[1]):
        h = 1e-6 * np.eye(posterior.unit.shape[1])[i]
        up, down = (posterior.laws.energies(posterior.unit + sign * h)[0] for sign in (1.0, -1.0))
        # Differences of values are exact to about 1e-15 |value|, so slopes to 1e-9 |value|.
        np.testing.assert_allclose(gradient[:, i], (up - down) / 2e-6, rtol=1e-5, atol=1e-8 * np.abs(value).max())


def test_hyperparameters_are_fitted_to_few_cells_with_the_last_of_every_curve_among_them():
    rng = np.random.default_rng(0)
    n, c = 60, 20
    known = rng.integers(1, c + 1, n)
    values = np.where(np.arange(c) < known[:, None], rng.random((n, c)), np.nan)
    table = Curves.of(rng.random((n, 2)), np.arange(1, c + 1), values)
    few = _thinned(table)
    assert np.isfinite(few.values).sum() < np.isfinite(values).sum() > 500
    assert np.isfinite(few.values[np.arange(n), known - 1]).all()


def by_hand_gpar(fitted, table, x, earlier):
    """The second output's law at (x, y1) by the formulas of a Gaussian process with k = k_x + k_y."""
    theta = fitted.components[0].theta
    lengths, variance = np.exp(theta[:2]), math.exp(theta[2])
    scale, slope, offset, noise = math.exp(theta[3]), math.exp(theta[4]), math.exp(theta[5]), math.exp(theta[6])

    def k(a, b):
        square = (((a[:, None, :2] - b[None, :, :2]) / lengths) ** 2).sum(axis=2)
        return variance * np.exp(-0.5 * square) + slope * (np.outer(a[:, 2], b[:, 2]) / scale**2 + offset)

    known = np.isfinite(table.values).all(axis=1)
    z = Squash.of(table).forward(table.values)
    y1 = (z[:, 0] - np.mean(z[np.isfinite(z[:, 0]), 0])) / np.std(z[np.isfinite(z[:, 0]), 0])
    center, spread = z[known, 1].mean(), z[known, 1].std()
    a = np.column_stack([table.x[known], y1[known]])
    b = np.column_stack([x, earlier])
    inverse = np.linalg.inv(k(a, a) + noise * np.eye(known.sum()))
    mean = k(b, a) @ inverse @ ((z[known, 1] - center) / spread)
    variance = np.diag(k(b, b) - k(b, a) @ inverse @ k(a, b)) + noise
    return center + spread * mean, spread**2 * variance, y1


def test_gpar_with_two_outputs_is_a_process_on_the_first_output():
    rng = np.random.default_rng(1)
    table, _ = curves(rng, n=9, c=2)
    found = GPAR(samples=4000).fit(table, rng=rng)
    posterior = found.posterior
    law = posterior.marginal()
    _, _, y1 = by_hand_gpar(posterior.fitted[1], table, table.x, np.zeros(9))
    half = np.isfinite(table.values[:, 0]) & ~np.isfinite(table.values[:, 1])
    assert half.any()
    mean, variance, _ = by_hand_gpar(posterior.fitted[1], table, table.x[half], y1[half])
    np.testing.assert_allclose(law.mean[0, half], mean, rtol=1e-7)
    np.testing.assert_allclose(law.variance[0, half], variance, rtol=1e-6)
    assert np.ptp(law.mean[:, half], axis=0).max() == 0.0  # the first output is known: all samples agree

    # A network not yet started: by hand, the law of the first output integrated by quadrature.
    none = int(np.flatnonzero(~np.isfinite(table.values[:, 0]))[0])
    first = posterior.marginal(0)
    units = found.state["units"]
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    earlier = (first.mean[0, none] + math.sqrt(first.variance[0, none]) * nodes - units[0, 0]) / units[0, 1]
    mean, variance, _ = by_hand_gpar(posterior.fitted[1], table, np.repeat(table.x[[none]], 40, axis=0), earlier)
    total = float(weights @ mean), float(weights @ (variance + mean**2) - (weights @ mean) ** 2)
    found_mean, found_variance = (part[none] for part in law.moments())
    assert abs(found_mean - total[0]) < 4.0 * math.sqrt(total[1] / 4000)
    assert found_variance == pytest.approx(total[1], rel=4.0 * math.sqrt(2.0 / 4000))


def test_joint_samples_of_gpar_have_its_marginal_law():
    rng = np.random.default_rng(2)
    table, _ = curves(rng, n=8, c=3)
    posterior = GPAR(samples=2000).fit(table, rng=rng).posterior
    mean, variance = posterior.marginal().moments()
    draws = posterior.sample(2000, rng=rng)
    free = variance > 1e-12
    assert (np.abs(draws.mean(axis=0) - mean)[free] < 5.0 * np.sqrt(2.0 * variance[free] / 2000)).all()
    np.testing.assert_allclose(draws.var(axis=0)[free], variance[free], rtol=6.0 * math.sqrt(2.0 * 2.0 / 2000))


def test_gpar_hyperparameters_tied_or_not_joint_or_not():
    rng = np.random.default_rng(5)
    table, _ = curves(rng, n=12, c=3)

    def lengths(model):
        outputs = model.fit(table, rng=rng).posterior.fitted
        return [one.components[0].theta[:2] for one in outputs]

    tied = lengths(GPAR())
    for one in tied[1:]:
        np.testing.assert_array_equal(one, tied[0])
    alone = lengths(GPAR(tied=False, joint=False))
    assert np.abs(alone[1] - alone[0]).max() > 1e-3
    for one, other in zip(alone, lengths(GPAR(tied=False, joint=True)), strict=True):
        np.testing.assert_array_equal(one, other)  # the evidence is a sum
    held = lengths(GPAR(tied=True, joint=False))
    np.testing.assert_allclose(held[0], alone[0], rtol=1e-6)  # the first output's own
    np.testing.assert_array_equal(held[2], held[0])


def test_a_tied_prior_counts_once():
    rng = np.random.default_rng(5)
    table, _ = curves(rng, n=12, c=3)
    posterior = GPAR().fit(table, rng=rng).posterior
    theta = posterior.fitted

    def total(shift):
        """Energy by hand at hyperparameters whose tied lengthscales are shifted."""
        value = 0.0
        for j, (out, one) in enumerate(zip(posterior.outputs, theta, strict=True)):
            here = one.components[0].theta.copy()
            here[:2] += shift
            value += negative_evidence(out.model, out.table, here, None)
            if j == 0:
                value += out.model.priors.energy(here[None])[0][0]
        return value

    gains = [total(shift) - total(0.0) for shift in (-0.05, 0.05)]
    assert min(gains) > -1e-3  # a mode: neither direction is better, up to the tolerance of the search


@pytest.mark.parametrize("markov", [1, 2, None])
@pytest.mark.parametrize("outputs", [(), ("linear",), ("eq", "linear")])
def test_gpar_sees_as_many_outputs_as_it_is_told(markov, outputs):
    model = GPAR(markov=markov, outputs=outputs)
    wanted = [] if not outputs else list(range(3))[-(markov or 3) :]
    assert model.earlier(3) == wanted


MODELS = [
    LatentKronecker(),
    FreezeThaw(),
    GPAR(),
    GPAR(stages=(0.25,), inputs=("eq", "linear"), outputs=("eq",)),
    PowerLawEnsemble(members=4, width=8),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
class TestEveryModel:
    def test_foretells_better_than_the_values_alone(self, model):
        """On average over tables: the law of the ends given the starts against the law of all ends."""
        gains = []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            table, values = curves(rng, n=24)
            posterior = model.fit(table, rng=rng).posterior
            found = posterior.log_density(values[:, -1])
            free = ~np.isfinite(table.values[:, -1])
            assert np.isfinite(found[free]).all()
            assert np.isnan(found[~free]).all()
            gains.append((found - norm(values[:, -1].mean(), values[:, -1].std()).logpdf(values[:, -1]))[free].mean())
        assert np.mean(gains) > 0.2

    def test_is_a_function_of_data_and_generator_and_keeps_what_it_is_told(self, model, table):
        one, two = (model.fit(table, rng=np.random.default_rng(1)) for _ in range(2))
        for name in one.state:
            np.testing.assert_array_equal(one.state[name], two.state[name])
        kept = model.fit(table, rng=np.random.default_rng(1), previous=one.state, keep=True)
        np.testing.assert_allclose(kept.posterior.marginal().mean, one.posterior.marginal().mean, rtol=1e-9)

    def test_lives_with_one_value(self, model):
        values = np.full((3, 5), np.nan)
        values[0, 0] = 2.0
        table = Curves.of(np.random.default_rng(0).random((3, 2)), np.array([50, 100, 200, 400, 800]), values)
        posterior = model.fit(table, rng=np.random.default_rng(0)).posterior
        mean, stddev = moments_of(posterior)
        assert np.isfinite(mean).all()
        assert (stddev > 0.0).all()
        assert np.isfinite(posterior.sample(3, rng=np.random.default_rng(0))).all()

    def test_lives_with_constant_and_with_wild_values(self, model, table):
        for values in (np.full((6, 5), 3.0), np.geomspace(1e-3, 1e6, 30).reshape(6, 5)):
            seen = np.where(np.arange(5) < np.array([5, 4, 3, 2, 1, 0])[:, None], values, np.nan)
            posterior = model.fit(Curves.of(table.x[:6], table.steps, seen), rng=np.random.default_rng(0)).posterior
            assert np.isfinite(posterior.marginal().mean).all()

    def test_known_ends_are_known(self, model, table):
        posterior = model.fit(table, rng=np.random.default_rng(0)).posterior
        mean, stddev = moments_of(posterior)
        known = np.isfinite(table.values[:, -1])
        np.testing.assert_allclose(mean[known], table.values[known, -1], rtol=1e-9)
        assert (stddev[known] < 1e-9).all()


def test_gpar_before_anything_it_looks_at_knows_nothing():
    """Values only at steps it does not look at: the law of the first stage is the prior's, not what lay in memory."""
    values = np.full((3, 5), np.nan)
    values[0, 0] = 2.0
    table = Curves.of(np.random.default_rng(0).random((3, 2)), np.array([50, 100, 200, 400, 800]), values)
    posterior = GPAR(stages=(0.25,)).fit(table, rng=np.random.default_rng(0)).posterior
    law = posterior.marginal(2)
    np.testing.assert_array_equal(law.mean, np.zeros((50, 3)))
    np.testing.assert_array_equal(law.variance, np.ones((50, 3)))


def test_gpar_says_which_steps_it_knows(table):
    posterior = GPAR(stages=(0.25,)).fit(table, rng=np.random.default_rng(0)).posterior
    with pytest.raises(ValueError, match="looks at steps"):
        posterior.marginal(0)


def test_moments_in_own_units_are_those_of_many_draws(table):
    posterior = KroneckerModel().fit(table, rng=np.random.default_rng(0)).posterior
    law = posterior.marginal()
    row = int(np.flatnonzero(law.variance[0] > 0)[0])
    normal = np.random.default_rng(0).standard_normal(100_000)
    draws = posterior.squash.inverse(law.mean[0, row] + math.sqrt(law.variance[0, row]) * normal)
    mean, stddev = moments_of(posterior)
    assert mean[row] == pytest.approx(draws.mean(), abs=0.05 * draws.std())  # 33 quantiles miss the outermost tails
    assert stddev[row] == pytest.approx(draws.std(), rel=0.1)
