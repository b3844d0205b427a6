"""How the representation is learned: by the evidence of its linear model on some hundred rows, then by minibatches.

The parameters are those of `presage.surrogates.network.Layout`; their prior is standard normal for weights, normal for
logarithms of scales.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from presage import lbfgs
from presage.surrogates.linear_head import SMALLEST_NOISE, ScalePrior
from presage.surrogates.network import Layout, forward
from presage.warping import Warp


class Rows(NamedTuple):
    """What is learned from: Euclidean features of the points [n, D], standardised values [n], known noise [n]."""

    inputs: np.ndarray
    y: np.ndarray
    known: np.ndarray

    def take(self, rows: np.ndarray) -> "Rows":
        return Rows(self.inputs[rows], self.y[rows], self.known[rows])


class ThetaPrior(NamedTuple):
    """Means and standard deviations of theta, and the box that it is sought in, [p] each."""

    center: np.ndarray
    spread: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @staticmethod
    def of(layout: Layout, lengthscale: tuple[float, float], scales: ScalePrior, warped: bool) -> "ThetaPrior":
        d, weights = layout.d, layout.size - layout.d - 3
        # Distances in the cube grow with sqrt(d).
        laws = [(math.log(lengthscale[0] * math.sqrt(d)), lengthscale[1], math.log(0.02), math.log(1e3))] * d
        for (median, spread), low, high in ((scales.variance, 1e-2, 1e3), (scales.noise, SMALLEST_NOISE, 10.0)):
            laws.append((math.log(median), spread, math.log(low), math.log(high)))
        laws.append((1.0, 1.0, -1.0 if warped else 1.0, 1.0))
        scales_part = np.array(laws).T
        weights_part = np.array([[0.0], [1.0], [-8.0], [8.0]]) * np.ones(weights)
        return ThetaPrior(*np.hstack([scales_part, weights_part]))


def energy(
    theta: np.ndarray, layout: Layout, rows: Rows, chosen: np.ndarray, prior: ThetaPrior, mean_field: bool = False
) -> tuple[float, np.ndarray]:
    """-log p(y | theta) - log p(theta) up to a constant, the head's weights integrated out; and its derivative, [p].

    With rows divided by the square root of their noise, y ~ N(0, K), K = I + variance Phi Phi'; whichever of K and
    I + variance Phi'Phi is smaller is factorised.

    Args:
        theta: parameters, [p].
        layout: what they mean.
        rows: all rows; their values determine the warp.
        chosen: indices of those to explain.
        prior: of theta.
        mean_field: take the evidence bound of independent weights (`linear_head.MeanField`) instead of the evidence.
    """
    d, count = layout.d, len(chosen)
    variance, noise = np.exp(theta[d : d + 2]).tolist()
    warp, latent, latent_slope, log_scale_slope = Warp.of(rows.y, float(theta[d + 2]))
    inputs, values, known = rows.take(chosen)
    log_slope = warp.log_slope(values)
    known = known * np.exp(2.0 * log_slope)
    root = np.sqrt(noise + known)
    layers = layout.layers(theta)
    activations = forward(layers, inputs * layout.scale(theta))
    phi, y = layout.features(activations) / root[:, None], latent[chosen] / root
    dual = count <= phi.shape[1]
    small = variance * (phi @ phi.T if dual else phi.T @ phi)
    small[np.diag_indices(len(small))] += 1.0
    factor, failed = lapack.dpotrf(small, lower=1, overwrite_a=1)
    z = (theta - prior.center) / prior.spread
    gradient = z / prior.spread
    if failed:
        return math.inf, gradient
    half = np.tril(lapack.dpotri(factor, lower=1)[0])
    inverse = half + np.tril(half, -1).T
    if dual:
        solved, alpha, diagonal = inverse @ phi, inverse @ y, inverse.diagonal()
    else:  # K^-1 Phi = Phi (I + variance Phi'Phi)^-1, and K^-1 = I - variance K^-1 Phi Phi'
        solved = phi @ inverse
        alpha = y - variance * (solved @ (y @ phi))
        diagonal = 1.0 - variance * np.einsum("nm,nm->n", solved, phi)
    volume = float(np.log(factor.diagonal()).sum())  # log |K| / 2
    if mean_field:
        solid = 1.0 + variance * np.einsum("nm,nm->m", phi, phi)
        solved, volume = phi / solid, 0.5 * float(np.log(solid).sum())
        diagonal = 1.0 - variance * np.einsum("nm,nm->n", solved, phi)
    value = 0.5 * (z @ z + y @ alpha) + volume + float(np.log(root).sum() - log_slope.sum())
    cotangent = variance * (solved - np.outer(alpha, alpha @ phi))  # of phi
    gradient[d] += 0.5 * np.einsum("nm,nm->", cotangent, phi)
    by_noise = 0.5 * (diagonal - alpha**2) / root**2  # of each row's noise variance
    gradient[d + 1] += noise * by_noise.sum()
    stretch = np.log1p((values - warp.low) / warp.unit) - log_scale_slope
    gradient[d + 2] += (alpha / root) @ latent_slope[chosen] - stretch.sum() + 2.0 * (by_noise * known) @ stretch
    by_sums, by_inputs = layout.backward(layers, activations, cotangent / root[:, None])
    gradient[:d] -= np.bincount(
        layout.owners, weights=np.einsum("nk,nk->k", by_inputs, activations[0]), minlength=d
    )  # fmt: skip
    gradient[layout.weights_at] += layout.slope(activations, by_sums)
    return value, gradient


def learn(
    layout: Layout, rows: Rows, chosen: np.ndarray, prior: ThetaPrior, start: np.ndarray, *, evaluations: int,
    exponent: float | None, mean_field: bool,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """Theta of least energy near a start, and how often the energy was evaluated; a given exponent is held fixed."""
    center, spread, lower, upper = prior
    if exponent is not None:
        lower, upper = lower.copy(), upper.copy()
        lower[layout.d + 2] = upper[layout.d + 2] = exponent

    def batch(white: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [energy(center + spread * one, layout, rows, chosen, prior, mean_field) for one in white]
        return np.array([value for value, _ in parts]), np.array([spread * gradient for _, gradient in parts])

    # In units of the prior's width, or the noise, which has orders of magnitude to go, is the last to arrive.
    white = ((part - center) / spread for part in (start[None], lower, upper))
    found = lbfgs.minimize(batch, *white, evaluations=evaluations, gradient_tol=1e-2, value_tol=1e-5)
    return center + spread * found.x[0], found.evaluations


def refine(
    layout: Layout, rows: Rows, latent: np.ndarray, theta: np.ndarray, prior: ThetaPrior, *, steps: int, batch: int,
    rate: float, mean_field: bool, rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Adam on the energy of minibatches, theta [p]; the prior counts by the batch's share of the rows.

    The head is integrated out in each batch, as it is in `learn`. Learned along with the network, as one more layer,
    its weights lag behind features that are nearly collinear, and the network hardly moves. A batch has to have more
    rows than there are features. Step sizes are in units of the prior's width and fall to 0 as a cosine.
    """
    _, spread, lower, upper = prior
    at, first, second = theta.copy(), np.zeros_like(theta), np.zeros_like(theta)
    at[layout.d + 2] = 1.0  # what is explained is warped already
    weak = prior._replace(spread=spread * math.sqrt(len(latent) / batch))
    for step in range(1, steps + 1):
        some = rng.choice(len(latent), batch, replace=False)
        few = Rows(rows.inputs[some], latent[some], rows.known[some])
        value, gradient = energy(at, layout, few, np.arange(batch), weak, mean_field)
        if not math.isfinite(value):
            continue
        gradient[layout.d + 2] = 0.0
        gradient *= spread
        first += 0.1 * (gradient - first)
        second += 0.01 * (gradient**2 - second)
        size = rate * 0.5 * (1.0 + math.cos(math.pi * (step - 1) / steps))
        size *= math.sqrt(1.0 - 0.99**step) / (1.0 - 0.9**step)
        at = np.clip(at - size * spread * first / (np.sqrt(second) + 1e-12), lower, upper)
    at[layout.d + 2] = theta[layout.d + 2]
    return at
