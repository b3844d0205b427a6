"""A multilayer perceptron with its prior: where each weight stands in a position, and the density of positions.

A position is a vector of standard normal numbers and of the laws' latent ones; the map from it to weights carries
every scale, so all directions of the prior are of size 1. The output layer can be integrated out: given all else it
is linear regression. Its posterior is then known in closed form and the sampler moves the hidden layers only.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from presage.inference.laws import Gaussian, Law, LogNormal

Pieces = dict[str, tuple[int, tuple[int, ...]]]


def _erf(x: Any, xp: Any) -> Any:
    if xp is np:
        from scipy.special import erf
    else:
        from jax.scipy.special import erf
    return erf(x)


ACTIVATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "tanh": lambda x, xp: xp.tanh(x),
    "relu": lambda x, xp: xp.maximum(x, 0.0),
    "erf": _erf,
    "silu": lambda x, xp: 0.5 * x * (1.0 + xp.tanh(0.5 * x)),
    "step": lambda x, xp: xp.where(x > 0.0, 1.0, -1.0).astype(x.dtype),  # for draws from the prior; has no slope
}
SLOPES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {  # from what goes in and what comes out
    "tanh": lambda x, h: 1.0 - h * h,
    "relu": lambda x, h: (x > 0.0).astype(float),
    "erf": lambda x, h: 2.0 / math.sqrt(math.pi) * np.exp(-x * x),
    "silu": lambda x, h: 0.5 * (1.0 + np.tanh(0.5 * x)) * (1.0 + x - h),
}


class Weights(NamedTuple):
    """A network, or several with leading axes [...].

    Attributes:
        hidden: matrix [..., a, b] and bias [..., b] of each hidden layer.
        scale: prior standard deviations of the output weights and bias, [..., H + 1].
        output: output weights and bias in units of scale, [..., H + 1]; None where they are integrated out.
        noise: variance of an observation about the network, [...].
    """

    hidden: list[tuple[Any, Any]]
    scale: Any
    output: Any
    noise: Any


NOISE = LogNormal(0.01)


@dataclass(frozen=True)
class Network:
    """The prior of a network with one output.

    Args:
        inputs: number of inputs.
        widths: units of each hidden layer; () is a linear model.
        activation: tanh, relu, erf, silu, or step for draws from the prior.
        laws: of each layer's weights, the output layer last; one stands for all. Biases are Gaussian.
        weight: scale of each layer's weights times fan-in^(1/index), the output layer last. That of the first layer,
            where it is inferred, is one per group of inputs, and its bias has another with the same spread.
        bias: standard deviation of each layer's biases, the output layer last.
        noise: prior of the noise variance.
        smallest_noise: added to it.
        groups: for each input the group that it shares its scale with; each its own if empty.
        collapsed: whether the output layer is integrated out.
    """

    inputs: int
    widths: tuple[int, ...] = (50, 50, 50)
    activation: str = "tanh"
    laws: tuple[Law, ...] = (Gaussian(),)
    weight: tuple[LogNormal, ...] = (LogNormal(1.0),)
    bias: tuple[float, ...] = (1.0,)
    noise: LogNormal = NOISE
    smallest_noise: float = 0.0
    groups: tuple[int, ...] = ()
    collapsed: bool = True

    def layer(self, setting: tuple, index: int) -> Any:
        """A layer's own setting, or the one that stands for all."""
        return setting[index] if len(setting) > 1 else setting[0]

    @functools.cached_property
    def pieces(self) -> Pieces:
        """Where each array starts in a position, and its shape."""
        shapes: dict[str, tuple[int, ...]] = {}
        sizes = (self.inputs, *self.widths, 1)
        for i, (a, b) in enumerate(itertools.pairwise(sizes)):
            last = i == len(self.widths)
            if not (last and self.collapsed):
                shapes[f"weight{i}"], shapes[f"bias{i}"] = (a, b), (b,)
            shapes[f"latent{i}"] = (self.layer(self.laws, i).latents, a, b)
            if self.layer(self.weight, i).spread:
                shapes[f"scale{i}"] = (2 + max(self._groups),) if i == 0 else (1,)
        if self.noise.spread:
            shapes["noise"] = ()
        starts = np.cumsum([0, *(math.prod(shape) for shape in shapes.values())]).tolist()
        return {name: (start, shape) for start, (name, shape) in zip(starts, shapes.items(), strict=False)}

    @property
    def _groups(self) -> tuple[int, ...]:
        return self.groups or tuple(range(self.inputs))

    @property
    def size(self) -> int:
        """Numbers in a position."""
        start, shape = list(self.pieces.values())[-1]
        return start + math.prod(shape)

    def piece(self, position: Any, name: str) -> Any:
        """One array of each position [..., p]."""
        start, shape = self.pieces[name]
        return position[..., start : start + math.prod(shape)].reshape((*position.shape[:-1], *shape))

    def split(self, position: Any, xp: Any) -> dict[str, Any]:
        """All arrays of each position [..., p]; the derivative of one cut into all is cheaper than of many slices."""
        parts = xp.split(position, [start for start, _ in self.pieces.values()][1:], axis=-1)
        batch = position.shape[:-1]
        shapes = {name: shape for name, (_, shape) in self.pieces.items()}
        return {name: part.reshape((*batch, *shapes[name])) for name, part in zip(shapes, parts, strict=True)}

    def scales(self, parts: dict[str, Any], i: int, xp: Any) -> tuple[Any, Any]:
        """Scales of a layer's weights, [..., a or 1, 1], and of its biases, [..., 1], fan-in apart."""
        prior, bias = self.layer(self.weight, i), self.layer(self.bias, i)
        if not prior.spread:
            return prior.median, bias
        factor = xp.exp(prior.spread * parts[f"scale{i}"])
        if i:
            return prior.median * factor[..., None], bias
        return prior.median * factor[..., list(self._groups)][..., None], bias * factor[..., -1:]

    def weights(self, position: Any, xp: Any = np) -> Weights:
        """The network, or networks, at positions [..., p]."""
        batch, parts = position.shape[:-1], self.split(position, xp)
        hidden: list[tuple[Any, Any]] = []
        for i, a in enumerate((self.inputs, *self.widths)):
            law = self.layer(self.laws, i)
            weight_scale, bias_scale = self.scales(parts, i, xp)
            variance = law.variance(xp.moveaxis(parts[f"latent{i}"], -3, 0), xp)
            deviation = xp.sqrt(variance) * (a ** (-1.0 / law.index) * weight_scale)
            if i < len(self.widths):
                matrix = parts[f"weight{i}"] * deviation
                hidden.append((matrix, parts[f"bias{i}"] * bias_scale))
        last = len(self.widths)
        bias_scale = xp.broadcast_to(xp.asarray(bias_scale, dtype=position.dtype), (*batch, 1))
        scale = xp.concatenate([deviation[..., 0], bias_scale], axis=-1)
        output = None
        if not self.collapsed:
            output = xp.concatenate([parts[f"weight{last}"][..., 0], parts[f"bias{last}"]], axis=-1)
        noise = xp.full(batch, self.noise.median, position.dtype)
        if self.noise.spread:
            noise = noise * xp.exp(self.noise.spread * parts["noise"])
        return Weights(hidden, scale, output, self.smallest_noise + noise)

    def basis(self, weights: Weights, x: Any, xp: Any = np) -> Any:
        """Last hidden layer times the output's prior scale, and the bias, at inputs [n, D], [..., n, H + 1]."""
        h = x
        for matrix, bias in weights.hidden:
            h = ACTIVATIONS[self.activation](h @ matrix + bias[..., None, :], xp)
        ones = xp.ones((*weights.scale.shape[:-1], x.shape[-2], 1), weights.scale.dtype)
        h = xp.broadcast_to(h, (*ones.shape[:-1], h.shape[-1]))
        return xp.concatenate([h, ones], axis=-1) * weights.scale[..., None, :]

    def pull_back(self, weights: Weights, x: np.ndarray, seed: np.ndarray) -> np.ndarray:
        """The derivative of sum(seed * basis) in the inputs [n, D], [..., n, D]; seed is [..., n, H + 1]."""
        kept, h = [], x
        for matrix, bias in weights.hidden:
            before = h @ matrix + bias[..., None, :]
            h = ACTIVATIONS[self.activation](before, np)
            kept.append((before, h))
        back = (seed * weights.scale[..., None, :])[..., :-1]
        for (matrix, _), (before, h) in zip(reversed(weights.hidden), reversed(kept), strict=True):
            back = (back * SLOPES[self.activation](before, h)) @ np.swapaxes(matrix, -1, -2)
        return back

    def basis_slope(self, weights: Weights, x: np.ndarray) -> np.ndarray:
        """The derivatives of the basis at [n, D] in the inputs, [..., n, D, H + 1]."""
        h, slope = x, np.broadcast_to(np.eye(x.shape[1]), (*x.shape, x.shape[1]))
        for matrix, bias in weights.hidden:
            before = h @ matrix + bias[..., None, :]
            h = ACTIVATIONS[self.activation](before, np)
            slope = (slope @ matrix[..., None, :, :]) * SLOPES[self.activation](before, h)[..., None, :]
        still = np.zeros((*slope.shape[:-1], 1))  # of the bias
        return np.concatenate([slope, still], axis=-1) * weights.scale[..., None, None, :]

    def log_prior(self, position: Any, xp: Any) -> Any:
        """Log density of a position [p] up to a constant."""
        total = -0.5 * (position @ position)
        for i in range(len(self.widths) + 1):
            law = self.layer(self.laws, i)
            if law.latents:
                u = self.piece(position, f"latent{i}")
                total = total + 0.5 * (u * u).sum() + law.log_density(u, xp).sum()
        return total

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Positions from the prior, [count, p]."""
        position = rng.standard_normal((count, self.size))
        for i in range(len(self.widths) + 1):
            start, shape = self.pieces[f"latent{i}"]
            u = self.layer(self.laws, i).draw((count, *shape[1:]), rng)
            position[:, start : start + math.prod(shape)] = np.moveaxis(u, 0, 1).reshape(count, -1)
        return position

    def __call__(self, position: Any, data: "Data") -> Any:
        """Log density of a position [p] given data, up to a constant; runs inside jit.

        The network itself is this function, since equal networks are then equal programs; bound methods are not.
        """
        import jax.numpy as jnp

        weights = self.weights(position, jnp)
        noise = jnp.where(data.mask, data.noise + weights.noise, 1.0)
        # Units first, rows last, and biases as a product, whose derivative is one too and not a sum over rows: the
        # gradient takes two thirds of the time that it takes through `basis`.
        one = jnp.ones((1, len(data.x)), position.dtype)
        h = data.x.T
        for matrix, bias in weights.hidden:
            h = ACTIVATIONS[self.activation](matrix.T @ h + bias[:, None] @ one, jnp)
        h = jnp.concatenate([h, one])
        if weights.output is None:
            likelihood = evidence(h * (weights.scale[:, None] * data.mask), data.y, noise)
        else:
            error = (data.y - (weights.scale * weights.output) @ h) * data.mask
            likelihood = -0.5 * (error @ (error / noise) + jnp.log(noise).sum())
        return self.log_prior(position, jnp) + likelihood


class Data(NamedTuple):
    """What a network is conditioned on: inputs [n, D], values [n], known noise variances [n], rows that count [n]."""

    x: Any
    y: Any
    noise: Any
    mask: Any


def evidence(basis: Any, y: Any, noise: Any) -> Any:
    """log N(y; 0, basis' basis + diag(noise)) up to a constant.

    Args:
        basis: [H, n]; zero where a value does not count.
        y: [n]; zero there.
        noise: variances, [n]; 1 there.
    """
    import jax.numpy as jnp

    root = jnp.sqrt(noise)
    return _unit_evidence()(basis / root, y / root) - 0.5 * jnp.log(noise).sum()


@functools.cache
def _unit_evidence() -> Callable[[Any, Any], Any]:
    """log N(y; 0, A' A + I) up to a constant, A [H, n], by whichever of the two Gram matrices is smaller.

    Its derivatives are written out: in A they cost one product of matrices, where differentiation through a Cholesky
    factor and both sides of A' A costs several.
    """
    import jax
    import jax.numpy as jnp
    from jax.lax.linalg import cholesky, triangular_solve

    def inverse(K: Any) -> tuple[Any, Any]:
        """(K + I)^-1 and log det (K + I)."""
        one = jnp.eye(len(K), dtype=K.dtype)
        factor = cholesky(K + one, symmetrize_input=False)
        back = triangular_solve(factor, one, left_side=True, lower=True)
        return back.T @ back, 2.0 * jnp.log(jnp.diagonal(factor)).sum()

    def forward(A: Any, y: Any) -> tuple[Any, tuple[Any, Any]]:
        width, n = A.shape
        if n <= width:
            K, log_det = inverse(A.T @ A)
            a = K @ y
            return -0.5 * (y @ a + log_det), (jnp.outer(A @ a, a) - A @ K, -a)
        K, log_det = inverse(A @ A.T)
        m = K @ (A @ y)
        error = y - m @ A
        return -0.5 * (error @ error + m @ m + log_det), (jnp.outer(m, error) - K @ A, -error)

    def backward(slopes: tuple[Any, Any], by_value: Any) -> tuple[Any, Any]:
        return by_value * slopes[0], by_value * slopes[1]

    unit = jax.custom_vjp(lambda A, y: forward(A, y)[0])
    unit.defvjp(forward, backward)
    return unit
