"""Classical test functions that exist in one number of dimensions; each formula maps points [n, d] to values [n]."""

import math

import numpy as np

from presage.functions.function import Formula, Function


# One dimension.
def _forrester(x: np.ndarray) -> np.ndarray:
    """A narrow global minimum beside a shallow local one.

    f(x) = (6x - 2)^2 sin(12x - 4) on [0, 1]. Forrester, Sobester, Keane, "Engineering Design via Surrogate Modelling",
    2008; seed S1, eq. 5.11.

    Example:
        >>> round(forrester.minimum, 5)
        -6.02074
    """
    z = 6 * x[:, 0] - 2
    return z**2 * np.sin(2 * z)


# Its waves grow on both sides; beyond the reach they go below the minimum.
forrester = Function.of(
    Formula("forrester", _forrester, (0.0,), (1.0,), ((0.7572487578418471,),), 1, reach=((-0.23,), (1.13,)))
)


def _sinusoid(x: np.ndarray) -> np.ndarray:
    """Two waves on top of each other.

    f(x) = sin(7x) + cos(17x) on [-1, 1]. Seed S1, eq. 5.10.

    Example:
        >>> sinusoid({"x": 0.0})
        1.0
    """
    return np.sin(7 * x[:, 0]) + np.cos(17 * x[:, 0])


sinusoid = Function.of(Formula("sinusoid", _sinusoid, (-1.0,), (1.0,), ((-0.19050203258858742,),), 1))


# Two dimensions.
def _branin(x: np.ndarray) -> np.ndarray:
    """Three global minima in a curved valley, also known as Branin-Hoo.

    f(x) = (x2 - 5.1/(4 pi^2) x1^2 + 5/pi x1 - 6)^2 + 10 (1 - 1/(8 pi)) cos x1 + 10 on [-5, 10] x [0, 15].
    For every x1 some x2 makes the square vanish, so the minimum is 10/(8 pi), on the whole plane.
    Dixon and Szego, "Towards Global Optimisation 2", 1978.

    Example:
        >>> round(branin.minimum, 6), len(branin.minimizers)
        (0.397887, 3)
    """
    x1, x2 = x.T
    valley = x2 - 5.1 / (4 * math.pi**2) * x1**2 + 5 / math.pi * x1 - 6
    return valley**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x1) + 10


branin = Function.of(
    Formula(
        name="branin",
        values=_branin,
        low=(-5.0, 0.0),
        high=(10.0, 15.0),
        minimizers=((math.pi, 2.275), (-math.pi, 12.275), (3 * math.pi, 2.475)),
        default_dim=2,
    )
)


def _mccormick(x: np.ndarray) -> np.ndarray:
    """A smooth slanted valley.

    f(x) = sin(x1 + x2) + (x1 - x2)^2 - 1.5 x1 + 2.5 x2 + 1 on [-1.5, 4] x [-3, 4], with minimum -sqrt(3)/2 - pi/3.
    McCormick, "Computability of global solutions to factorable nonconvex programs", 1976; seed S1, section 5.2.

    Example:
        >>> round(mccormick.minimum, 6)
        -1.913223
    """
    x1, x2 = x.T
    return np.sin(x1 + x2) + (x1 - x2) ** 2 - 1.5 * x1 + 2.5 * x2 + 1


# Down the valley every next trough is lower by pi; the reach ends before the first of them.
mccormick = Function.of(
    Formula(
        name="mccormick",
        values=_mccormick,
        low=(-1.5, -3.0),
        high=(4.0, 4.0),
        minimizers=((0.5 - math.pi / 3, -0.5 - math.pi / 3),),
        default_dim=2,
        reach=((-2.0, -3.5), (math.inf, math.inf)),
    )
)


def _six_hump_camel(x: np.ndarray) -> np.ndarray:
    """Six local minima, two of them global, opposite each other.

    f(x) = (4 - 2.1 x1^2 + x1^4/3) x1^2 + x1 x2 + (4 x2^2 - 4) x2^2 on [-3, 3] x [-2, 2].
    Dixon and Szego, "Towards Global Optimisation 2", 1978; seed S1, section 5.2.

    Example:
        >>> round(six_hump_camel.minimum, 6), len(six_hump_camel.minimizers)
        (-1.031628, 2)
    """
    x1, x2 = x.T
    return (4 - 2.1 * x1**2 + x1**4 / 3) * x1**2 + x1 * x2 + (4 * x2**2 - 4) * x2**2


six_hump_camel = Function.of(
    Formula(
        name="six_hump_camel",
        values=_six_hump_camel,
        low=(-3.0, -2.0),
        high=(3.0, 2.0),
        minimizers=((-0.08984201310031809, 0.7126564030207396), (0.08984201310031809, -0.7126564030207396)),
        default_dim=2,
    )
)

