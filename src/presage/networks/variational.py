"""Mean-field Gaussian networks: one padded network at a time, to be vectorised by `presage.networks.training`."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logsumexp

from presage.networks.functions import Functions
from presage.networks.mlp import ACTIVATIONS, Array, Masks, Shape, layer_numbers, layer_sizes, masks, normal
from presage.networks.programs import unraveller
from presage.networks.training import Cohort

TINY = 1e-12  # least variance of a pre-activation; its square root has no slope at 0


class Layer(NamedTuple):
    """Means and log standard deviations of the weights [inputs, outputs] and biases [outputs]."""

    weight: Array
    log_weight_stddev: Array
    bias: Array
    log_bias_stddev: Array


class Parameters(NamedTuple):
    """Layers, output layer last, the log variance of the noise (of standardised values), and its tails.

    `log_tail` is log(degrees of freedom - 2) of a Student law, and no number at all, (), where the noise is normal.
    """

    layers: list[Layer]
    log_noise: Array
    log_tail: Any = ()


@dataclass(frozen=True)
class Variational:
    """How a variational network is made and scored.

    Args:
        activation: relu, tanh or silu.
        heteroskedastic: a second output is added to the log variance of the noise; else that is one learned number.
        hyperprior: shape and scale of the inverse-gamma law of each prior variance, or None to keep it as it is given.
        samples: Monte Carlo samples in training.
        local: draw pre-activations (local reparametrisation) instead of weights.
        head_delay: steps before the second head joins. Trained from the start, it explains as noise what the mean has
            not learned yet, and then nothing pulls the mean there any more.
        warmup: steps over which the weight of the KL rises to 1.
        initial_stddev: of the weights, times 1 / sqrt(inputs of the layer). Small ones let the means learn first.
        tails: the noise has a Student law whose degrees of freedom are learned; else it is normal.
    """

    activation: str = "relu"
    heteroskedastic: bool = False
    hyperprior: tuple[float, float] | None = (4.4798, 5.4798)
    samples: int = 10
    local: bool = True
    head_delay: int = 0
    warmup: int = 0
    initial_stddev: float = 0.1
    tails: bool = False

    @property
    def options(self) -> dict[str, float]:
        """What may differ between networks of one program, with its defaults: variances of prior and first noise."""
        return {"prior_variance": 1.0, "initial_noise": 0.1}

    def outputs(self) -> int:
        return 2 if self.heteroskedastic else 1

    def init(self, key: Array, widths: Array, options: dict[str, Array], shape: Shape) -> Parameters:
        """Means of He's size, small standard deviations."""
        exist, sizes = masks(widths, shape), layer_sizes(shape)
        numbers = layer_numbers(shape.depth)
        rows = max(inputs for inputs, _ in sizes)
        draws = normal(key, 1, rows, [outputs for _, outputs in sizes], numbers)
        layers = []
        for draw, (inputs, outputs), source in zip(draws, sizes, exist.sources, strict=True):
            fan_in = source.sum()
            log_stddev = jnp.log(self.initial_stddev / jnp.sqrt(fan_in))
            layers.append(
                Layer(
                    draw[0, :inputs] * jnp.sqrt(2.0 / fan_in), jnp.full((inputs, outputs), log_stddev),
                    jnp.zeros(outputs), jnp.full(outputs, log_stddev),
                )
            )  # fmt: skip
        if self.heteroskedastic:  # the head of the variance begins at 0
            layers[-1] = layers[-1]._replace(weight=layers[-1].weight.at[:, 1].set(0.0))
        return Parameters(layers, jnp.log(options["initial_noise"]), jnp.log(8.0) if self.tails else ())

    def forward(self, params: Parameters, exist: Masks, x: Array, key: Array, samples: int) -> Array:
        """Outputs at points [n, d] under draws of the weights, [samples, n, outputs]."""
        every = jnp.ones(params.layers[-1].bias.shape, bool)
        targets = [*exist.units, every]
        layers = [masked(*triple) for triple in zip(params.layers, exist.sources, targets, strict=True)]
        units = [len(layer.bias) for layer in layers]
        rows = len(x) if self.local else 1 + max(len(layer.mean) for layer in layers)
        draws = normal(key, samples, rows, units, layer_numbers(len(exist.present)))
        apply, activation = _local if self.local else _weights, ACTIVATIONS[self.activation]
        h = x[None]
        for number, (layer, draw, target) in enumerate(zip(layers, draws, targets, strict=True)):
            pre = apply(draw.astype(x.dtype), h, layer)
            if number == len(layers) - 1:
                break
            after = activation(pre) * target
            h = after if number == 0 else jnp.where(exist.present[number], after, h)
        return pre

    def log_likelihood(self, params: Parameters, out: Array, y: Array, head: Array | float = 1.0) -> Array:
        """Log density of standardised values [n] under each draw, [samples, n]."""
        log_variance = self.log_noise(params, out, head)
        square = (y - out[..., 0]) ** 2 * jnp.exp(-log_variance)
        if not self.tails:
            return -0.5 * (math.log(2.0 * math.pi) + log_variance + square)
        excess = jnp.exp(params.log_tail)
        half = 0.5 * (excess + 3.0)  # of degrees of freedom and 1; the scale is such that the variance is as given
        constant = gammaln(half) - gammaln(half - 0.5) - 0.5 * (math.log(math.pi) + params.log_tail)
        return constant - 0.5 * log_variance - half * jnp.log1p(square / excess)

    def log_noise(self, params: Parameters, out: Array, head: Array | float = 1.0) -> Array:
        """Log variance of the noise; variances below e^-12 and above e^6 of the values' own are not needed."""
        return jnp.clip(params.log_noise + (head * out[..., 1] if self.heteroskedastic else 0.0), -12.0, 6.0)

    def kl(self, params: Parameters, exist: Masks, options: dict[str, Array], head: Array | float = 1.0) -> Array:
        """KL(q || p(w | s)) - log p(s), at the best s where there is a hyperprior (S4, eq. 2.15 to 2.17, corrected).

        A second head that has not joined yet does not count: the KL alone would make noise of it.
        """
        total = jnp.zeros(())
        present = jnp.append(exist.present, True)
        targets = [*exist.units, (jnp.arange(len(params.layers[-1].bias)) < 1) | (jnp.asarray(head) > 0.0)]
        for number, (layer, source, target) in enumerate(zip(params.layers, exist.sources, targets, strict=True)):
            both = source[:, None] & target[None]
            part = self._kl(layer.weight, layer.log_weight_stddev, both, options)
            part += self._kl(layer.bias, layer.log_bias_stddev, target, options)
            total += jnp.where(present[number], part, 0.0)
        return total

    def _kl(self, mean: Array, log_stddev: Array, mask: Array, options: dict[str, Array]) -> Array:
        each, s = self._each_kl(mean, log_stddev, mask, options)
        return each.sum() + (0.0 if self.hyperprior is None else negative_log_inverse_gamma(s, *self.hyperprior))

    def _each_kl(self, mean: Array, log_stddev: Array, mask: Array, options: dict[str, Array]) -> tuple[Array, Array]:
        """KL of each weight, 0 for absent ones, and the prior variance of all of them."""
        square = jnp.where(mask, mean**2 + jnp.exp(2.0 * log_stddev), 0.0)
        if self.hyperprior is None:
            s = options["prior_variance"]
        else:
            s = best_variance(square.sum(), mask.sum(), *self.hyperprior)
        return jnp.where(mask, 0.5 * (jnp.log(s) - 1.0 + square / s) - log_stddev, 0.0), s

    def loss(
        self, params: Parameters, widths: Array, options: dict[str, Array], shape: Shape, *,
        x: Array, y: Array, weight: Array, count: Array, key: Array, step: Array,
    ) -> Array:  # fmt: skip
        """Negative ELBO per row, from a batch whose rows [b] have weights that sum to 1 in expectation."""
        exist = masks(widths, shape)
        out = self.forward(params, exist, x, key, self.samples)
        head = jnp.where(step >= self.head_delay, 1.0, 0.0)
        fit = (weight * self.log_likelihood(params, out, y, head).mean(axis=0)).sum()
        share = jnp.minimum(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return share * self.kl(params, exist, options, head) / count - fit

    def predict(
        self, params: Parameters, widths: Array, shape: Shape, x: Array, y: Array, key: Array, samples: int
    ) -> tuple[Array, Array]:
        """Log density of standardised values [n] under the mixture of all draws, and its mean, [n] each."""
        out = self.forward(params, masks(widths, shape), x, key, samples)
        log_density = logsumexp(self.log_likelihood(params, out, y), axis=0) - math.log(samples)
        return log_density, out[..., 0].mean(axis=0)

    def activity(self, params: Parameters, widths: Array, options: dict[str, Array], shape: Shape) -> Array:
        """Mean KL of the weights into each hidden unit, [depth, width]; 0 for absent units."""
        exist = masks(widths, shape)
        rows = []
        for layer, source, target in zip(params.layers[:-1], exist.sources[:-1], exist.units, strict=True):
            both = source[:, None] & target[None]
            each = self._each_kl(layer.weight, layer.log_weight_stddev, both, options)[0]
            rows.append(each.sum(axis=0) / jnp.maximum(source.sum(), 1))
        return jnp.stack(rows)


def best_variance(square: Array, count: Array, alpha: float, beta: float) -> Array:
    """The prior variance that minimises KL - log p(s): eq. 2.17 of S4, `square` being the trace there."""
    return (square + 2.0 * beta) / (count + 2.0 * alpha + 2.0)


def negative_log_inverse_gamma(s: Array, alpha: float, beta: float) -> Array:
    """-log p(s) of the inverse-gamma law."""
    return (alpha + 1.0) * jnp.log(s) + beta / s - alpha * math.log(beta) + gammaln(alpha)


class Law(NamedTuple):
    """Means and variances of weights [inputs, outputs] and biases [outputs]."""

    mean: Array
    variance: Array
    bias: Array
    bias_variance: Array


def masked(layer: Layer, source: Array, target: Array) -> Law:
    """The law of a layer's weights, 0 where they do not exist."""
    both = source[:, None] & target[None]
    return Law(
        jnp.where(both, layer.weight, 0.0), jnp.where(both, jnp.exp(2.0 * layer.log_weight_stddev), 0.0),
        jnp.where(target, layer.bias, 0.0), jnp.where(target, jnp.exp(2.0 * layer.log_bias_stddev), 0.0),
    )  # fmt: skip


def _local(draw: Array, h: Array, law: Law) -> Array:
    """Pre-activations drawn row by row (S4, eq. 2.11): [samples or 1, n, inputs] to [samples, n, outputs]."""
    spread = jnp.sqrt(jnp.maximum(h**2 @ law.variance + law.bias_variance, TINY))
    return h @ law.mean + law.bias + spread * draw


def _weights(draw: Array, h: Array, law: Law) -> Array:
    """Pre-activations under weights drawn once per sample (S4, eq. 2.9)."""
    weight, bias = draw_weights(draw, law)
    return h @ weight + bias[:, None]


def draw_weights(draw: Array, law: Law) -> tuple[Array, Array]:
    """Weights [samples, inputs, outputs] and biases [samples, outputs]; the biases' row is 0, whatever the padding."""
    weight = law.mean + root(law.variance) * draw[:, 1 : len(law.mean) + 1]
    return weight, law.bias + root(law.bias_variance) * draw[:, 0]


def root(variance: Array) -> Array:
    """Standard deviations; masked entries stay 0 and have no slope."""
    return jnp.where(variance > 0.0, jnp.sqrt(jnp.where(variance > 0.0, variance, 1.0)), 0.0)


class Posterior(NamedTuple):
    """One trained network without padding, in float64.

    Attributes:
        layers: laws of the weights, output layer last.
        log_noise: log variance of the noise of standardised values.
        freedom: degrees of freedom of the noise, infinite where it is normal.
        activation: relu, tanh or silu.
        x_center, x_scale: of the inputs, [d].
        y_center, y_scale: of the values.
    """

    layers: list[Law]
    log_noise: float
    freedom: float
    activation: str
    x_center: np.ndarray
    x_scale: np.ndarray
    y_center: float
    y_scale: float

    def draw(self, count: int, rng: np.random.Generator) -> Functions:
        """Functions drawn from the posterior; a second output, if there is one, adds to `log_noise`."""
        plain = []
        for law in self.layers:
            weight = law.mean + np.sqrt(law.variance) * rng.standard_normal((count, *law.mean.shape))
            plain.append((weight, law.bias + np.sqrt(law.bias_variance) * rng.standard_normal((count, len(law.bias)))))
        x_center, x_scale = (np.broadcast_to(a, (count, len(a))) for a in (self.x_center, self.x_scale))
        y_center, y_scale = (np.full(count, a) for a in (self.y_center, self.y_scale))
        there = [np.ones(count, bool)] * (len(plain) - 1)
        return Functions.of(plain, there, self.activation, x_center, x_scale, y_center, y_scale)


def posterior(cohort: Cohort, which: int = 0) -> Posterior:
    """One network of a cohort."""
    params = unraveller(cohort.family, cohort.shape)(cohort.state.params[which])
    widths = [int(width) for width in cohort.networks.widths[which] if width > 0]
    sizes = [cohort.shape.inputs, *widths, cohort.shape.outputs]
    layers, there = [], (*params.layers[: len(widths)], params.layers[-1])
    for layer, inputs, outputs in zip(there, sizes[:-1], sizes[1:], strict=True):
        weight, log_weight_stddev, bias, log_bias_stddev = (np.asarray(a, dtype=np.float64) for a in layer)
        layers.append(
            Law(
                weight[:inputs, :outputs], np.exp(2.0 * log_weight_stddev[:inputs, :outputs]), bias[:outputs],
                np.exp(2.0 * log_bias_stddev[:outputs]),
            )
        )  # fmt: skip
    n = cohort.networks
    x_center, x_scale, y_center, y_scale = (
        np.asarray(a[which], dtype=np.float64) for a in (n.x_center, n.x_scale, n.y_center, n.y_scale)
    )
    freedom = 2.0 + math.exp(params.log_tail) if cohort.family.tails else math.inf
    return Posterior(
        layers, float(params.log_noise), freedom, cohort.family.activation, x_center, x_scale, float(y_center),
        float(y_scale),
    )  # fmt: skip
