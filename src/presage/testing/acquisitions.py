"""What every acquisition must do, as tests to inherit: one or more for each sentence of `presage.acquisitions.base`."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from presage.acquisitions.base import Acquisition, Context
from presage.observations import Observations, observe
from presage.surrogates.base import Draws, Marginal, Posterior
from presage.testing.surrogates import MIXED, central, mixed_points, near, same_slope, smooth


@dataclass(frozen=True)
class Waves(Posterior):
    """A mixture of Gaussian processes whose means and variances are waves over the cube, written down and not fitted.

    Component c is f(x) = mean_c(x) + stddev_c(x) b(x)'w with |b(x)| = 1 and standard normal w, so before anything is
    observed the variance is that of the wave, and everything that is asked has a closed form.

    Attributes:
        level: of all means.
        height: of the waves in means and log variances; 0 for laws that are the same everywhere.
        variance: in the middle of its wave.
        components: how many.
        noise_share: noise variance of an observation, in units of `variance`.
        seen: points observed, [m, d], and their values, [m].
    """

    level: float = 0.0
    height: float = 1.0
    variance: float = 0.25
    components: int = 3
    noise_share: float = 0.04
    seen: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def differentiable(self) -> bool:
        return True

    def waves(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        """The marginal before anything was observed, and the derivatives of means and variances."""
        there, number = np.where(np.isnan(x), 0.0, 1.0), np.arange(1, self.components + 1)[:, None, None]
        phase = number * np.nan_to_num(x)
        mean = self.level + self.height * np.sin(phase).sum(axis=2)
        variance = self.variance * np.exp(self.height * np.cos(phase).sum(axis=2))
        mean_slope = self.height * number * np.cos(phase) * there
        variance_slope = -self.height * number * np.sin(phase) * there * variance[:, :, None]
        weight = np.arange(1.0, self.components + 1)
        return Marginal(mean, variance, weight / weight.sum()), mean_slope, variance_slope

    @cached_property
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean [c, k] and covariance [c, k, k] of w."""
        size = 2 * FREQUENCIES
        center, spread = np.zeros((self.components, size)), np.tile(np.eye(size), (self.components, 1, 1))
        if self.seen is not None:
            x, y = self.seen
            law = self.waves(x)[0]
            for c in range(self.components):
                rows = np.sqrt(law.variance[c])[:, None] * _basis(x)[0]
                noise = self.noise_share * self.variance
                gain = np.linalg.solve(rows @ rows.T + noise * np.eye(len(x)), rows).T
                center[c], spread[c] = gain @ (y - law.mean[c]), np.eye(size) - gain @ rows
        return center, spread

    def marginal(self, x: np.ndarray) -> Marginal:
        return self.marginal_gradient(x)[0]

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        law, mean_slope, variance_slope = self.waves(x)
        basis, basis_slope = _basis(x)
        center, spread = self.weights
        sigma = np.sqrt(law.variance)
        shift, shift_slope = center @ basis.T, np.einsum("ck,nkd->cnd", center, basis_slope)
        share = np.einsum("nk,ckl,nl->cn", basis, spread, basis)
        share_slope = 2.0 * np.einsum("nk,ckl,nld->cnd", basis, spread, basis_slope)
        mean_slope = mean_slope + (0.5 * shift / sigma)[..., None] * variance_slope + sigma[..., None] * shift_slope
        variance_slope = share[..., None] * variance_slope + law.variance[..., None] * share_slope
        return Marginal(law.mean + sigma * shift, law.variance * share, law.weight), mean_slope, variance_slope

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.draw(num, rng=rng).values(x)

    def draw(self, num: int, *, rng: np.random.Generator) -> Draws:
        center, spread = self.weights
        chosen = rng.choice(self.components, num, p=self.waves(np.zeros((1, 1)))[0].weight)
        factor = np.linalg.cholesky(spread + 1e-12 * np.eye(2 * FREQUENCIES))
        normal = rng.standard_normal((num, 2 * FREQUENCIES))
        return WaveDraws(self, chosen, center[chosen] + np.einsum("skl,sl->sk", factor[chosen], normal))

    def noise(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.noise_share * self.variance)

    def condition(self, x: np.ndarray, y: np.ndarray) -> "Waves":
        old_x, old_y = self.seen or (x[:0], y[:0])
        return replace(self, seen=(np.vstack([old_x, x]), np.append(old_y, y)))

    def leave_one_out(self) -> np.ndarray:
        return np.zeros(0)

    def incumbent(self) -> float:
        return self.level - self.height


FREQUENCIES = 4


