"""What every acquisition must do, as tests to inherit: one or more for each sentence of `presage.acquisitions.base`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from presage.acquisitions.base import Acquisition, Context
from presage.observations import Observations, observe
from presage.surrogates.base import Draws, Marginal, Posterior
from presage.testing.surrogates import MIXED, central, mixed_points, near, same_slope, smooth


@dataclass(frozen=True)
class Waves(Posterior):
    """A mixture of Gaussians whose means and variances are waves over the cube, written down and not fitted.

    Attributes:
        level: of all means.
        height: of the waves in means and log variances; 0 for laws that are the same everywhere.
        variance: in the middle of its wave.
        components: how many.
    """

    level: float = 0.0
    height: float = 1.0
    variance: float = 0.25
    components: int = 3

    @property
    def differentiable(self) -> bool:
        return True

    def marginal(self, x: np.ndarray) -> Marginal:
        return self.marginal_gradient(x)[0]

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        there, number = np.where(np.isnan(x), 0.0, 1.0), np.arange(1, self.components + 1)[:, None, None]
        phase = number * np.nan_to_num(x)
        mean = self.level + self.height * np.sin(phase).sum(axis=2)
        variance = self.variance * np.exp(self.height * np.cos(phase).sum(axis=2))
        mean_slope = self.height * number * np.cos(phase) * there
        variance_slope = -self.height * number * np.sin(phase) * there * variance[:, :, None]
        weight = np.arange(1.0, self.components + 1)
        return Marginal(mean, variance, weight / weight.sum()), mean_slope, variance_slope

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        law = self.marginal(x)
        chosen = rng.choice(self.components, num, p=law.weight)
        return law.mean[chosen] + np.sqrt(law.variance[chosen]) * rng.standard_normal((num, 1))

    def draw(self, num: int, *, rng: np.random.Generator) -> Draws:
        weight = self.marginal(np.zeros((1, 1))).weight
        return WaveDraws(self, rng.choice(self.components, num, p=weight), rng.standard_normal((num, 1)))

    def noise(self, x: np.ndarray) -> np.ndarray:
        return np.zeros(len(x))

    def condition(self, x: np.ndarray, y: np.ndarray) -> "Waves":
        return self

    def leave_one_out(self) -> np.ndarray:
        return np.zeros(0)

    def incumbent(self) -> float:
        return self.level - self.height


@dataclass(frozen=True)
class WaveDraws(Draws):
    """Functions that are so many standard deviations from the mean of one component everywhere.

    Attributes:
        of: the posterior.
        chosen: the component of each function, [num].
        offset: its standard deviations, [num, 1].
    """

    of: Waves
    chosen: np.ndarray
    offset: np.ndarray

    def values(self, x: np.ndarray) -> np.ndarray:
        return self.values_and_gradients(x)[0]

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law, mean_slope, variance_slope = self.of.marginal_gradient(x)
        sigma = np.sqrt(law.variance[self.chosen])
        slope = mean_slope[self.chosen] + (self.offset / (2.0 * sigma))[..., None] * variance_slope[self.chosen]
        return law.mean[self.chosen] + self.offset * sigma, slope


class AcquisitionSuite:
    """Tests for an acquisition: inherit in a test module of pytest, and say how one is made.

    Attributes:
        likes_low_means: whether, all else equal, lower means are worth more.
        likes_variance: whether, all else equal, larger variances are worth more.

    Example:
        >>> from presage.acquisitions import LogExpectedImprovement
        >>> class TestLogExpectedImprovement(AcquisitionSuite):
        ...     def make(self, data):
        ...         return LogExpectedImprovement()
    """

    likes_low_means: ClassVar[bool] = True
    likes_variance: ClassVar[bool] = True

    def make(self, data: Observations) -> Acquisition:
        """The acquisition, for a study with these observations, some of which failed."""
        raise NotImplementedError

    def setup_method(self) -> None:
        x = mixed_points(20)
        failed = np.arange(20) % 4 == 0
        data = observe(x, np.where(failed, np.nan, smooth(x)), MIXED, failed=failed)
        self.acquisition = self.make(data)
        self.x = np.vstack([mixed_points(30, seed=1), data.x[:4]])

    def test_each_point_has_a_value_of_its_own(self) -> None:
        for posterior in (Waves(), Waves(components=1)):
            context = Context(best=posterior.incumbent())
            values = self.acquisition.values(posterior, self.x, context)
            assert values.shape == (len(self.x),)
            alone = [self.acquisition.values(posterior, point[None], context)[0] for point in self.x]
            near(values, np.array(alone))
            assert self.acquisition.values(posterior, self.x[:0], context).shape == (0,)

    def test_gradients_are_those_of_the_values(self) -> None:
        for posterior in (Waves(), Waves(components=1), Waves(variance=1e-4), Waves(level=-3.0, variance=4.0)):
            context = Context(best=0.0)
            x = self.x[:-4]
            values, gradients = self.acquisition.values_and_gradients(posterior, x, context)
            assert gradients.shape == x.shape
            near(values, self.acquisition.values(posterior, x, context))
            for j, column in enumerate(MIXED):
                present = ~np.isnan(x[:, j])
                if column.kind == "categorical":
                    continue

                def along(step: float, j: int = j, posterior: Posterior = posterior) -> np.ndarray:
                    return self.acquisition.values(posterior, x + step * np.eye(4)[j], context)  # noqa: B023

                same_slope(gradients[present, j], central(along)[present])

    def test_values_are_finite_however_far_from_the_incumbent(self) -> None:
        for level in (-1e3, -1.0, 0.0, 1.0, 1e3, 1e5):
            for variance in (1e-12, 1e-6, 1.0, 1e6):
                posterior = Waves(level=level, variance=variance, height=0.1)
                values, gradients = self.acquisition.values_and_gradients(posterior, self.x, Context(best=0.0))
                assert np.isfinite(values).all(), (level, variance)
                assert np.isfinite(gradients).all(), (level, variance)

    def test_what_is_better_is_worth_more(self) -> None:
        levels = np.linspace(-5.0, 5.0, 41)
        variances = np.geomspace(1e-2, 1e2, 41)
        by_level = [self._value(level=level) for level in levels]
        by_variance = [self._value(level=1.0, variance=variance) for variance in variances]
        if self.likes_low_means:
            assert (np.diff(by_level, axis=0) < 0).all()
        if self.likes_variance:
            assert (np.diff(by_variance, axis=0) > 0).all()

    def _value(self, **law: float) -> np.ndarray:
        return self.acquisition.values(Waves(height=0.0, components=1, **law), self.x, Context(best=0.0))
