"""The growing inverse factor, and when hyperparameters are found anew."""

import math
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from presage.kernels import Axes, Matern, Trend, White
from presage.observations import Column, Observations
from presage.surrogates import BestOf, GaussianProcess, StudentTProcess, automatic, factor
from presage.testing.surrogates import observe

COLUMNS = (Column("continuous"),) * 3
AXES = Axes(COLUMNS)
KERNEL = Matern() + Trend() + White()
THETA = np.zeros(KERNEL.size(AXES)) - 0.5


def case(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return AXES.features(rng.random((n, 3))), 0.01 + 0.1 * rng.random(n)


def inverse(at: np.ndarray, noise: np.ndarray, start: int) -> np.ndarray:
    return factor.inverse_factor(KERNEL, AXES, THETA, at, noise, start)


def seen(x: np.ndarray, y: np.ndarray) -> Observations:
    return observe(x, y, (Column("continuous"),) * x.shape[1])


@pytest.fixture(autouse=True)
def forgotten():
    factor._factors.clear()


@pytest.mark.parametrize("start", [0, 1, 20, 40])
def test_it_is_the_inverse_of_the_covariance(start):
    at, noise = case(40)
    R = inverse(at, noise, start)
    K = KERNEL.evaluate(THETA, at, at, AXES).value + np.diag(noise)
    assert np.abs(np.triu(R, 1)).max() == 0.0
    # The jitter is 1e-10 of a variance of a few; the smallest eigenvalue is at least the noise of 0.01.
    assert np.abs(R @ K @ R.T - np.eye(40)).max() < 1e-7


def test_going_on_is_beginning_anew_to_the_bit():
    at, noise = case(40)
    live = [inverse(at[:n], noise[:n], 20) for n in range(20, 41)]
    for n, known in zip(range(20, 41), live, strict=True):
        factor._factors.clear()
        assert np.array_equal(inverse(at[:n], noise[:n], 20), known)


def test_rows_that_changed_are_not_gone_on_with():
    """A value that arrives late comes between earlier rows; a row may change its noise."""
    at, noise = case(40)
    for where in (5, 30):
        factor._factors.clear()
        inverse(np.delete(at, where, 0), np.delete(noise, where), 20)
        late = inverse(at, noise, 20)
        louder = np.where(np.arange(40) == where, 1.0, noise)
        other = inverse(at, louder, 20)
        factor._factors.clear()
        assert np.array_equal(late, inverse(at, noise, 20))
        factor._factors.clear()
        assert np.array_equal(other, inverse(at, louder, 20))


def test_no_more_is_remembered_than_allowed(monkeypatch):
    at, noise = case(40)
    monkeypatch.setattr(factor, "REMEMBERED", 3 * 40 * 40 * 8)
    for start in range(10):
        inverse(at, noise, start)
    assert len(factor._factors) == 3


def test_an_added_row_costs_a_square_of_their_number(monkeypatch):
    """Covariances with the earlier rows and a factor of itself alone; products of [n, n] with [n, 1] are left."""
    covariances, factored = [], []
    evaluate, cholesky = KERNEL.evaluate, factor.cholesky

    def counted_evaluate(theta, a, b, axes):
        covariances.append(len(a) * len(b))
        return evaluate(theta, a, b, axes)

    def counted_cholesky(K, level):
        factored.append(len(K))
        return cholesky(K, level)

    counted = Mock(evaluate=counted_evaluate)
    monkeypatch.setattr(factor, "cholesky", counted_cholesky)
    at, noise = case(208)
    for n in range(200, 208):
        factor.inverse_factor(counted, AXES, THETA, at[:n], noise[:n], 200)
    assert factored == [200] + [1] * 7
    assert covariances == [200 * 200] + [c for n in range(200, 207) for c in (n, 1)]


@pytest.mark.parametrize("surrogate", [GaussianProcess(), StudentTProcess(), automatic()], ids=["gp", "t", "auto"])
def test_hyperparameters_are_found_anew_when_the_evidence_says_so(surrogate):
    rng = np.random.default_rng(3)
    x = rng.random((66, 2))
    wave = np.sin(5 * x[:, 0]) + np.cos(4 * x[:, 1]) + 0.05 * rng.standard_normal(66)
    first = surrogate.fit(seen(x[:60], wave[:60]), rng=rng)
    kept = {**first.state, "rows": np.array(60)}
    as_told = [surrogate.due(seen(x[:n], wave[:n]), kept, 60) for n in range(60, 66)]
    assert as_told[0] is False
    assert sum(as_told) <= 1, "values as foretold; each may be called a surprise in a twentieth of all cases"
    other = np.append(wave[:60], wave[60:62] + 3.0)
    assert surrogate.due(seen(x[:62], other), kept, 60), "values that nothing foretold"
    assert surrogate.due(seen(x, wave), kept, 60), "a tenth is new"
    assert surrogate.due(seen(x[:61], wave[:61]), {}, 0)


def test_values_that_were_foretold_too_vaguely_can_wait():
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 2)), rng.standard_normal(60)
    state = GaussianProcess(warp=None).fit(seen(x, y), rng=rng).state
    posterior = GaussianProcess(warp=None).fit(seen(x, y), rng=rng, previous=state, keep=True).posterior
    more = rng.random((5, 2))
    calm = np.append(y, posterior.predict(more)[0] * posterior.table.scale + posterior.table.center)
    assert not GaussianProcess(warp=None).due(seen(np.vstack([x, more]), calm), state, 60)


def test_surprises_are_standard_normal_under_the_model():
    rng = np.random.default_rng(1)
    surrogate = GaussianProcess(warp=None)
    squares = []
    for _ in range(200):
        x = rng.random((14, 1))
        model = surrogate.model((Column("continuous"),))
        theta = model.priors.center
        at = model.axes.features(x)
        K = model.kernel.evaluate(theta[: model.noise_at], at, at, model.axes).value
        K[np.diag_indices(14)] += math.exp(theta[model.noise_at]) + 1e-10
        y = np.linalg.cholesky(K) @ rng.standard_normal(14) + theta[model.mean_at][0]
        data = replace(seen(x, y), y=y, center=0.0, scale=1.0)
        state = {"theta": theta[None], "rows": np.array(10)}
        posterior = surrogate.fit(data, rng=rng, previous=state, keep=True).posterior
        squares.append(np.square(posterior.surprise(10)).sum())
    # Chi-square with 4 degrees of freedom: mean 4, variance 8.
    assert abs(np.mean(squares) - 4.0) < 4.0 * math.sqrt(8.0 / 200)


def test_a_choice_without_memory_is_due():
    assert BestOf((GaussianProcess(),)).due(seen(np.zeros((2, 1)), np.arange(2.0)), {}, 2)
