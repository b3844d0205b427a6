"""The networks and their training, against closed forms, quadrature and unpadded networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from presage.networks import datasets
from presage.networks.ensemble import EnsembleDesign, Sparse, included_members, member_functions
from presage.networks.functions import VALUE_AND_SLOPE, Functions
from presage.networks.mlp import Shape, groups, masks, normal
from presage.networks.pruning import active_units, pruned
from presage.networks.regions import Regions
from presage.networks.training import Cohort, Table, Training, describe
from presage.networks.variational import Variational, best_variance, negative_log_inverse_gamma, posterior

ROWS = 24


def table() -> Table:
    x = np.random.default_rng(0).normal(size=(ROWS, 2))
    return Table(x, np.sin(x[:, 0]) + 0.1 * x[:, 1])


def cohort(architectures, family=None, most=0, seeds=None, **options) -> Cohort:
    family = family or Variational(samples=2)
    rows = [np.arange(ROWS - 4)] * len(architectures)
    networks = describe(family, architectures, table(), rows, seeds=seeds or range(len(rows)), most=most)
    return Cohort.new(family, Training(chunk=5, **options), networks, table())


def test_draws_do_not_depend_on_padding():
    key = jax.random.key(3)
    small = normal(key, 3, 4, [2, 5], [1, 0])
    large = normal(key, 3, 7, [6, 2, 5], [1, 2, 0])
    assert np.array_equal(small[0], large[0][:, :4, :2])
    assert np.array_equal(small[1], large[2][:, :4])


def test_draws_are_normal_and_independent():
    count = 200 * 50 * 8
    draws = np.asarray(normal(jax.random.key(0), 200, 50, [4, 4], [1, 0])).reshape(2, 200, -1)
    z = draws.ravel()
    # Five standard errors of the first four moments of a normal law: variances 1, 2, 15, 96.
    for power, (moment, variance) in enumerate([(0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0)], start=1):
        assert abs((z**power).mean() - moment) < 5.0 * np.sqrt(variance / count)
    assert stats.kstest(z, "norm").statistic < 2.0 / np.sqrt(count)
    for one, other in ((draws[0], draws[1]), (draws[:, :100], draws[:, 100:]), (draws[..., ::2], draws[..., 1::2])):
        product = (one * other).ravel()
        assert abs(product.mean()) < 5.0 / np.sqrt(len(product))


def test_kl_is_that_of_gaussians():
    family = Variational(hyperprior=None)
    shape, widths = Shape(2, 2, 4, 1), jnp.array([3, 0])
    params = jax.jit(family.init, static_argnums=3)(jax.random.key(0), widths, {"initial_noise": 0.1}, shape)
    expected = 0.0
    s = 0.7
    for layer, inputs, outputs in ((params.layers[0], 2, 3), (params.layers[2], 3, 1)):
        for mean, log_stddev in ((layer.weight[:inputs, :outputs], layer.log_weight_stddev[:inputs, :outputs]),
                                 (layer.bias[:outputs], layer.log_bias_stddev[:outputs])):  # fmt: skip
            for m, sigma in zip(np.ravel(mean), np.exp(np.ravel(log_stddev)), strict=True):
                grid = np.linspace(m - 10 * sigma, m + 10 * sigma, 2001)
                q = stats.norm.logpdf(grid, m, sigma)
                expected += np.trapezoid(np.exp(q) * (q - stats.norm.logpdf(grid, 0.0, np.sqrt(s))), grid)
    found = family.kl(params, masks(widths, shape), {"prior_variance": s})
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_hyperprior_is_inverse_gamma_and_its_update_the_minimum():
    alpha, beta, square, count = 4.4798, 5.4798, 3.7, 12

    def energy(s: float) -> float:  # KL up to what does not depend on s, minus log p(s)
        return 0.5 * (count * np.log(s) + square / s) - stats.invgamma.logpdf(s, alpha, scale=beta)

    best = minimize_scalar(energy, bounds=(1e-3, 10.0), method="bounded", options={"xatol": 1e-10}).x
    assert best_variance(square, count, alpha, beta) == pytest.approx(best, rel=1e-6)
    given = float(negative_log_inverse_gamma(jnp.float32(0.4), alpha, beta))
    assert given == pytest.approx(-stats.invgamma.logpdf(0.4, alpha, scale=beta), rel=1e-5)


def test_noise_with_tails_is_a_student_law_of_the_variance_told():
    family = Variational(tails=True)
    params = family.init(jax.random.key(0), jnp.array([3]), {"initial_noise": 0.2}, Shape(2, 1, 3, 1))
    y = np.array([-3.0, -0.4, 0.0, 0.1, 8.0])
    freedom = 2.0 + np.exp(float(params.log_tail))
    scale = np.sqrt(0.2 * (freedom - 2.0) / freedom)
    assert stats.t.var(freedom, scale=scale) == pytest.approx(0.2)
    found = family.log_likelihood(params, jnp.full((1, 5, 1), 0.3), jnp.asarray(y, jnp.float32))[0]
    np.testing.assert_allclose(found, stats.t.logpdf(y, freedom, 0.3, scale), rtol=1e-5)


@pytest.mark.parametrize("heteroskedastic", [False, True])
def test_both_reparametrisations_have_the_same_elbo_in_expectation(heteroskedastic):
    shape, widths = Shape(2, 1, 3, 1 + heteroskedastic), jnp.array([3])
    data, count = table(), 20_000
    x, y = jnp.asarray(data.x[:3], jnp.float32), jnp.asarray(data.y[:3], jnp.float32)
    likelihoods = []
    for local in (False, True):
        family = Variational("tanh", heteroskedastic, local=local, initial_stddev=0.8)
        params = family.init(jax.random.key(0), widths, {"initial_noise": jnp.float32(0.3)}, shape)

        def likelihood(params, family=family):
            out = family.forward(params, masks(widths, shape), x, jax.random.key(1), count)
            return family.log_likelihood(params, out, y).sum(axis=1)

        likelihoods.append(np.asarray(jax.jit(likelihood)(params), dtype=float))
    error = np.hypot(*(each.std() / np.sqrt(count) for each in likelihoods))
    assert abs(likelihoods[0].mean() - likelihoods[1].mean()) < 4.0 * error


@pytest.mark.slow
def test_padded_networks_are_the_unpadded_ones():
    together = cohort([(3,), (6, 4), (17,)], most=ROWS + 7).advance(10)
    assert together.shape == (2, 2, 24, 1)
    for which, widths in ((0, (3,)), (1, (6, 4))):
        alone = cohort([widths], seeds=[which]).advance(10)
        assert float(together.state.loss[which]) == pytest.approx(float(alone.state.loss[0]), rel=1e-4)
        one, other = posterior(together, which), posterior(alone, 0)
        for a, b in zip(one.layers, other.layers, strict=True):
            # Adam divides by the size of the gradient: rounding of 1e-7 may move a step of 1e-3 by 1e-3 of it.
            np.testing.assert_allclose(a.mean, b.mean, atol=1e-5)
            np.testing.assert_allclose(a.variance, b.variance, rtol=1e-4)
        # From the same parameters, predictions differ by the rounding of sums only.
        rows = np.arange(ROWS)
        said = [
            each.foretell(rows[None].repeat(len(each.networks.sizes), axis=0), 4)[1][at]
            for each, at in ((cohort([(3,), (6, 4), (17,)]), which), (cohort([widths], seeds=[which]), 0))
        ]
        np.testing.assert_allclose(*said, atol=1e-5)


def test_padded_sparse_networks_are_the_unpadded_ones():
    together = cohort([(3,), (9, 4)], Sparse("tanh"), most=ROWS + 7).advance(10)
    alone = cohort([(3,)], Sparse("tanh"), seeds=[0]).advance(10)
    values = [member_functions(each, [0]).values(table().x) for each in (together, alone)]
    np.testing.assert_allclose(*values, atol=1e-5)


def test_interrupted_training_is_the_same_bit_for_bit(tmp_path):
    whole, parts = (
        cohort([(3,), (6, 4)], batch=8).advance(12),
        cohort([(3,), (6, 4)], batch=8).advance(np.array([3, 7])),
    )
    assert parts.state.step.tolist() == [3, 7]
    parts.save(tmp_path / "networks.npz")
    again = Cohort.load(tmp_path / "networks.npz", parts.family, parts.training, table()).advance(12)
    for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(again.state), strict=True):
        assert np.array_equal(a, b)
    with pytest.raises(ValueError, match="holds networks of"):
        Cohort.load(tmp_path / "networks.npz", Variational(samples=3), parts.training, table())


@pytest.mark.slow
def test_early_stopping_keeps_the_best():
    made = cohort([(3,), (6, 4)], rate=0.3)
    fresh = [np.arange(ROWS - 4, ROWS)] * 2
    made.advance_while_better(200, fresh, every=5, patience=2, samples=10)
    best = made.evaluate(fresh, samples=10)[0]
    steps = np.asarray(made.state.step)
    assert (steps < 200).all()
    made.state = made.state._replace(stopped=jnp.zeros(2, bool))
    assert (made.advance(steps + 5).evaluate(fresh, samples=10)[0] <= best).all()


@pytest.mark.slow
def test_pruning_keeps_active_units_and_what_they_say():
    made = cohort([(3,), (6, 4)])
    made.advance(5)
    unravelled = active_units(made, first=0.0, others=0.0)
    assert unravelled.tolist() == [[3, 0], [6, 4]]  # a KL is positive
    same = pruned(made, first=0.0, others=0.0)
    rows = np.arange(ROWS)[None].repeat(2, axis=0)
    np.testing.assert_allclose(same.foretell(rows, 10)[1], made.foretell(rows, 10)[1], atol=1e-5)
    small = pruned(made, first=1e9, others=1e9)
    assert np.asarray(small.networks.widths).tolist() == [[1, 0], [1, 1]]


def test_functions_are_the_network():
    family = Sparse("tanh")
    made = cohort([(3, 5)], family)
    values = member_functions(made).values(table().x)[0, :, 0]
    networks = made.networks
    unravel_inputs = (table().x - np.asarray(networks.x_center)) / np.asarray(networks.x_scale)
    from presage.networks.programs import unraveller

    params = unraveller(family, made.shape)(made.state.params[0])
    out = family.forward(params, masks(networks.widths[0], made.shape), jnp.asarray(unravel_inputs, jnp.float32))
    expected = np.asarray(out[:, 0]) * float(networks.y_scale[0]) + float(networks.y_center[0])
    np.testing.assert_allclose(values, expected, atol=1e-5)


@pytest.mark.parametrize("activation", VALUE_AND_SLOPE)
def test_functions_have_their_gradients(activation):
    rng = np.random.default_rng(0)
    functions = Functions(
        (rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4, 5)), rng.normal(size=(2, 5, 2))),
        (rng.normal(size=(2, 4)), rng.normal(size=(2, 5)), rng.normal(size=(2, 2))), activation,
    )  # fmt: skip
    x, h = rng.normal(size=(6, 3)), 1e-6
    value, gradient = functions.values_and_gradients(x)
    np.testing.assert_allclose(value, functions.values(x)[..., 0])
    for j in range(3):
        step = h * np.eye(3)[j]
        slope = (functions.values(x + step) - functions.values(x - step))[..., 0] / (2.0 * h)
        np.testing.assert_allclose(gradient[..., j], slope, atol=1e-7)


def test_networks_that_cost_alike_are_grouped():
    widths = (1, 2, 3, 50, 60)
    assert groups([(w,) for w in widths], programs=1) == [[0, 1, 2, 3, 4]]
    assert groups([(w,) for w in widths], programs=2) == [[0, 1, 2], [3, 4]]


def test_a_cut_is_found_at_a_jump_and_not_at_a_slope():
    x = np.linspace(-1.0, 1.0, 200)[:, None]
    y = 5.0 * x + 3.0 * (x > 0.3)
    found = Regions.piecewise(x, y, 2)
    assert found.threshold[0] == pytest.approx(0.3, abs=2.0 / 32)  # 32 thresholds are tried
    assert Regions.piecewise(x[:5], y[:5], 3).count == 1  # too few points


def test_members_that_hardly_vary_are_left_out():
    y = np.linspace(-1.0, 1.0, 9)[:, None]
    out = np.stack([0.01 * y, y, 0.5 * y])
    assert included_members(out, y, least=0.1).tolist() == [False, True, True]
    assert included_members(out[:1], y, least=0.1).tolist() == [True]


def test_sparse_networks_keep_their_share_of_weights():
    family, shape = Sparse(), Shape(50, 1, 100, 1)
    (first, last) = family.init(jax.random.key(0), jnp.array([100]), {"keep": 0.3}, shape)
    kept = np.concatenate([np.ravel(a) for a in (first.weight_kept, first.bias_kept, last.weight_kept)])
    assert abs(kept.mean() - 0.3) < 4.0 * np.sqrt(0.3 * 0.7 / len(kept))


def test_an_ensemble_stops_by_its_rule_and_learns():
    data = table()
    design = EnsembleDesign(width=16, members=4, steps=3000, training=Training(rate=1e-2, tolerance=1e-4, chunk=50))
    fitted = design.fit(data.x, data.y, seed=0)
    assert (fitted.steps < 3000).all()
    mean, variance = fitted.predict(data.x)
    assert np.mean((mean - data.y) ** 2) < 0.1 * data.y.var()
    assert (variance > 0.0).all()


def write(folder, name, data):
    home = folder / name
    home.mkdir()
    np.savetxt(home / "data.txt", data)
    np.savetxt(home / "index_features.txt", np.arange(data.shape[1] - 1))
    np.savetxt(home / "index_target.txt", [data.shape[1] - 1])
    for i, (train, test) in enumerate(datasets.standard_splits(len(data), 2)):
        np.savetxt(home / f"index_train_{i}.txt", train)
        np.savetxt(home / f"index_test_{i}.txt", test)


def test_a_data_set_is_read_with_its_splits(tmp_path):
    data = np.random.default_rng(0).normal(size=(20, 4))
    write(tmp_path, "yacht", data)
    found = datasets.load("yacht", tmp_path)
    np.testing.assert_allclose(found.x, data[:, :3])
    np.testing.assert_allclose(found.y, data[:, 3])
    for train, test in found.splits:
        assert sorted([*train, *test]) == list(range(20))
        assert len(test) == 2


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(datasets.DataSetNotFound, match=r"yacht/data\.txt"):
        datasets.load("yacht", tmp_path)
    with pytest.raises(datasets.DataSetNotFound, match="there are boston"):
        datasets.load("iris", tmp_path)


def test_openml_out_of_reach_is_said(monkeypatch):
    def refuse(**_):
        raise ConnectionError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)
    with pytest.raises(datasets.DataSetNotFound, match="name a folder"):
        datasets.load("yacht")
    with pytest.raises(datasets.DataSetNotFound, match="no number of power_plant"):
        datasets.load("power_plant")


def test_what_openml_gives_must_be_the_set(monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: (np.zeros((308, 6)), np.arange(308.0)))
    found = datasets.load("yacht")
    assert len(found.splits) == 20
    assert [len(rows) for rows in found.splits[0]] == [277, 31]
    with pytest.raises(datasets.DataSetNotFound, match=r"is \(308, 6\), but energy is"):
        datasets.load("energy")
