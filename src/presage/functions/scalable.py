"""Classical test functions for any number of dimensions; each formula maps points [n, d] to values [n]."""

import math

import numpy as np

from presage.functions.function import Formula, Function, Point


def _rosenbrock(x: np.ndarray) -> np.ndarray:
    """A flat curved valley with steep sides.

    f(x) = sum_i 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2 on [-2.048, 2.048]^d. Rosenbrock, "An automatic method for
    finding the greatest or least value of a function", 1960; seed S1, section 5.2.

    Example:
        >>> rosenbrock({"x1": 1.0, "x2": 1.0}), rosenbrock.dim(3)({"x1": 0, "x2": 0, "x3": 0})
        (0.0, 2.0)
    """
    here, following = x[:, :-1], x[:, 1:]
    return np.sum(100 * (following - here**2) ** 2 + (1 - here) ** 2, axis=1)


rosenbrock = Function.of(Formula("rosenbrock", _rosenbrock, (-2.048,), (2.048,), ((1.0,),), 2, least_dim=2))


def _ackley(x: np.ndarray) -> np.ndarray:
    """A deep funnel in a rippled plain.

    f(x) = 20 + e - 20 exp(-0.2 sqrt(mean_i x_i^2)) - exp(mean_i cos(2 pi x_i)) on [-32.768, 32.768]^d. Ackley, "A
    Connectionist Machine for Genetic Hillclimbing", 1987.

    Example:
        >>> ackley({"x1": 0.0, "x2": 0.0})
        0.0
    """
    funnel = -20 * np.expm1(-0.2 * np.sqrt(np.mean(x**2, axis=1)))
    return funnel + (math.e - np.exp(np.mean(np.cos(2 * math.pi * x), axis=1)))


ackley = Function.of(Formula("ackley", _ackley, (-32.768,), (32.768,), ((0.0,),), 2, least_dim=1))


def _levy(x: np.ndarray) -> np.ndarray:
    """Many local minima in a wide bowl.

    f(x) = sin^2(pi w_1) + sum_{i<d} (w_i - 1)^2 (1 + 10 sin^2(pi w_i + 1)) + (w_d - 1)^2 (1 + sin^2(2 pi w_d)) with
    w = 1 + (x - 1)/4 on [-10, 10]^d. Levy and Montalvo, "The tunneling algorithm for the global minimization of
    functions", 1985.

    Example:
        >>> levy.dim(4).minimum
        0.0
    """
    v = (x - 1) / 4  # w - 1; sines of whole turns are dropped, so that the minimum is exactly zero
    body, last = v[:, :-1], v[:, -1]
    bowl = np.sum(body**2 * (1 + 10 * np.sin(math.pi * (body + 1) + 1) ** 2), axis=1)
    return np.sin(math.pi * v[:, 0]) ** 2 + bowl + last**2 * (1 + np.sin(2 * math.pi * last) ** 2)


levy = Function.of(Formula("levy", _levy, (-10.0,), (10.0,), ((1.0,),), 2, least_dim=1))


def _griewank(x: np.ndarray) -> np.ndarray:
    """A wide bowl with fine ripples, which flatten as the dimension grows.

    f(x) = sum_i x_i^2 / 4000 - prod_i cos(x_i / sqrt(i)) + 1 on [-600, 600]^d. Griewank, "Generalized descent for
    global optimization", 1981.

    Example:
        >>> griewank.dim(5).minimum
        0.0
    """
    index = np.arange(1, x.shape[1] + 1)
    return np.sum(x**2, axis=1) / 4000 - np.prod(np.cos(x / np.sqrt(index)), axis=1) + 1


griewank = Function.of(Formula("griewank", _griewank, (-600.0,), (600.0,), ((0.0,),), 2, least_dim=1))


def _styblinski_tang(x: np.ndarray) -> np.ndarray:
    """Two minima in every coordinate, 2^d in all.

    f(x) = 1/2 sum_i (x_i^4 - 16 x_i^2 + 5 x_i) on [-5, 5]^d. Styblinski and Tang, "Experiments in nonconvex
    optimization: stochastic approximation with function smoothing and simulated annealing", 1990.

    Example:
        >>> round(styblinski_tang.dim(1).minimum, 6)
        -39.166166
    """
    return 0.5 * np.sum(x**4 - 16 * x**2 + 5 * x, axis=1)


# The lowest root of the derivative 2 x^3 - 16 x + 5/2.
styblinski_tang = Function.of(
    Formula("styblinski_tang", _styblinski_tang, (-5.0,), (5.0,), ((-2.903534027771177,),), 2, least_dim=1)
)


def _michalewicz(x: np.ndarray) -> np.ndarray:
    """Narrow troughs, i of them in coordinate i, and plains between them.

    f(x) = -sum_i sin(x_i) sin(i x_i^2 / pi)^20 on [0, pi]^d. Michalewicz, "Genetic Algorithms + Data Structures =
    Evolution Programs", 1992, with m = 10.

    Example:
        >>> round(michalewicz.dim(10).minimum, 5)
        -9.66015
    """
    index = np.arange(1, x.shape[1] + 1)
    return -np.sum(np.sin(x) * np.sin(index * x**2 / math.pi) ** 20, axis=1)


def _michalewicz_minimizers(dim: int) -> tuple[Point, ...]:
    """The one minimiser: the sum is lowest where each of its terms is.

    Coordinate i has a trough about pi sqrt((k + 1/2)/i) for each k < i, where the inner sine is +-1; those nearest to
    pi/2, where the outer sine is largest, are polished by Newton's method on log sin(x) + 20 log |sin(i x^2 / pi)|.
    """
    point = []
    for i in range(1, dim + 1):
        troughs = math.pi * np.sqrt((np.arange(i) + 0.5) / i)
        x = troughs[np.argsort(np.abs(troughs - math.pi / 2))[:3]]
        for _ in range(30):
            angle, rate = i * x**2 / math.pi, 2 * i * x / math.pi
            slope = 1 / np.tan(x) + 20 * rate / np.tan(angle)
            curvature = -1 / np.sin(x) ** 2 + 20 * (rate / x / np.tan(angle) - (rate / np.sin(angle)) ** 2)
            x = x - slope / curvature
        term = np.sin(x) * np.sin(i * x**2 / math.pi) ** 20
        point.append(float(x[np.argmax(term)]))
    return (tuple(point),)


michalewicz = Function.of(
    Formula("michalewicz", _michalewicz, (0.0,), (math.pi,), _michalewicz_minimizers, 2, least_dim=1)
)