def _basis(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Functions whose squares sum to 1 everywhere, [n, k], and their derivatives, [n, k, d]."""
    columns = np.arange(1, x.shape[1] + 1)
    pace = np.array([[np.sin(3.0 * k * j) + 2.0 * k for j in columns] for k in range(1, FREQUENCIES + 1)])
    phase = np.nan_to_num(x) @ pace.T
    there = np.where(np.isnan(x), 0.0, 1.0)[:, None]
    scale = 1.0 / np.sqrt(FREQUENCIES)
    cosine, sine = scale * np.cos(phase), scale * np.sin(phase)
    slope = np.concatenate([-sine[:, :, None] * pace, cosine[:, :, None] * pace], axis=1) * there
    return np.concatenate([cosine, sine], axis=1), slope


@dataclass(frozen=True)
class WaveDraws(Draws):
    """Functions of one component each, with weights [num, k] of their own.

    Attributes:
        of: the posterior.
        chosen: the component of each function, [num].
        weights: w of each function, [num, k].
    """

    of: Waves
    chosen: np.ndarray
    weights: np.ndarray

    def values(self, x: np.ndarray) -> np.ndarray:
        return self.values_and_gradients(x)[0]

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law, mean_slope, variance_slope = self.of.waves(x)
        basis, basis_slope = _basis(x)
        sigma, offset = np.sqrt(law.variance[self.chosen]), self.weights @ basis.T
        slope = mean_slope[self.chosen] + (offset / (2.0 * sigma))[..., None] * variance_slope[self.chosen]
        slope = slope + sigma[..., None] * np.einsum("sk,nkd->snd", self.weights, basis_slope)
        return law.mean[self.chosen] + offset * sigma, slope


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

    def ready(self, posterior: Posterior, best: float | np.ndarray = 0.0, seed: int = 0) -> tuple[Acquisition, Context]:
        """The acquisition prepared for a posterior, and its context."""
        observed = mixed_points(6, seed=3)
        context = Context(best, len(observed), observed, lambda rng: mixed_points(60, seed=int(rng.integers(1000))))
        return self.acquisition.prepare(posterior, context, rng=np.random.default_rng(seed)), context

    def test_each_point_has_a_value_of_its_own(self) -> None:
        for posterior in (Waves(), Waves(components=1)):
            acquisition, context = self.ready(posterior, posterior.incumbent())
            values = acquisition.values(posterior, self.x, context)
            assert values.shape == (len(self.x),)
            alone = [acquisition.values(posterior, point[None], context)[0] for point in self.x]
            near(values, np.array(alone))
            assert acquisition.values(posterior, self.x[:0], context).shape == (0,)

    def test_a_prepared_acquisition_is_a_function(self) -> None:
        """The generator decides everything that is random, once."""
        posterior = Waves()
        (one, context), (other, _) = self.ready(posterior), self.ready(posterior)
        values = one.values(posterior, self.x, context)
        assert np.array_equal(values, one.values(posterior, self.x, context))
        assert np.array_equal(values, other.values(posterior, self.x, context))
        assert one.scale in ("any", "positive", "logarithm")
        if one.scale == "positive":
            assert (values >= 0).all()

    def test_components_may_have_incumbents_of_their_own(self) -> None:
        posterior = Waves()
        same = np.full((len(posterior.marginal(self.x).mean), 1), 0.3)
        (one, context), (each, own) = self.ready(posterior, 0.3), self.ready(posterior, same)
        for found, known in zip(
            each.values_and_gradients(posterior, self.x, own), one.values_and_gradients(posterior, self.x, context),
            strict=True,
        ):  # fmt: skip
            near(found, known)

    def test_gradients_are_those_of_the_values(self) -> None:
        for posterior in (Waves(), Waves(components=1), Waves(variance=1e-4), Waves(level=-3.0, variance=4.0)):
            acquisition, context = self.ready(posterior)
            x = self.x[:12]
            values, gradients = acquisition.values_and_gradients(posterior, x, context)
            assert gradients.shape == x.shape
            near(values, acquisition.values(posterior, x, context))
            for j, column in enumerate(MIXED):
                present = ~np.isnan(x[:, j])
                if column.kind == "categorical":
                    continue

                def along(step: float, j: int = j, posterior: Posterior = posterior) -> np.ndarray:
                    return acquisition.values(posterior, x + step * np.eye(4)[j], context)  # noqa: B023

                same_slope(gradients[present, j], central(along, 1e-4)[present])

    def test_values_are_finite_however_far_from_the_incumbent(self) -> None:
        for level in (-1e3, -1.0, 0.0, 1.0, 1e3, 1e5):
            for variance in (1e-12, 1e-6, 1.0, 1e6):
                posterior = Waves(level=level, variance=variance, height=0.1)
                acquisition, context = self.ready(posterior)
                values, gradients = acquisition.values_and_gradients(posterior, self.x, context)
                assert np.isfinite(values).all(), (level, variance)
                assert np.isfinite(gradients).all(), (level, variance)

    def test_what_is_better_is_worth_more(self) -> None:
        levels = np.linspace(-5.0, 5.0, 41)
        variances = np.geomspace(1e-2, 1e2, 41)
        if self.likes_low_means:
            assert (np.diff([self._value(level=level) for level in levels], axis=0) < 0).all()
        if self.likes_variance:
            by_variance = [self._value(level=1.0, variance=variance) for variance in variances]
            assert (np.diff(by_variance, axis=0) > 0).all()

    def _value(self, level: float, variance: float = 0.25) -> np.ndarray:
        posterior = Waves(level, 0.0, variance, components=1)
        acquisition, context = self.ready(posterior)
        return acquisition.values(posterior, self.x, context)
