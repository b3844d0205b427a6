"""The batched descent against SciPy's L-BFGS-B and against minima known in closed form."""

import numpy as np
import pytest
from scipy import optimize

from presage import lbfgs

pytestmark = pytest.mark.usefixtures("one_thread")


def quadratics(count, size, seed=0, condition=100.0):
    """Convex quadratics (x - c)' A (x - c) / 2, one per row, whose free minima lie in and around the unit cube."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((count, size, size)))[0]
    A = rotation * np.geomspace(1, condition, size) @ rotation.transpose(0, 2, 1)
    c = rng.uniform(-0.5, 1.5, (count, size))

    def function(x):
        slope = np.einsum("sij,sj->si", A, x - c)
        return 0.5 * np.einsum("si,si->s", x - c, slope), slope

    return function, A, c


def rosenbrock(x):
    a, b = x[:, :-1], x[:, 1:]
    gradient = np.zeros_like(x)
    gradient[:, :-1] = -400 * a * (b - a**2) - 2 * (1 - a)
    gradient[:, 1:] += 200 * (b - a**2)
    return (100 * (b - a**2) ** 2 + (1 - a) ** 2).sum(axis=1), gradient


def test_quadratics_end_where_scipy_ends():
    function, A, c = quadratics(12, 5)
    start = np.full((12, 5), 0.5)
    found = lbfgs.minimize(function, start, 0.0, 1.0, evaluations=500, gradient_tol=1e-8, value_tol=0.0)
    for i in range(12):
        peer = optimize.lsq_linear(np.linalg.cholesky(A[i]).T, np.linalg.cholesky(A[i]).T @ c[i], (0, 1), tol=1e-14)
        # A projected gradient of 1e-8 leaves the point 1e-8 / (least eigenvalue 1) away; the peer is good to 1e-7.
        assert np.abs(found.x[i] - peer.x).max() < 1e-5
        assert found.value[i] <= peer.cost + 1e-9
    assert np.array_equal(function(found.x)[0], found.value)


def test_without_bounds_in_the_way_the_minimum_is_the_centre():
    function, _, c = quadratics(6, 8, condition=1e4)
    found = lbfgs.minimize(
        function, np.zeros((6, 8)), -np.inf, np.inf, evaluations=500, gradient_tol=1e-6, value_tol=0.0
    )
    assert np.abs(found.x - c).max() < 1e-6


@pytest.mark.parametrize("size", [2, 6])
def test_rosenbrock_is_as_easy_as_for_scipy(size):
    start = np.random.default_rng(0).uniform(-1, 1, (5, size))
    options = {"evaluations": 500, "gradient_tol": 1e-6, "value_tol": 0.0}
    found = lbfgs.minimize(rosenbrock, start, -2.0, 2.0, **options)
    # A local minimum near (-1, 1, ...) exists from four dimensions on; both methods must agree on reaching one.
    _, gradient = rosenbrock(found.x)
    assert np.abs(found.x - np.clip(found.x - gradient, -2, 2)).max() < 1e-5
    peers = [
        optimize.minimize(lambda x: tuple(v[0] for v in rosenbrock(x[None])), s, jac=True, method="L-BFGS-B")
        for s in start
    ]
    assert found.evaluations < 3 * max(peer.nfev for peer in peers)


def test_each_row_is_its_own_problem():
    function, A, c = quadratics(6, 4)
    start = np.random.default_rng(1).random((6, 4))
    together = lbfgs.minimize(function, start, 0.0, 1.0)
    for i in range(6):

        def alone(x, i=i):
            slope = (x - c[i]) @ A[i]
            return 0.5 * np.einsum("si,si->s", x - c[i], slope), slope

        assert np.abs(lbfgs.minimize(alone, start[i : i + 1], 0.0, 1.0).x[0] - together.x[i]).max() < 1e-6


def test_the_function_is_called_within_bounds_and_budget_only():
    calls = []

    def watched(x):
        calls.append(x.copy())
        return rosenbrock(x)

    lower, upper = np.array([[-1.0, 0.25]]), np.array([[0.5, 0.25]])  # the second coordinate is held
    for budget in (1, 2, 7, 40):
        calls.clear()
        start = np.array([[-1.0, 0.0], [0.3, 9.0], [5.0, 0.25]])
        found = lbfgs.minimize(watched, start, lower, upper, evaluations=budget)
        assert len(calls) == found.evaluations <= budget
        assert all(((lower <= x) & (x <= upper)).all() for x in calls)
        assert (found.value <= rosenbrock(np.clip(start, lower, upper))[0]).all()
    # In the box the function is 100 (1/4 - a^2)^2 + (1 - a)^2, least at its edge a = 1/2, or near a = -1/2.
    assert np.abs(found.x[1:, 0] - 0.5).max() < 1e-6


def test_what_is_not_finite_is_a_wall():
    def function(x):
        value, gradient = np.square(x - 0.9).sum(axis=1), 2 * (x - 0.9)
        beyond = x[:, 0] > 0.6
        return np.where(beyond, np.nan, value), np.where(beyond[:, None], np.inf, gradient)

    start = np.array([[0.1, 0.1], [0.55, 0.5], [0.8, 0.5]])
    found = lbfgs.minimize(function, start, 0.0, 1.0)
    assert (found.x[:2, 0] <= 0.6).all()
    assert (found.value[:2] < function(start)[0][:2]).all()
    assert found.value[2] == np.inf  # began behind the wall and knows no way out
    assert np.array_equal(found.x[2], start[2])


def test_a_start_at_the_minimum_stays():
    function, _, c = quadratics(3, 2)
    inside = np.clip(c, 0.0, 1.0)
    found = lbfgs.minimize(function, c, -2.0, 2.0)
    assert np.array_equal(found.x, c)
    assert lbfgs.minimize(function, inside, inside, inside).evaluations <= 3
