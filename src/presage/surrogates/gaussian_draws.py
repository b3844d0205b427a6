"""Functions drawn from a Gaussian-process posterior, which can be evaluated anywhere."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from presage.kernels import Spanned
from presage.means import Level
from presage.surrogates.base import Draws
from presage.surrogates.factor import cholesky
from presage.surrogates.gaussian import GaussianPosterior, radius
from presage.surrogates.prior_draws import Waves, spread, through, waves


@dataclass(frozen=True)
class GaussianDraws(Draws):
    """Functions mean + k(x, z) w + waves; draw i has the hyperparameters of component i modulo their number.

    Attributes:
        of: the posterior.
        at: the features z, [m, D].
        weights: w, one row for each draw, [num, m].
        waves: of the draws of each component; None where nothing is lacking.
        owner: which component of the posterior that was asked each draw is of, [num].
    """

    of: GaussianPosterior
    at: np.ndarray
    weights: np.ndarray
    waves: tuple[Waves | None, ...]
    owner: np.ndarray

    @staticmethod
    def drawn(of: GaussianPosterior, num: int, rng: np.random.Generator) -> "GaussianDraws":
        """So many functions of a posterior, as many at least as it has components."""
        axes, kernel, n = of.model.axes, of.model.kernel, len(of.table.y)
        at = np.vstack([of.table.features, axes.features(spread(of.table.x, axes, rng))])
        rough, weights = [], np.empty((num, len(at)))
        for c, one in enumerate(of.components):
            mine, theta = weights[c :: len(of.components)], one.theta[: of.model.noise_at]
            K = kernel.evaluate(theta, at, at, axes).value
            factor = cholesky(K.copy(), K.diagonal().mean())
            normal = rng.standard_normal(mine.shape)
            # A draw from the prior: roughly one everywhere by waves, and at `at` exactly one, factor times normal.
            wave = waves(kernel, theta, at, n, factor, len(mine), axes, rng)
            mine[:] = lapack.dtrtrs(factor, normal.T, lower=1, trans=1)[0].T
            if wave is not None:
                mine -= through(factor, wave.values(at))
            # Matheron's rule: what the data say of its errors.
            noise = np.sqrt(np.exp(one.theta[of.model.noise_at]) + one.known)
            error = normal[:, :n] @ factor[:n, :n].T + noise * rng.standard_normal((len(mine), n))
            mine[:, :n] -= error @ one.inverse.T @ one.inverse
            size = radius(one, len(mine), rng)
            mine *= size
            mine[:, :n] += one.alpha
            rough.append(wave and wave._replace(weights=size * wave.weights))
        return GaussianDraws(of, at, weights, tuple(rough), np.arange(num) % len(of.components))

    def own(self, best: float | np.ndarray) -> float | np.ndarray:
        return best[self.owner] if isinstance(best, np.ndarray) else best

    def values(self, x: np.ndarray) -> np.ndarray:
        found = np.empty((len(self.weights), len(x)))
        for mine, level, spans in self._parts(x):
            found[mine] = level.value + sum(w @ one.value.T for one, w in spans)
        return found

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        axes = self.of.model.axes
        value, gradient = np.empty((len(self.weights), len(x))), np.empty((len(self.weights), *x.shape))
        for mine, level, spans in self._parts(x):
            value[mine] = level.value + sum(w @ one.value.T for one, w in spans)
            by_features = np.add.reduce([
                [one.by_a(np.broadcast_to(row, one.value.shape)) for row in w] for one, w in spans
            ])  # fmt: skip
            gradient[mine] = level.slope + axes.gradient(by_features, x)
        return value, gradient

    def values_and_pull(self, x: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        value, parts = np.empty((len(self.weights), len(x))), list(self._parts(x))
        for mine, level, spans in parts:
            value[mine] = level.value + sum(w @ one.value.T for one, w in spans)

        def pull(cotangent: np.ndarray) -> np.ndarray:
            by_x = np.zeros_like(x)
            for mine, level, spans in parts:
                by_features = np.add.reduce([one.by_a(cotangent[mine].T @ w) for one, w in spans])
                by_x += self.of.model.axes.gradient(by_features, x)
                by_x += cotangent[mine].sum(axis=0)[:, None] * level.slope
            return by_x

        return value, pull

    def _parts(self, x: np.ndarray) -> Iterator[tuple[slice, Level, list[tuple[Spanned, np.ndarray]]]]:
        """For each component: its draws, the mean, and what spans the draws, with the weights of that."""
        model, components = self.of.model, self.of.components
        here = model.axes.features(x)
        for c, (one, rough) in enumerate(zip(components, self.waves, strict=True)):
            mine = slice(c, None, len(components))
            k = model.kernel.evaluate(one.theta[: model.noise_at], here, self.at, model.axes)
            spans = [(Spanned(k.value, k.by_a), self.weights[mine])]
            if rough is not None:
                spans.append((rough.basis(here), rough.weights))
            yield mine, self.of._level(one, x), spans
