"""Points where evaluations fail are worth less."""

import math
from dataclasses import dataclass

import numpy as np

from presage.acquisitions.base import Acquisition, Context
from presage.observations import Observations
from presage.surrogates.base import Posterior
from presage.surrogates.gaussian_process import GaussianProcess, Table, condition

# A Gaussian process on labels +1 (worked) and -1 (failed): no hyperparameter can be learned from a handful of
# failures, so all are fixed. Its mean far from data is an optimistic P = Phi(0.5) = 0.7; label noise lets
# neighbouring successes and failures coexist.
LABEL_NOISE, LABEL_MEAN = 0.1, 0.5


@dataclass(frozen=True)
class Feasible(Acquisition):
    """A logarithmic acquisition plus log P(the evaluation succeeds).

    P = Phi(m / sqrt(v + LABEL_NOISE)) with m, v the moments of a Gaussian process on the labels: least-squares
    classification squashed by a probit (Rasmussen & Williams, section 6.5).
    """

    base: Acquisition
    labels: Posterior

    @staticmethod
    def learned(base: Acquisition, data: Observations) -> "Feasible":
        """From the rows that worked and the rows that failed."""
        d = len(data.columns)
        rows = data.mask | data.failed
        signs = np.where(data.failed, -1.0, 1.0)
        theta, _ = GaussianProcess().prior(d)
        theta[d:] = 0.0, math.log(LABEL_NOISE), LABEL_MEAN, 1.0
        table = Table.at(data.x[rows], signs[rows], np.zeros(rows.sum()), data.columns)
        return Feasible(base, condition(table, theta[None], warped=False))

    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        law = self.labels.marginal(x)
        z = law.mean[0] / np.sqrt(law.variance[0] + LABEL_NOISE)
        return self.base.values(posterior, x, context) + _log_ndtr(z)[0]

    def values_and_gradients(
        self, posterior: Posterior, x: np.ndarray, context: Context
    ) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = self.base.values_and_gradients(posterior, x, context)
        law, mean_slope, variance_slope = self.labels.marginal_gradient(x)
        spread = law.variance[0] + LABEL_NOISE
        z = law.mean[0] / np.sqrt(spread)
        log_p, slope = _log_ndtr(z)
        z_slope = mean_slope[0] / np.sqrt(spread)[:, None] - (0.5 * z / spread)[:, None] * variance_slope[0]
        return value + log_p, gradient + slope[:, None] * z_slope


def _log_ndtr(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log Phi(z) and its derivative."""
    from scipy.special import log_ndtr  # costs 0.2 s to import, and most studies see no failure

    value = log_ndtr(z)
    return value, np.exp(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - value)
