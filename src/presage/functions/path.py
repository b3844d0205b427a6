"""Sample paths of a Gaussian process in one dimension, exact and cheap to evaluate anywhere."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from presage.functions.function import Formula, Function

LENGTHSCALE = 0.1
# The kernel repeated with this period agrees with the kernel itself to float64 wherever a path is evaluated: for
# distances up to 3, those of the interval and its shifts, the nearest repetition is 1 away and adds exp(-50).
PERIOD = 4.0
NUM_WAVES = 58  # the next wave's variance is below 1e-17


@dataclass(frozen=True)
class Path:
    """A draw from a Gaussian process of variance 1 with a squared-exponential kernel of lengthscale 0.1, on [-1, 1].

    f(x) = sum_k sqrt(v_k) (a_k cos(omega_k x) + b_k sin(omega_k x)) with a_k, b_k ~ N(0, 1) and v_k the kernel's
    Fourier coefficients. Seed S3, figure 3, measures regret on such a path and leaves the kernel open.

    Example:
        >>> round(gp_path.with_seed(3).minimum, 4)
        -1.7394
    """

    seed: int

    def __call__(self, x: np.ndarray) -> np.ndarray:
        omega, a, b = _waves(self.seed)
        angle = x[:, :1] * omega
        return np.cos(angle) @ a + np.sin(angle) @ b

    def slope_and_curvature(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first two derivatives at x [n], [n] each."""
        omega, a, b = _waves(self.seed)
        cos, sin = np.cos(x[:, None] * omega), np.sin(x[:, None] * omega)
        return (cos * omega) @ b - (sin * omega) @ a, -(cos * omega**2) @ a - (sin * omega**2) @ b


@lru_cache(maxsize=128)
def _waves(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frequencies omega [k], and the drawn amplitudes of their cosines and sines, [k] each."""
    omega = 2 * np.pi / PERIOD * np.arange(NUM_WAVES)
    variance = LENGTHSCALE * np.sqrt(2 * np.pi) / PERIOD * np.exp(-0.5 * (LENGTHSCALE * omega) ** 2)
    variance[1:] *= 2  # a negative frequency for each positive one
    a, b = np.sqrt(variance) * np.random.default_rng(seed).standard_normal((2, NUM_WAVES))
    return omega, a, b


def _formula(seed: int) -> Formula:
    """The path of a seed; its minimum is the lowest of all minima seen on a grid, polished by Newton's method."""
    path, step = Path(seed), 1 / 500
    grid = np.arange(-750, 751) / 500  # the interval, and on both sides as much as a shift may need
    values = path(grid[:, None])
    x, y = grid[250:-250], values[250:-250]
    start = x[1:-1][(y[1:-1] <= y[:-2]) & (y[1:-1] <= y[2:])]
    local = start
    for _ in range(20):
        slope, curvature = path.slope_and_curvature(local)
        local = np.clip(local - slope / np.where(curvature > 0, curvature, np.inf), start - step, start + step)
    candidates = np.clip([*local, -1.0, 1.0], -1.0, 1.0)
    lows = path(candidates[:, None])
    # Between two points of the grid a path goes lower than both by step^2 f''/8 at most; 2e-3 allows for f'' of 4000,
    # its standard deviation being 173.
    low_at = grid[values < lows.min() + 2e-3]
    reach_low = min(low_at[low_at < -1].max(initial=grid[0]) + step, -1.0)
    reach_high = max(low_at[low_at > 1].min(initial=grid[-1]) - step, 1.0)
    return Formula(
        name="gp_path",
        values=path,
        low=(-1.0,),
        high=(1.0,),
        minimizers=((float(candidates[lows.argmin()]),),),
        default_dim=1,
        reach=((float(reach_low),), (float(reach_high),)),
        seed=seed,
        redraw=_formula,
    )


gp_path = Function.of(
    _formula(2)
)  # any seed would do; this path has its minimum inside the interval and can be shifted
