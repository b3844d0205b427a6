"""A small autoencoder: few numbers from which many can be told, learned from examples, in plain NumPy."""

import math
from typing import NamedTuple

import numpy as np

from presage import lbfgs

DECAY = 1e-4  # of the squared weights of the curved part, against a loss of 1/2 where nothing is learned
FIRST = 0.1  # size of what the curved part adds before it has learned


class Autoencoder(NamedTuple):
    """Codes c = U0 z + U2 tanh(U1 z + u), z = (features - center); back by center + V0 c + V2 tanh(V1 c + v) + a.

    Without the curved parts these are principal components, which is where learning starts. (Hinton & Salakhutdinov,
    2006, have stacked layers instead.)

    Attributes:
        center: of the examples, [D].
        weights: U0 [k, D], U1 [h, D], u [h], U2 [k, h], V0 [D, k], V1 [h, k], v [h], V2 [D, h], a [D], one after the
            other.
        low: least code of an example, [k].
        high: largest code of an example, [k].
        variance: of the examples, all features together.
    """

    center: np.ndarray
    weights: np.ndarray
    low: np.ndarray
    high: np.ndarray
    variance: np.ndarray

    def encode(self, features: np.ndarray) -> np.ndarray:
        """Codes of features [n, D], in [0, 1]^k for the examples."""
        U0, U1, u, U2, *_ = self._parts()
        z = features - self.center
        return (z @ U0.T + np.tanh(z @ U1.T + u) @ U2.T - self.low) / (self.high - self.low)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Features [n, D] of codes [n, k]."""
        *_, V0, V1, v, V2, a = self._parts()
        c = self.low + (self.high - self.low) * codes
        return self.center + c @ V0.T + np.tanh(c @ V1.T + v) @ V2.T + a

    def _parts(self) -> list[np.ndarray]:
        D, k = len(self.center), len(self.low)
        width = (len(self.weights) - 2 * D * k - D) // (2 * D + 2 * k + 2)
        return split(self.weights, D, k, width)


def split(weights: np.ndarray, D: int, k: int, width: int) -> list[np.ndarray]:
    """The matrices and biases of a vector of weights, as in Autoencoder."""
    shapes = [(k, D), (width, D), (width,), (k, width), (D, k), (width, k), (width,), (D, width), (D,)]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(weights, ends[:-1]), shapes, strict=True)]


def loss(weights: np.ndarray, z: np.ndarray, share: np.ndarray, k: int, width: int) -> tuple[float, np.ndarray]:
    """Half the share of the examples' variance that is lost, with the decay of weights; and its derivative, [p].

    Args:
        weights: [p].
        z: features less their center, [n, D].
        share: how much each row counts, over the variance, [n].
        k: length of codes.
        width: hidden units.
    """
    D = z.shape[1]
    U0, U1, u, U2, V0, V1, v, V2, a = split(weights, D, k, width)
    into = np.tanh(z @ U1.T + u)
    code = z @ U0.T + into @ U2.T
    out = np.tanh(code @ V1.T + v)
    left = code @ V0.T + out @ V2.T + a - z
    pull = share[:, None] * left
    value = 0.5 * float(np.einsum("nd,nd->", pull, left))
    by_out = (pull @ V2) * (1.0 - out**2)
    by_code = pull @ V0 + by_out @ V1
    by_into = (by_code @ U2) * (1.0 - into**2)
    gradient = np.concatenate([
        part.ravel()
        for part in (by_code.T @ z, by_into.T @ z, by_into.sum(axis=0), by_code.T @ into, pull.T @ code,
                     by_out.T @ code, by_out.sum(axis=0), pull.T @ out, pull.sum(axis=0))
    ])  # fmt: skip
    decayed = np.zeros_like(weights)
    for i in (1, 3, 5, 7):  # U1, U2, V1, V2
        split(decayed, D, k, width)[i][:] = DECAY
    return value + 0.5 * float(decayed @ weights**2), gradient + decayed * weights


def learn(
    features: np.ndarray, weight: np.ndarray, k: int, width: int, *, evaluations: int, rng: np.random.Generator
) -> Autoencoder:
    """The autoencoder of some examples.

    Args:
        features: [n, D].
        weight: how much each example counts, [n].
        k: length of codes.
        width: hidden units of the encoder and of the decoder.
        evaluations: of the loss.
        rng: draws the first weights.
    """
    D = features.shape[1]
    weight = weight / weight.sum()
    center = weight @ features
    z = features - center
    variance = float(weight @ np.square(z).sum(axis=1))
    share = weight / max(variance, 1e-12)
    # Principal components first; directions that the examples do not have are drawn, so that codes are never stuck.
    _, size, axes = np.linalg.svd(np.sqrt(weight)[:, None] * z, full_matrices=False)
    size, axes = size[:k], axes[:k]
    missing = k - len(axes)
    axes = np.vstack([axes, rng.standard_normal((missing, D)) / math.sqrt(D)])
    scale = np.maximum(np.append(size, np.zeros(missing)), 1e-3)
    parts = [
        axes / scale[:, None], rng.standard_normal((width, D)) / np.sqrt(max(variance, 1e-12)), np.zeros(width),
        FIRST * rng.standard_normal((k, width)) / math.sqrt(width), (axes * scale[:, None]).T,
        rng.standard_normal((width, k)) / math.sqrt(k), rng.standard_normal(width), np.zeros((D, width)), np.zeros(D),
    ]  # fmt: skip
    start = np.concatenate([part.ravel() for part in parts])

    def batch(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = [loss(point, z, share, k, width) for point in points]
        return np.array([value for value, _ in found]), np.array([gradient for _, gradient in found])

    weights = lbfgs.minimize(
        batch, start[None], -np.inf, np.inf, evaluations=evaluations, gradient_tol=1e-6, value_tol=1e-6
    ).x[0]
    raw = Autoencoder(center, weights, np.zeros(k), np.ones(k), np.array(variance)).encode(features)
    low, high = raw.min(axis=0), raw.max(axis=0)
    room = np.maximum(0.05 * (high - low), 1e-6)
    return Autoencoder(center, weights, low - room, high + room, np.array(variance))
