"""The problems of the comparison with BoTorch: functions, budgets, and starting points shared by all methods."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from presage import functions


@dataclass(frozen=True)
class Problem:
    """A function for each seed, how many points are given, and how many evaluations there are in all."""

    name: str
    make: Callable[[int], Any]
    starts: int
    trials: int

    def start(self, seed: int) -> np.ndarray:
        """The given points, uniform on the unit cube, [starts, d]."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        return rng.random((self.starts, self.make(seed).space.dim))


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("branin", lambda seed: functions.branin, 5, 30),
        Problem("six_hump_camel", lambda seed: functions.six_hump_camel, 5, 30),
        Problem("hartmann6", lambda seed: functions.hartmann6, 5, 60),
        Problem("levy10", lambda seed: functions.levy.dim(10), 10, 100),
        Problem("ackley10_shifted", lambda seed: functions.ackley.dim(10).shifted(seed), 10, 100),
    )
}
