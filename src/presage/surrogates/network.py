"""A small tanh network whose hidden units are features of a linear model; derivatives written out, in NumPy.

Compiled code would have to be compiled for every shape; at the sizes of a study NumPy's matrix products are all of
the cost either way.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from presage.kernels import Axes
from presage.observations import Column

BIAS, WEIGHT = 1.0, 1.5  # standard deviations of a unit's bias, and of what all its inputs together bring it
UNITS = 1.5  # the features' joint length, about: tanh units of such inputs have a root mean square of 2/3
LEASH = 0.2  # how far weights move from those a network was born with, in units of these (docs/neural.md)
HYPER = 3  # hyperparameters besides the lengthscales: log variance, log noise variance, exponent of the warp


class Layer(NamedTuple):
    """Weights [inputs, units] and biases [units]."""

    weights: np.ndarray
    biases: np.ndarray


@dataclass(frozen=True)
class Layout:
    """Where things are in the parameter vector theta of a network.

    theta = (log lengthscale of each column [d], log variance, log noise variance, exponent, weights and biases). The
    weights are kept as their distance from those the network was born with, in units of their prior's width, so that
    one standard normal is the prior of each.

    Attributes:
        columns: of the inputs.
        widths: units of each hidden layer.
        every: the inputs, squares of numbers and all hidden units are features, not only the units of the last layer.
        seed: of the weights that the network was born with.
    """

    columns: tuple[Column, ...]
    widths: tuple[int, ...]
    every: bool
    seed: tuple[int, ...]

    @cached_property
    def owners(self) -> np.ndarray:
        """For each input of the network its column, [D]."""
        return Axes(self.columns).owner

    @cached_property
    def numbers(self) -> int:
        """Inputs that are numbers; they come first."""
        return len(Axes(self.columns).numeric)

    @property
    def d(self) -> int:
        return len(self.columns)

    @property
    def weights_at(self) -> slice:
        """Where the weights are in theta."""
        return slice(self.d + HYPER, None)

    @property
    def num_features(self) -> int:
        """Features, the constant one included."""
        return 1 + (len(self.owners) + self.numbers + sum(self.widths) if self.every else self.widths[-1])

    @property
    def born(self) -> tuple[np.ndarray, np.ndarray]:
        """The weights and biases that the network was born with, and the widths of their priors, [w] each."""
        return _born(len(self.owners), self.widths, self.seed)

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.d + HYPER + len(self.born[0])

    def layers(self, theta: np.ndarray) -> list[Layer]:
        """The layers of the network, as its inputs see them after division by their lengthscales."""
        start, width = self.born
        weights, inputs, at, found = start + width * theta[self.weights_at], len(self.owners), 0, []
        for units in self.widths:
            stop = at + inputs * units
            found.append(Layer(weights[at:stop].reshape(inputs, units), weights[stop : stop + units]))
            inputs, at = units, stop + units
        return found

    def scale(self, theta: np.ndarray) -> np.ndarray:
        """1 / lengthscale of each input, [D]."""
        return np.exp(-theta[: self.d])[self.owners]

    def features(self, activations: Sequence[np.ndarray]) -> np.ndarray:
        """The constant, inputs, squares of numbers, and hidden units, [n, M]; the latter together of length one, about.

        A network that cannot know yet where f bends sees at once where it rises, and in twenty dimensions a bowl takes
        40 features that are its own instead of hundreds that are not.
        """
        inputs, hidden = activations[0], activations[1:] if self.every else activations[-1:]
        found, at = np.ones((*hidden[0].shape[:-1], self.num_features)), 1
        if self.every:
            squares = 1 + inputs.shape[-1]
            at = squares + self.numbers
            found[..., 1:squares] = inputs
            np.square(inputs[..., : self.numbers], out=found[..., squares:at])
        for units in hidden:
            np.multiply(units, self._length, out=found[..., at : at + units.shape[-1]])
            at += units.shape[-1]
        return found

    @cached_property
    def _length(self) -> float:
        """Of a hidden unit as a feature."""
        return UNITS / math.sqrt(sum(self.widths) if self.every else self.widths[-1])

    def backward(
        self, layers: Sequence[Layer], activations: Sequence[np.ndarray], cotangent: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Derivatives of sum(cotangent * features) in the sums that units see, [n, units], and in the inputs, [n, D].

        Like `features` and `forward` it takes several networks at once, along a first axis of every array.

        Args:
            layers: the network.
            activations: of `forward`.
            cotangent: [n, M].
        """
        direct = np.zeros(1)
        parts = [np.zeros(1)] * (len(layers) - 1) + [cotangent[..., 1:]]
        if self.every:
            sizes = [len(self.owners), self.numbers, *self.widths]
            linear, square, *parts = np.split(cotangent[..., 1:], np.cumsum(sizes)[:-1], axis=-1)
            direct = linear.copy()
            direct[..., : self.numbers] += 2.0 * activations[0][..., : self.numbers] * square
        found, above = [], np.zeros(1)
        for depth in reversed(range(len(layers))):
            found.append((self._length * parts[depth] + above) * (1.0 - activations[depth + 1] ** 2))
            above = found[-1] @ np.swapaxes(layers[depth].weights, -1, -2)
        return found[::-1], above + direct

    def slope(self, activations: Sequence[np.ndarray], by_sums: Sequence[np.ndarray]) -> np.ndarray:
        """The derivative in the weights as theta holds them, [w], from those in the units' sums."""
        parts = [(below.T @ inner, inner.sum(axis=0)) for below, inner in zip(activations, by_sums, strict=False)]
        return np.concatenate([part.ravel() for layer in parts for part in layer]) * self.born[1]


