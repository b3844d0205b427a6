"""A fitted surrogate in the user's units."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from presage.observations import Observations
from presage.space import Space
from presage.surrogates import Posterior

BEYOND = 10.0  # standard deviations of the data past their range, where quantiles and draws are cut off
DRAWS = 16  # functions drawn where uncertainty is to be shown: 5 % and 95 % are then about the outermost two


@dataclass
class Model:
    """What a surrogate says about the objective, in the objective's own units and direction.

    Attributes:
        space: of the study.
        posterior: on the unit cube, in standardised (perhaps transformed) units.
        data: what the posterior was fitted to.
        sign: 1 where smaller is better, -1 where larger is.
    """

    space: Space
    posterior: Posterior
    data: Observations
    sign: float
    _drawn: dict[tuple[int, int], Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict, repr=False)

    def to_user(self, y: np.ndarray) -> np.ndarray:
        """Standardised values in the user's units."""
        return self.sign * (self.data.center + self.data.scale * y)

    def point(self, params: Mapping[str, Any]) -> np.ndarray:
        """The point of the unit cube for some params, [d]."""
        return self.space.encode(params)

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of f at points of the unit cube [n, d], [n] each."""
        mean, variance = self.posterior.predict(x)
        return self.to_user(mean), self.data.scale * np.sqrt(variance)

    def quantiles(self, x: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Quantiles of f at points [n, d], noise apart, [level, n].

        P(f <= y) = sum_c w_c F_c((T_c(y) - m_c) / s_c), with T the monotone transformation, is inverted by bisection;
        so mixtures, Student-t components and transformations need no approximation.
        """
        from scipy.special import ndtr, stdtr

        law = self.posterior.marginal(x)
        scale = np.sqrt(law.variance)
        wanted = np.asarray(levels, dtype=float)[:, None] * np.ones(len(x))
        if self.sign < 0:
            wanted = 1.0 - wanted
        low, high = (np.full(wanted.shape, end) for end in self._range())
        for _ in range(50):
            middle = 0.5 * (low + high)
            at = self.posterior.transformed(middle.ravel())[0].reshape(-1, *middle.shape)
            z = (at - law.mean[:, None]) / scale[:, None]
            below = ndtr(z) if law.df is None else stdtr(law.df[:, None, None], z)
            under = np.einsum("c,cqn->qn", law.weight, below) < wanted
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return self.to_user(0.5 * (low + high))

    def sample(self, x: np.ndarray, num: int, rng: np.random.Generator) -> np.ndarray:
        """Joint draws of f at points [n, d], [num, n]."""
        return self._undo(self.posterior.sample(x, num, rng=rng))

    def draws(self, num: int = DRAWS, seed: int = 0) -> Callable[[np.ndarray], np.ndarray]:
        """Functions drawn from the posterior: points [n, d] in, values [num, n] out; the same ones at every call."""
        if (num, seed) not in self._drawn:
            drawn = self.posterior.draw(num, rng=np.random.default_rng(seed))
            self._drawn[num, seed] = lambda x: self._undo(drawn.values(x))
        return self._drawn[num, seed]

    def _range(self) -> tuple[float, float]:
        y = self.data.y[self.data.mask]
        return float(y.min()) - BEYOND, float(y.max()) + BEYOND

    def _undo(self, latent: np.ndarray) -> np.ndarray:
        """Draws in the user's units. Where components are transformed differently, the mean transformation is undone:
        a draw does not say which component it came from."""
        y = self.data.y[self.data.mask]
        low, high = self._range()
        near = np.sinh(np.linspace(0.0, np.arcsinh(1e6), 2000)) / 1e6  # dense at the best value, which matters most
        grid = np.concatenate([y.min() - (y.min() - low) * near[:0:-1], y.min() + (high - y.min()) * near])
        forward = self.posterior.transformed(grid)[0].mean(axis=0)
        return self.to_user(np.interp(latent, forward, grid))
