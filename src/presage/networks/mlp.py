"""Multilayer perceptrons padded to a common shape: masks, random draws per unit, and which ones to train together.

A network of any depth and widths lives in arrays of one Shape. Absent units are masked; an absent layer passes its
input on. Draws are numbered by what they belong to (unit, row, sample), so that padding does not change a network's.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry2x32_p

Array = Any  # of JAX or of NumPy
LAYER = 2**20  # more units than a layer has

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": jax.nn.relu, "tanh": jnp.tanh, "silu": jax.nn.silu}


class Shape(NamedTuple):
    """The padded sizes: inputs, hidden layers, units of each, outputs."""

    inputs: int
    depth: int
    width: int
    outputs: int


def padded_widths(widths: Sequence[int], depth: int) -> np.ndarray:
    """Widths of the hidden layers, zeros standing for absent ones, [depth]."""
    return np.array([*widths, *[0] * (depth - len(widths))], dtype=np.int32)


class Masks(NamedTuple):
    """What exists of a padded network.

    Attributes:
        present: whether a hidden layer exists, [depth].
        units: the units of each hidden layer, [depth, width].
        sources: the units that each layer reads, output layer last; the input layer reads all inputs.
    """

    present: Array
    units: Array
    sources: list[Array]


def masks(widths: Array, shape: Shape) -> Masks:
    """Masks of one network from its widths, [depth]."""
    units = jnp.arange(shape.width) < widths[:, None]
    sources, source = [jnp.ones(shape.inputs, bool)], units[0]
    for layer in range(1, shape.depth):
        sources.append(source)
        source = jnp.where(widths[layer] > 0, units[layer], source)
    return Masks(widths > 0, units, [*sources, source])


def layer_sizes(shape: Shape) -> list[tuple[int, int]]:
    """(Inputs, outputs) of each layer, output layer last."""
    sizes = [shape.inputs, *[shape.width] * shape.depth, shape.outputs]
    return list(pairwise(sizes))


def layer_numbers(depth: int) -> list[int]:
    """What the draws of each layer are numbered by, output layer last; its number is 0, whatever the padding."""
    return [*range(1, depth + 1), 0]


def normal(key: Array, samples: int, rows: int, units: Sequence[int], numbers: Sequence[int]) -> list[Array]:
    """Standard normal draws for some layers, [samples, rows, units] each; more rows or units do not change them.

    One hash for all of them: it is the larger part of a program, and of its compilation.

    Args:
        key: of these draws.
        samples: leading size.
        rows: data rows, or inputs of a layer.
        units: of each layer.
        numbers: of the layers.
    """
    k0, k1 = jax.random.key_data(key).astype(jnp.uint32)
    half = (samples + 1) // 2  # the hash gives two words
    shape = (half, rows, sum(units))
    name = np.concatenate([number * LAYER + np.arange(count) for number, count in zip(numbers, units, strict=True)])
    sample, row = (jax.lax.broadcasted_iota(jnp.uint32, shape, axis) for axis in range(2))
    unit = jnp.broadcast_to(jnp.asarray(name, jnp.uint32), shape)
    words = threefry2x32_p.bind(jnp.broadcast_to(k0, shape), jnp.broadcast_to(k1, shape), row * half + sample, unit)
    # Without the barrier the hash is compiled, and computed, again in every place where a draw is used.
    draws = jax.lax.optimization_barrier(_gaussian(jnp.concatenate(words)[:samples]))
    return jnp.split(draws, np.cumsum(units)[:-1].tolist(), axis=2)


def _gaussian(word: Array) -> Array:
    """A normal number from 23 bits of each word: the middle of their interval of (-1, 1) through the inverse of erf."""
    uniform = jax.lax.bitcast_convert_type((word >> 9) | jnp.uint32(0x3F800000), jnp.float32) - 1.0
    return jnp.float32(np.sqrt(2.0)) * jax.lax.erf_inv(2.0 * uniform + jnp.float32(2.0**-23 - 1.0))


def groups(architectures: Sequence[Sequence[int]], programs: int = 2) -> list[list[int]]:
    """Which networks to train in one program: those of one depth, split by width where the padding costs most.

    Args:
        architectures: widths of the hidden layers of each.
        programs: at most so many groups for each depth.

    Returns:
        Indices into `architectures`.

    Example:
        >>> groups([(5,), (10,), (50,), (60,), (10, 10)])
        [[0, 1], [2, 3], [4]]
    """
    out = []
    for depth in sorted({len(widths) for widths in architectures}):
        mine = [i for i, widths in enumerate(architectures) if len(widths) == depth]
        mine.sort(key=lambda i: max(architectures[i]))
        out += [[mine[i] for i in part] for part in _split([max(architectures[i]) for i in mine], programs)]
    return out


def _split(widths: list[int], parts: int) -> list[range]:
    """Cut an ascending list into parts so that the sum of (size * largest) is least."""
    best: dict[tuple[int, int], tuple[int, list[range]]] = {(0, 0): (0, [])}
    for count in range(1, parts + 1):
        for end in range(1, len(widths) + 1):
            before = [(start, *best[start, count - 1]) for start in range(end) if (start, count - 1) in best]
            options = [
                (cost + (end - start) * widths[end - 1], [*cut, range(start, end)]) for start, cost, cut in before
            ]
            if options:
                best[end, count] = min(options, key=lambda option: option[0])
    return min((best[len(widths), c] for c in range(1, parts + 1) if (len(widths), c) in best), key=lambda o: o[0])[1]