@lru_cache(maxsize=64)  # every suggestion asks, and the answer does not change
def _born(inputs: int, widths: tuple[int, ...], seed: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    rng, start, width = np.random.default_rng(seed), [], []
    for depth, units in enumerate(widths):
        # Lengthscales set the size of the first layer's inputs; a unit of a later one averages over its inputs.
        spread = WEIGHT / math.sqrt(inputs) if depth else WEIGHT
        for size, scale in ((inputs * units, spread), (units, BIAS)):
            start.append(scale * rng.standard_normal(size))
            width.append(np.full(size, LEASH * scale))
        inputs = units
    return np.concatenate(start), np.concatenate(width)


def forward(layers: Sequence[Layer], inputs: np.ndarray) -> list[np.ndarray]:
    """Inputs [n, D] and the activations of each layer, [n, units]."""
    found = [inputs]
    for weights, biases in layers:
        found.append(tanh(found[-1] @ weights + biases))
    return found


def tanh(x: np.ndarray) -> np.ndarray:
    """1 - 2 / (exp(2 x) + 1), in place; half the time of NumPy's, and as good where 1e-16 of 1 is nothing."""
    np.minimum(x, 20.0, out=x)  # where tanh is 1
    x += x
    np.exp(x, out=x)
    x += 1.0
    np.divide(-2.0, x, out=x)
    x += 1.0
    return x


@dataclass(frozen=True)
class Basis:
    """A network with its parameters: features of points, and derivatives in the points.

    Attributes:
        layout: what the parameters mean.
        theta: the parameters.
    """

    layout: Layout
    theta: np.ndarray

    @cached_property
    def layers(self) -> list[Layer]:
        return self.layout.layers(self.theta)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Features [n, M] of points given as Euclidean features [n, D] (`presage.kernels.features`)."""
        return self.layout.features(forward(self.layers, inputs * self.layout.scale(self.theta)))

    def with_slopes(self, inputs: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Features, and what gives for a cotangent [n, M] the derivative of sum(cotangent * features), [n, D]."""
        scale = self.layout.scale(self.theta)
        activations = forward(self.layers, inputs * scale)

        def pull(cotangent: np.ndarray) -> np.ndarray:
            return self.layout.backward(self.layers, activations, cotangent)[1] * scale

        return self.layout.features(activations), pull


@dataclass(frozen=True)
class Bases:
    """Several networks of one layout, asked together: a few points cost little more than for one of them.

    Attributes:
        layout: of any of them; what they were born with is not looked at.
        layers: weights [k, inputs, units] and biases [k, 1, units] of all networks.
        scale: 1 / lengthscale, [k, 1, D].
    """

    layout: Layout
    layers: list[Layer]
    scale: np.ndarray

    @staticmethod
    def of(bases: Sequence[Basis]) -> "Bases":
        layers = [
            Layer(np.array([one.weights for one in same]), np.array([one.biases for one in same])[:, None])
            for same in zip(*(basis.layers for basis in bases), strict=True)
        ]
        return Bases(
            bases[0].layout, layers, np.array([basis.layout.scale(basis.theta) for basis in bases])[:, None]
        )  # fmt: skip

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Features of points with inputs [n, D], [k, n, M]."""
        return self.layout.features(forward(self.layers, inputs * self.scale))

    def with_slopes(self, inputs: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Features, and what gives for cotangents [k, s, n, M] the s derivatives in the inputs, [k, s, n, D]."""
        activations = forward(self.layers, inputs * self.scale)
        layers = [Layer(weights[:, None], biases) for weights, biases in self.layers]

        def pull(cotangent: np.ndarray) -> np.ndarray:
            shared = [one[:, None] for one in activations]
            return self.layout.backward(layers, shared, cotangent)[1] * self.scale[:, None]

        return self.layout.features(activations), pull
