"""Test functions that only the benchmarks use, so that nothing else in presage was ever tuned on them."""

import math

import numpy as np

from presage.functions import Formula, Function


def _goldstein_price(x: np.ndarray) -> np.ndarray:
    """Values over six orders of magnitude; a curved valley.

    With s = x1 + x2 and t = 2 x1 - 3 x2, f = (1 + (s + 1)^2 (19 - 14 s + 3 s^2)) (30 + t^2 (18 - 16 t + 3 t^2)) on
    [-2, 2]^2. The first factor is least, 1, at s = -1, the second, 3, at t = 3: the minimum is 3, on the whole plane.
    """
    s, t = x[:, 0] + x[:, 1], 2 * x[:, 0] - 3 * x[:, 1]
    return (1 + (s + 1) ** 2 * (19 - 14 * s + 3 * s**2)) * (30 + t**2 * (18 - 16 * t + 3 * t**2))


goldstein_price = Function.of(Formula("goldstein_price", _goldstein_price, (-2.0,), (2.0,), ((0.0, -1.0),), 2))


def _beale(x: np.ndarray) -> np.ndarray:
    """Flat plains and steep corners: three squares of (1.5, 2.25, 2.625) - x1 (1 - x2^k) on [-4.5, 4.5]^2."""
    a, b = x.T
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


beale = Function.of(Formula("beale", _beale, (-4.5,), (4.5,), ((3.0, 0.5),), 2))

PIT_CENTERS = np.array(
    [[4.0, 4, 4, 4], [1, 1, 1, 1], [8, 8, 8, 8], [6, 6, 6, 6], [3, 7, 3, 7], [2, 9, 2, 9], [5, 5, 3, 3]]
)
PIT_WIDTHS = np.array([0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3])


def _shekel(x: np.ndarray) -> np.ndarray:
    """Seven narrow pits: -sum_i 1 / (|x - c_i|^2 + b_i) on [0, 10]^4. Shekel, 1971; Dixon and Szego, 1978."""
    return -np.sum(1 / (np.sum((x[:, None, :] - PIT_CENTERS) ** 2, axis=2) + PIT_WIDTHS), axis=1)


LOWEST_PIT = (4.000572912785, 4.000689365754, 3.999489709161, 3.999606153848)  # by Newton's method from (4, 4, 4, 4)
shekel = Function.of(Formula("shekel", _shekel, (0.0,), (10.0,), (LOWEST_PIT,), 4))


def _rastrigin(x: np.ndarray) -> np.ndarray:
    """A bowl under ten waves per side: sum_i x_i^2 + 10 - 10 cos(2 pi x_i) on [-5.12, 5.12]^d."""
    return np.sum(x**2 + 10 - 10 * np.cos(2 * math.pi * x), axis=1)


rastrigin = Function.of(Formula("rastrigin", _rastrigin, (-5.12,), (5.12,), ((0.0,),), 2, least_dim=1))


def _dixon_price(x: np.ndarray) -> np.ndarray:
    """A bent valley through all coordinates: (x_1 - 1)^2 + sum_i i (2 x_i^2 - x_(i-1))^2 on [-10, 10]^d."""
    index = np.arange(2, x.shape[1] + 1)
    return (x[:, 0] - 1) ** 2 + np.sum(index * (2 * x[:, 1:] ** 2 - x[:, :-1]) ** 2, axis=1)


def _dixon_price_minimizers(dim: int) -> tuple[tuple[float, ...], ...]:
    point = [1.0]
    while len(point) < dim:
        point.append(math.sqrt(point[-1] / 2))
    return (tuple(point), (*point[:-1], -point[-1])) if dim > 1 else (tuple(point),)


dixon_price = Function.of(
    Formula("dixon_price", _dixon_price, (-10.0,), (10.0,), _dixon_price_minimizers, 2, least_dim=2)
)


def _cosine_mixture(x: np.ndarray) -> np.ndarray:
    """A bowl with shallow waves: sum_i x_i^2 - 0.1 cos(5 pi x_i) on [-1, 1]^d."""
    return np.sum(x**2 - 0.1 * np.cos(5 * math.pi * x), axis=1)


cosine_mixture = Function.of(Formula("cosine_mixture", _cosine_mixture, (-1.0,), (1.0,), ((0.0,),), 4, least_dim=1))


def _zakharov(x: np.ndarray) -> np.ndarray:
    """A bowl with one steep oblique direction: |x|^2 + s^2 + s^4, s = sum_i i x_i / 2, on [-5, 10]^d."""
    s = x @ (0.5 * np.arange(1, x.shape[1] + 1))
    return np.sum(x**2, axis=1) + s**2 + s**4


zakharov = Function.of(Formula("zakharov", _zakharov, (-5.0,), (10.0,), ((0.0,),), 2, least_dim=1))


def _powell(x: np.ndarray) -> np.ndarray:
    """Groups of four coordinates with a flat, singular minimum at 0, on [-4, 5]^d, d a multiple of 4. Powell, 1962."""
    a, b, c, d = (x[:, i::4] for i in range(4))
    return np.sum((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4, axis=1)


powell = Function.of(Formula("powell", _powell, (-4.0,), (5.0,), ((0.0,),), 4, least_dim=4))


def _three_hump_camel(x: np.ndarray) -> np.ndarray:
    """Three valleys: 2 x1^2 - 1.05 x1^4 + x1^6 / 6 + x1 x2 + x2^2 on [-5, 5]^2.

    For given x1 the least over x2 is 1.75 x1^2 - 1.05 x1^4 + x1^6 / 6, which is positive away from 0: its quadratic in
    x1^2 has the discriminant 1.05^2 - 4 * 1.75 / 6 < 0.
    """
    a, b = x.T
    return 2 * a**2 - 1.05 * a**4 + a**6 / 6 + a * b + b**2


three_hump_camel = Function.of(Formula("three_hump_camel", _three_hump_camel, (-5.0,), (5.0,), ((0.0, 0.0),), 2))

FORMULAS: tuple[Function, ...] = (
    goldstein_price,
    beale,
    shekel,
    rastrigin,
    dixon_price,
    cosine_mixture,
    zakharov,
    powell,
    three_hump_camel,
)
