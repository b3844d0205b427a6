"""What a benchmark problem is: for every seed a space, a function on it, and the least value it has."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from presage.space import Space

Params = Mapping[str, Any]
KINDS = ("smooth", "noisy", "high-dimensional", "mixed", "conditional", "tuning", "curves", "physical")


@dataclass(frozen=True)
class Instance:
    """One seed's version of a problem.

    Attributes:
        space: where to search.
        value: the function without noise.
        minimum: its least value on the space.
    """

    space: Space
    value: Callable[[Params], float]
    minimum: float


@dataclass(frozen=True)
class Problem:
    """A family of instances and the number of evaluations that a method is given.

    Attributes:
        name: what it is called in results.
        kind: one of KINDS.
        trials: evaluations per run, initial design included.
        make: the instance of a seed.
        noise: standard deviation of Gaussian noise on what a method sees; regret is measured without it.
        about: one line.
    """

    name: str
    kind: str
    trials: int
    make: Callable[[int], Instance]
    noise: float = 0.0
    about: str = ""

    def disturbance(self, seed: int, number: int) -> float:
        """The noise of one evaluation: the same for all methods, whatever they evaluate."""
        if not self.noise:
            return 0.0
        stream = np.random.default_rng([seed, number, zlib.crc32(self.name.encode())])
        return self.noise * float(stream.standard_normal())
