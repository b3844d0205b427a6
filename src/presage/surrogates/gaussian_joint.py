"""Covariances of a Gaussian-process posterior, in closed form."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from presage.kernels.base import Evaluated
from presage.surrogates.gaussian import Component, GaussianPosterior
from presage.surrogates.joint import Joint


@dataclass(frozen=True)
class GaussianJoint(Joint):
    """cov(f(x), f(z)) = k(x, z) - k(x, data) K^-1 k(data, z).

    Attributes:
        of: the posterior.
        at: features of z, [m, D].
        pull: K^-1 k(data, z) of each component, [c, n, m].
    """

    of: GaussianPosterior
    at: np.ndarray
    pull: np.ndarray

    @staticmethod
    def between(of: GaussianPosterior, z: np.ndarray) -> "GaussianJoint":
        """With f at the points [m, d]."""
        axes, kernel, end = of.model.axes, of.model.kernel, of.model.noise_at
        at = axes.features(z)
        pull = []
        for one in of.components:
            k = kernel.evaluate(one.theta[:end], at, of.table.features, axes).value
            pull.append(one.inverse.T @ (one.inverse @ k.T))
        return GaussianJoint(of, at, np.array(pull))

    def covariance(self, x: np.ndarray) -> np.ndarray:
        return np.array([one.stretch * (k.value - data.value @ pull) for one, k, data, pull in self._parts(x)])

    def covariance_gradient(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        axes, only = self.of.model.axes, np.eye(len(self.at))
        values, slopes = [], np.empty((len(self.pull), len(x), len(self.at), x.shape[1]))
        for c, (one, k, data, pull) in enumerate(self._parts(x)):
            values.append(one.stretch * (k.value - data.value @ pull))
            for j in range(len(self.at)):
                by_features = k.by_a(np.broadcast_to(only[j], k.value.shape))
                by_features = by_features - data.by_a(np.broadcast_to(pull[:, j], data.value.shape))
                slopes[c, :, j] = one.stretch * axes.gradient(by_features, x)
        return np.array(values), slopes

    def _parts(self, x: np.ndarray) -> Iterator[tuple[Component, Evaluated, Evaluated, np.ndarray]]:
        """For each component: the kernel between x and z, between x and the data, and the pull."""
        axes, kernel, end = self.of.model.axes, self.of.model.kernel, self.of.model.noise_at
        here = axes.features(x)
        for one, pull in zip(self.of.components, self.pull, strict=True):
            theta = one.theta[:end]
            yield (
                one, kernel.evaluate(theta, here, self.at, axes),
                kernel.evaluate(theta, here, self.of.table.features, axes), pull,
            )  # fmt: skip
