"""The two protocols of a surrogate: how it is configured and fitted, and what a fit can be asked."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from presage.markup import fragment, table
from presage.observations import Observations
from presage.surrogates.joint import ByConditioning, Joint

Diagnostics = dict[str, Any]
State = dict[str, np.ndarray]  # plain arrays by name; travels through storage


class Marginal(NamedTuple):
    """The law of f at single points: a mixture of Gaussians, or of Student-t where degrees of freedom are given.

    Attributes:
        mean: [component, n].
        variance: [component, n], noise apart; the squared scale of a Student-t.
        weight: [component], sums to 1.
        df: degrees of freedom, [component], or None.
    """

    mean: np.ndarray
    variance: np.ndarray
    weight: np.ndarray
    df: np.ndarray | None = None

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the mixture, [n] each."""
        mean = self.weight @ self.mean
        return mean, self.weight @ (self.spread() + self.mean**2) - mean**2

    def spread(self) -> np.ndarray:
        """The variance of each component, [component, n], which of a Student-t is more than its squared scale."""
        return self.variance if self.df is None else self.variance * (self.df / (self.df - 2.0))[:, None]


class Draws(ABC):
    """Functions drawn from a posterior. Each can be evaluated anywhere and always answers the same."""

    @abstractmethod
    def values(self, x: np.ndarray) -> np.ndarray:
        """Every function at every point [n, d], [num, n]."""

    @abstractmethod
    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same with derivatives in x, [num, n] and [num, n, d]; where the posterior is differentiable."""

    def own(self, best: float | np.ndarray) -> float | np.ndarray:
        """Of something known for each component, [c, 1], that of each function's; their mean if it is of none."""
        return float(np.mean(best))

    def values_and_pull(self, x: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Values, and what makes dE/dx [n, d] of dE/d values [num, n]: all functions at once, where that is cheaper."""
        value, gradient = self.values_and_gradients(x)
        return value, lambda cotangent: np.einsum("sn,snd->nd", cotangent, gradient)


class Score(NamedTuple):
    """How well a posterior foretold some observations.

    Attributes:
        log_density: mean log predictive density of a standardised value.
        coverage50: share of values within their central 50 % intervals.
        coverage90: the same for 90 %.
        rmse: root mean squared error of the predictive mean, in standardised units.
    """

    log_density: float
    coverage50: float
    coverage90: float
    rmse: float


class Posterior(ABC):
    """A fitted surrogate: immutable, on the unit cube.

    Values come in standardised units. A surrogate may transform them monotonically; marginal, sample, noise and
    incumbent then speak of the transformed ones, among which acquisitions compare, and predict undoes it.
    """

    def facts(self) -> dict[str, Any]:
        """What there is to say about the fit in a few words, by name."""
        return {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self.facts().items())})"

    def _repr_html_(self) -> str:
        return fragment(type(self).__name__, "on the unit cube, in standardised units", table(self.facts().items()))

    @property
    @abstractmethod
    def differentiable(self) -> bool:
        """Whether `marginal_gradient` can be asked."""

    @abstractmethod
    def marginal(self, x: np.ndarray) -> Marginal:
        """The law of f at each of the points [n, d], noise apart."""

    @abstractmethod
    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        """The marginal, and the derivatives of its mean and its variance in x, [component, n, d] each."""

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at each point in standardised units, [n] each."""
        return self.marginal(x).moments()

    @abstractmethod
    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        """Joint draws of f at the points, [num, n]."""

    @abstractmethod
    def draw(self, num: int, *, rng: np.random.Generator) -> Draws:
        """Functions drawn from the posterior, in the units of `marginal`."""

    @abstractmethod
    def noise(self, x: np.ndarray) -> np.ndarray:
        """Variance of an observation about f, [n]."""

    @abstractmethod
    def condition(self, x: np.ndarray, y: np.ndarray) -> "Posterior":
        """The posterior after further observations [m, d] and [m], hyperparameters kept."""

    def imagine(self, x: np.ndarray, f: np.ndarray) -> "Posterior":
        """The same for values [m] told in the units of `marginal`, as those that are foretold or drawn are."""
        return self.condition(x, self.restored(f))

    def believe(self, x: np.ndarray) -> "Posterior":
        """The posterior had it observed its own mean at the points [m, d].

        The mean in the units of `marginal`: that of a value itself is ruled by the long tail of bad ones where values
        are warped, and a point that is awaited would count as a bad one.
        """
        return self.imagine(x, self.marginal(x).moments()[0])

    def joint(self, z: np.ndarray) -> Joint:
        """How f at the points [m, d] goes together with f elsewhere; noise apart."""
        return ByConditioning.of(self, z)

    @abstractmethod
    def leave_one_out(self) -> np.ndarray:
        """Log density of each observation, in standardised units, given all the others, [n]."""

    @abstractmethod
    def incumbent(self) -> float:
        """The least posterior mean among the observed points."""

    def incumbents(self) -> np.ndarray:
        """The same for each component, as each has units of its own, [c]; or one that holds for all, [1]."""
        return np.array([self.incumbent()])

    def transformed(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standardised values [n] in the units of `marginal`, and log d transformed / d y, [c or 1, n] each."""
        return y[None], np.zeros((1, len(y)))

    def restored(self, f: np.ndarray) -> np.ndarray:
        """What `transformed` undoes: standardised values of some in the units of `marginal`, [n]."""
        return f

    def foretold(self, x: np.ndarray, y: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density and distribution function of standardised observations, [n] each.

        Args:
            x: points, [n, d].
            y: standardised values, [n].
            noise: their known noise variances besides that of the model, [n].
        """
        from scipy.special import ndtr, stdtr

        law = self.marginal(x)
        at, log_slope = self.transformed(y)
        scale = np.sqrt(law.variance + self.noise(x) + noise * np.exp(2.0 * log_slope))
        z = (at - law.mean) / scale
        if law.df is None:
            log_density, below = -0.5 * (z**2 + math.log(2.0 * math.pi)), ndtr(z)
        else:
            from scipy.stats import t

            df = law.df[:, None]
            log_density, below = t.logpdf(z, df), stdtr(df, z)
        log_density = log_density - np.log(scale) + log_slope + np.log(law.weight)[:, None]
        return np.logaddexp.reduce(log_density, axis=0), law.weight @ below

    def score(self, data: Observations) -> Score:
        """How well observations were foretold, in the units of the fit (see `Observations.rescaled`)."""
        x, y = data.x[data.mask], data.y[data.mask]
        log_density, below = self.foretold(x, y, data.noise[data.mask])
        from_middle = np.abs(below - 0.5)
        return Score(
            float(log_density.mean()), float((from_middle <= 0.25).mean()), float((from_middle <= 0.45).mean()),
            float(np.sqrt(np.mean((self.predict(x)[0] - y) ** 2))),
        )  # fmt: skip


class Fit(NamedTuple):
    """What a fit gives: the posterior, what a later fit starts from, and what there is to report."""

    posterior: Posterior
    state: State
    diagnostics: Diagnostics


class Surrogate(ABC):
    """A model's configuration; every field has a default.

    Attributes:
        greedy: whether "auto" stands for an acquisition that is sometimes greedy.
    """

    greedy: ClassVar[bool] = False

    @abstractmethod
    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        """Fit to the rows that have a value.

        Args:
            data: the observations; at least one row has a value.
            rng: for whatever is random in the fit.
            previous: the state of an earlier fit, from which to start.
            keep: take the hyperparameters of `previous` as they are and only the data anew.
        """

    def due(self, data: Observations, state: State, fitted: int) -> bool:
        """Whether hyperparameters should be fitted anew rather than kept: by default when a twentieth is new.

        Args:
            data: the observations.
            state: of the last fit.
            fitted: values that the last fit saw, 0 if there was none.
        """
        return not 0 <= data.count - fitted < max(1, data.count // 20)
