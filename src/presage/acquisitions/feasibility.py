"""Points where evaluations fail are worth less."""

import math
from dataclasses import dataclass

import numpy as np

from presage.acquisitions.base import Acquisition
from presage.acquisitions.improvement import log_normal
from presage.acquisitions.wrappers import Adjusted
from presage.kernels import Matern
from presage.means import ConstantMean
from presage.observations import Observations
from presage.priors import LogNormal
from presage.surrogates.base import Posterior
from presage.surrogates.gaussian import GaussianPosterior, Model, Table, component
from presage.warping import Warp

# A dozen successes and failures cannot tell hyperparameters, so they are fixed. The latent function's standard
# deviation of 4 lets P come close to 0 and 1; its mean makes the unknown slightly more likely to work than not.
LENGTHSCALE, VARIANCE, MEAN = 0.3, 16.0, 0.5
NEWTON_STEPS = 30


@dataclass(frozen=True)
class Feasible(Adjusted):
    """An acquisition in logarithms plus log P(the evaluation succeeds).

    P = Phi(m / sqrt(1 + v)) with m, v the moments of a Gaussian-process classifier by Laplace's approximation
    (Rasmussen & Williams, section 3.4, probit likelihood).
    """

    base: Acquisition
    latent: Posterior

    @staticmethod
    def learned(base: Acquisition, data: Observations) -> "Feasible":
        """From the rows that worked and the rows that failed."""
        d, rows = len(data.columns), data.mask | data.failed
        model = Model(Matern(), ConstantMean(), data.columns, LogNormal(), 1e-8, None)
        lengths = [math.log(LENGTHSCALE * math.sqrt(d))] * d
        theta = np.array([*lengths, math.log(VARIANCE), math.log(1e-6), MEAN])
        labels = np.where(data.failed[rows], -1.0, 1.0)
        at = model.axes.features(data.x[rows])
        table = Table(data.x[rows], at, labels, np.zeros(len(labels)), 0.0, 1.0)
        K = model.kernel.evaluate(theta[: model.noise_at], at, at, model.axes).value
        f = np.full(len(labels), MEAN)
        for _ in range(NEWTON_STEPS):
            slope, curvature = _log_probit(labels, f)
            # Near the mode the labels act like values `target` seen with noise variances 1 / curvature.
            target = f + slope / curvature
            new = MEAN + K @ np.linalg.solve(K + np.diag(1.0 / curvature), target - MEAN)
            done = np.abs(new - f).max() < 1e-6
            f = new
            if done:
                break
        latent = component(model, table, theta, Warp(), target, 1.0 / curvature)
        return Feasible(base, GaussianPosterior(model, table, (latent,)))

    def added(self, x: np.ndarray) -> np.ndarray:
        law = self.latent.marginal(x)
        return log_normal(law.mean[0] / np.sqrt(1.0 + law.variance[0]))[0]

    def added_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law, mean_slope, variance_slope = self.latent.marginal_gradient(x)
        spread = 1.0 + law.variance[0]
        z = law.mean[0] / np.sqrt(spread)
        log_p, slope = log_normal(z)
        z_slope = mean_slope[0] / np.sqrt(spread)[:, None] - (0.5 * z / spread)[:, None] * variance_slope[0]
        return log_p, slope[:, None] * z_slope


def _log_probit(labels: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First derivative of log Phi(label f) in f, and minus the second."""
    slope = labels * log_normal(labels * f)[1]
    return slope, np.maximum(slope * (slope + f), 1e-9)