MIXTURE_MEANS = np.array([[0.9, 0.1], [0.9, 0.9], [0.15, 0.7]])
MIXTURE_COVARIANCES = np.array([[[0.05, 0.0], [0.0, 0.05]], [[0.07, 0.01], [0.01, 0.07]], [[0.03, 0.0], [0.0, 0.03]]])


def _gaussian_mixture(x: np.ndarray) -> np.ndarray:
    """Minus the density of three Gaussians of equal weight; most of the box is flat.

    f(x) = -1/3 sum_k N(x; mean_k, covariance_k) on [-1, 1]^2. Seed S3, section 5, maximises the density; it gives no
    numbers, so these and the box are taken from its authors' program (github.com/RuiShu/nn-bayesian-optimization).

    Example:
        >>> round(gaussian_mixture.minimum, 6)
        -1.781597
    """
    away = x[:, None, :] - MIXTURE_MEANS
    squares = np.einsum("nki,kij,nkj->nk", away, np.linalg.inv(MIXTURE_COVARIANCES), away)
    heights = 1 / (2 * math.pi * np.sqrt(np.linalg.det(MIXTURE_COVARIANCES)))
    return -np.mean(heights * np.exp(-0.5 * squares), axis=1)


gaussian_mixture = Function.of(
    Formula(
        name="gaussian_mixture",
        values=_gaussian_mixture,
        low=(-1.0,),
        high=(1.0,),
        minimizers=((0.15238854048498293, 0.7002830942110715),),
        default_dim=2,
    )
)

# Hartmann's family: minus a sum of four bumps.
BUMP_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
BUMP_RATES_3 = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
BUMP_CENTERS_3 = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
BUMP_RATES_6 = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
BUMP_CENTERS_6 = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def _bumps(x: np.ndarray, rates: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """sum_i height_i exp(-sum_j rate_ij (x_j - center_ij)^2), largest among the centres and so in the unit cube."""
    return np.exp(-np.sum(rates * (x[:, None, :] - centers) ** 2, axis=2)) @ BUMP_HEIGHTS


def _hartmann3(x: np.ndarray) -> np.ndarray:
    """Four bumps in three dimensions.

    f(x) = -sum_i alpha_i exp(-sum_j A_ij (x_j - P_ij)^2) on [0, 1]^3. Hartman, "Some experiments in global
    optimization", 1973, with the constants of Dixon and Szego, 1978.

    Example:
        >>> round(hartmann3.minimum, 5)
        -3.86278
    """
    return -_bumps(x, BUMP_RATES_3, BUMP_CENTERS_3)


def _hartmann4(x: np.ndarray) -> np.ndarray:
    """The first four coordinates of `hartmann6`, rescaled to mean about 0 and variance about 1.

    f(x) = (1.1 - sum_i alpha_i exp(-sum_j A_ij (x_j - P_ij)^2)) / 0.839 on [0, 1]^4. Picheny, Wagner, Ginsbourger, "A
    benchmark of kriging-based infill criteria for noisy optimization", 2013; S3's authors use the same form.

    Example:
        >>> round(hartmann4.minimum, 5)
        -3.13449
    """
    return (1.1 - _bumps(x, BUMP_RATES_6[:, :4], BUMP_CENTERS_6[:, :4])) / 0.839


def _hartmann6(x: np.ndarray) -> np.ndarray:
    """Four bumps in six dimensions.

    f(x) = -sum_i alpha_i exp(-sum_j A_ij (x_j - P_ij)^2) on [0, 1]^6. Hartman, 1973, with the constants of Dixon and
    Szego, 1978.

    Example:
        >>> round(hartmann6.minimum, 5)
        -3.32237
    """
    return -_bumps(x, BUMP_RATES_6, BUMP_CENTERS_6)


LOWEST_3 = (0.1145888766550712, 0.5556488946169297, 0.852546984686672)
LOWEST_4 = (0.18739527297346703, 0.19415152930244112, 0.5579177800625705, 0.26477962417039674)
LOWEST_6 = (
    *(0.201689511006706, 0.15001069182345772, 0.4768739742218944),
    *(0.275332430494056, 0.3116516166001136, 0.6573005340656204),
)
hartmann3 = Function.of(Formula("hartmann3", _hartmann3, (0.0,), (1.0,), (LOWEST_3,), 3))
hartmann4 = Function.of(Formula("hartmann4", _hartmann4, (0.0,), (1.0,), (LOWEST_4,), 4))
hartmann6 = Function.of(Formula("hartmann6", _hartmann6, (0.0,), (1.0,), (LOWEST_6,), 6))
