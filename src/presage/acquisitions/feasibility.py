"""Points where evaluations fail are worth less."""

import math
from dataclasses import dataclass, replace

import numpy as np

from presage.acquisitions.base import Acquisition
from presage.acquisitions.improvement import log_normal
from presage.acquisitions.wrappers import Adjusted
from presage.kernels import Matern, features
from presage.means import ConstantMean
from presage.observations import Column, Observations
from presage.priors import LogNormal
from presage.surrogates.base import Posterior
from presage.surrogates.gaussian import GaussianPosterior, Model, Table, component
from presage.warping import Warp

# A dozen successes and failures tell how far apart they lie, by evidence among these lengthscales (for one dimension),
# but not more. The latent function's standard deviation of 4 lets P come close to 0 and 1; its mean makes the unknown
# slightly more likely to work than not.
LENGTHSCALES, VARIANCE, MEAN = (0.1, 0.3, 1.0), 16.0, 0.5
NEWTON_STEPS = 30
MOST = 500  # rows that are learned from, in time cubic in them
# Points less likely to work than 0.8 are worth something only if all are. Two successes and a failure leave nobody as
# sure as that, not even of the points that worked: then it is 0.9 of the surest one, or the search would stay there.
LIKELY, SURE, STEEP = math.log(0.8), math.log(0.9), 1e3


@dataclass(frozen=True)
class Feasible(Adjusted):
    """An acquisition in logarithms plus log P(the evaluation succeeds), where that is likely.

    P = Phi(m / sqrt(1 + v)) with m, v the moments of a Gaussian-process classifier by Laplace's approximation
    (Rasmussen & Williams, section 3.4, probit likelihood), with a rough kernel because edges are sharp. Where f would
    be good beyond the edge, an improvement that the model is sure of outbids any probability (a logarithm of an
    expected improvement may be -1000 on this side), so that unlikely points are ruled out rather than discounted.
    """

    base: Acquisition
    latent: Posterior
    likely: float = LIKELY  # log P below which points are ruled out

    @staticmethod
    def learned(base: Acquisition, data: Observations) -> "Feasible":
        """From the rows that worked and the rows that failed; of many, from some of them."""
        rows = _chosen(data)
        found = [_laplace(data.x[rows], data.failed[rows], data.columns, scale) for scale in LENGTHSCALES]
        one = Feasible(base, max(found, key=lambda pair: pair[0])[1])
        worked = data.x[rows][~data.failed[rows]]
        return replace(one, likely=min(LIKELY, SURE + float(one.log_p(worked).max()))) if len(worked) else one

    def log_p(self, x: np.ndarray) -> np.ndarray:
        """log P(the evaluation succeeds) at points [n, d], [n]."""
        law = self.latent.marginal(x)
        return log_normal(law.mean[0] / np.sqrt(1.0 + law.variance[0]))[0]

    def added(self, x: np.ndarray) -> np.ndarray:
        log_p = self.log_p(x)
        return log_p + STEEP * np.minimum(log_p - self.likely, 0.0)

    def added_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law, mean_slope, variance_slope = self.latent.marginal_gradient(x)
        spread = 1.0 + law.variance[0]
        z = law.mean[0] / np.sqrt(spread)
        log_p, slope = log_normal(z)
        z_slope = mean_slope[0] / np.sqrt(spread)[:, None] - (0.5 * z / spread)[:, None] * variance_slope[0]
        steep = 1.0 + STEEP * (log_p < self.likely)
        return log_p + STEEP * np.minimum(log_p - self.likely, 0.0), (steep * slope)[:, None] * z_slope


def _chosen(data: Observations) -> np.ndarray:
    """The rows to learn from, in their order.

    Of many, half are failures or, where those are fewer, all of them. Of the rows that worked a third are the nearest
    to these failures, where the edge is, and a third the best, where the search goes; the others are taken evenly from
    the rest, in the order of trials, since far from what is known to work nothing is likely to.
    """
    failed, worked = np.flatnonzero(data.failed), np.flatnonzero(data.mask & ~data.failed)
    if len(failed) + len(worked) <= MOST:
        return np.union1d(failed, worked)
    failed = _evenly(failed, max(MOST // 2, MOST - len(worked)))
    left = MOST - len(failed)
    at, far = features(data.x, data.columns), np.full(len(worked), np.inf)
    for point in at[failed]:
        far = np.minimum(far, np.square(at[worked] - point).sum(axis=1))
    worked = worked[np.argsort(far, kind="stable")]
    near, rest = worked[: left // 3], worked[left // 3 :]
    rest = rest[np.argsort(data.y[rest], kind="stable")]
    best, rest = rest[: left // 3], np.sort(rest[left // 3 :])
    return np.sort(np.concatenate([failed, near, best, _evenly(rest, left - len(near) - len(best))]))


def _evenly(rows: np.ndarray, most: int) -> np.ndarray:
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).round().astype(int)]


def _laplace(
    x: np.ndarray, failed: np.ndarray, columns: tuple[Column, ...], scale: float
) -> tuple[float, GaussianPosterior]:
    """Log evidence (Rasmussen & Williams, eq. 3.32) and latent posterior of a classifier with a given lengthscale."""
    d, labels = len(columns), np.where(failed, -1.0, 1.0)
    model = Model(Matern(nu=0.5), ConstantMean(), columns, LogNormal(), 1e-8, None)
    theta = np.array([*[math.log(scale * math.sqrt(d))] * d, math.log(VARIANCE), math.log(1e-6), MEAN])
    at = model.axes.features(x)
    K = model.kernel.evaluate(theta[: model.noise_at], at, at, model.axes).value
    f = np.full(len(labels), MEAN)
    for _ in range(NEWTON_STEPS):
        slope, curvature = _log_probit(labels, f)
        # Near the mode the labels act like values `target` seen with noise variances 1 / curvature.
        target = f + slope / curvature
        weight = np.linalg.solve(K + np.diag(1.0 / curvature), target - MEAN)
        new = MEAN + K @ weight
        done = np.abs(new - f).max() < 1e-6
        f = new
        if done:
            break
    root = np.sqrt(curvature)
    log_det = np.linalg.slogdet(np.eye(len(f)) + root[:, None] * K * root)[1]
    evidence = float(log_normal(labels * f)[0].sum() - 0.5 * weight @ (f - MEAN) - 0.5 * log_det)
    table = Table(x, at, labels, np.zeros(len(labels)), 0.0, 1.0)
    latent = component(model, table, theta, Warp(), target, 1.0 / curvature, len(target))
    return evidence, GaussianPosterior(model, table, (latent,))


def _log_probit(labels: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First derivative of log Phi(label f) in f, and minus the second."""
    slope = labels * log_normal(labels * f)[1]
    return slope, np.maximum(slope * (slope + f), 1e-9)
