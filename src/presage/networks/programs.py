"""One step of every network at a time: pure functions, compiled once for each shape and vectorised over networks.

A network's numbers depend on its own key, step and data only, so it does not matter with which others it is trained,
how it is padded, or how often its training is interrupted.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from presage.networks.mlp import Array, Shape


class Family(Protocol):
    """A kind of network: frozen configuration with pure functions of one padded network."""

    @property
    def options(self) -> dict[str, float]: ...

    def init(self, key: Array, widths: Array, options: dict[str, Array], shape: Shape) -> Any: ...

    def loss(
        self, params: Any, widths: Array, options: dict[str, Array], shape: Shape, *,
        x: Array, y: Array, weight: Array, count: Array, key: Array, step: Array,
    ) -> Array: ...  # fmt: skip

    def outputs(self) -> int: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Training:
    """How networks are trained.

    Args:
        optimiser: adam or adadelta.
        rate: learning rate.
        decay: steps over which the rate falls to 0 along a cosine, or None for a constant rate.
        batch: rows of a minibatch, drawn with replacement; None for all rows.
        tolerance: stop a network when two consecutive losses differ by less; None never to stop.
        chunk: steps of one call of the compiled program.
    """

    optimiser: str = "adam"
    rate: float = 1e-3
    decay: int | None = None
    batch: int | None = None
    tolerance: float | None = None
    chunk: int = 100

    def transformation(self) -> optax.GradientTransformation:
        rate: Any = self.rate if self.decay is None else optax.cosine_decay_schedule(self.rate, self.decay)
        return {"adam": optax.adam, "adadelta": optax.adadelta}[self.optimiser](rate)


class Networks(NamedTuple):
    """What differs between the networks of one program; every array has one row per network.

    Attributes:
        key: uint32, [networks, 2].
        widths: of hidden layers, zeros where there is none, [networks, depth].
        rows: which rows of the table each learns from, [networks, most]; repeated rows count as often.
        sizes: how many of them, [networks].
        x_center, x_scale: of its inputs, [networks, d].
        y_center, y_scale: of its values, [networks].
        options: numbers of the family, [networks] each.
    """

    key: Array
    widths: Array
    rows: Array
    sizes: Array
    x_center: Array
    x_scale: Array
    y_center: Array
    y_scale: Array
    options: dict[str, Array]


class State(NamedTuple):
    """Where the training of each network stands; every leaf has one row per network; parameters are one vector."""

    params: Array
    optimiser: Any
    step: Array
    loss: Array
    stopped: Array


class Table(NamedTuple):
    """Inputs [n, d] and values [n] that networks pick rows from."""

    x: Any
    y: Any

    @staticmethod
    def padded(x: np.ndarray, y: np.ndarray, most: int) -> "Table":
        """A table with empty rows up to so many, so that tables of different sizes share a program."""
        return Table(np.pad(x, ((0, most - len(y)), (0, 0))), np.pad(y, (0, most - len(y))))


@lru_cache(maxsize=256)
def unraveller(family: Family, shape: Shape) -> Any:
    """The function that gives a vector of parameters its structure."""
    depth = np.ones(shape.depth, np.int32)
    options = {name: jnp.array(value, jnp.float32) for name, value in family.options.items()}
    like = jax.eval_shape(lambda key: family.init(key, depth, options, shape), jax.random.key(0))
    sizes, tree = [leaf.shape for leaf in jax.tree.leaves(like)], jax.tree.structure(like)
    cuts = np.cumsum([math.prod(size) for size in sizes])[:-1].tolist()

    def unravel(vector: Array) -> Any:
        parts = jnp.split(vector, cuts)
        return jax.tree.unflatten(tree, [part.reshape(size) for part, size in zip(parts, sizes, strict=True)])

    return unravel


@partial(jax.jit, static_argnames=("family", "training", "shape"))
def start(family: Family, training: Training, shape: Shape, networks: Networks) -> State:
    """Networks before their first step."""

    def one(network: Networks) -> State:
        key = jax.random.fold_in(jax.random.wrap_key_data(network.key), 0)
        params = ravel_pytree(family.init(key, network.widths, network.options, shape))[0]
        nothing = jnp.zeros((), jnp.int32)
        return State(params, training.transformation().init(params), nothing, jnp.array(jnp.inf), nothing > 0)

    return jax.vmap(one)(networks)


@partial(jax.jit, static_argnames=("family", "training", "shape"))
def advance_chunk(
    family: Family, training: Training, shape: Shape, networks: Networks, table: Table, state: State, until: Array
) -> State:
    """Up to `training.chunk` steps of every network, none beyond its own `until`, [networks]."""
    transformation, unravel = training.transformation(), unraveller(family, shape)

    def one(network: Networks, state: State, until: Array) -> State:
        key = jax.random.wrap_key_data(network.key)

        def step(state: State, _: None) -> tuple[State, None]:
            here = jax.random.fold_in(jax.random.fold_in(key, 1), state.step)
            if training.batch is None:
                rows = network.rows
                weight = jnp.where(jnp.arange(len(rows)) < network.sizes, 1.0 / network.sizes, 0.0)
            else:
                at = jax.random.randint(jax.random.fold_in(here, 0), (training.batch,), 0, network.sizes)
                rows, weight = network.rows[at], jnp.full(training.batch, 1.0 / training.batch)
            x = (table.x[rows] - network.x_center) / network.x_scale
            y = (table.y[rows] - network.y_center) / network.y_scale
            loss, slope = jax.value_and_grad(family.loss)(
                unravel(state.params), network.widths, network.options, shape, x=x, y=y, weight=weight,
                count=network.sizes, key=jax.random.fold_in(here, 1), step=state.step,
            )  # fmt: skip
            update, optimiser = transformation.update(ravel_pytree(slope)[0], state.optimiser, state.params)
            new = State(optax.apply_updates(state.params, update), optimiser, state.step + 1, loss, state.stopped)
            if training.tolerance is not None:
                new = new._replace(stopped=jnp.abs(loss - state.loss) < training.tolerance)
            goes_on = (state.step < until) & ~state.stopped
            return jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), new, state), None

        return jax.lax.scan(step, state, length=training.chunk)[0]

    return jax.vmap(one)(networks, state, until)


@partial(jax.jit, static_argnames=("family", "shape", "samples", "rows_at_once", "samples_at_once"))
def foretell(
    family: Any, shape: Shape, networks: Networks, table: Table, state: State, rows: Array, salt: Array,
    samples: int = 100, rows_at_once: int = 1024, samples_at_once: int = 50,
) -> tuple[Array, Array]:  # fmt: skip
    """Log density of values, and the error of their predicted means, in the values' own units, [networks, m] each.

    Args:
        rows: which rows of the table to foretell, [networks, m].
        salt: another one gives other draws of the weights.
        samples: how many draws.
        rows_at_once, samples_at_once: bound the memory.
    """
    count = rows.shape[1]
    blocks = -(-count // rows_at_once)
    rows = jnp.pad(rows, ((0, 0), (0, -count % blocks)))
    at_once = min(samples, samples_at_once)
    unravel = unraveller(family, shape)

    def one(network: Networks, vector: Array, rows: Array) -> tuple[Array, Array]:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.wrap_key_data(network.key), 2), salt)
        params = unravel(vector)

        def block(given: tuple[Array, Array]) -> tuple[Array, Array]:
            number, rows = given
            x = (table.x[rows] - network.x_center) / network.x_scale
            y = (table.y[rows] - network.y_center) / network.y_scale
            mine = jax.random.fold_in(key, number)

            def some(i: Array) -> tuple[Array, Array]:
                return family.predict(params, network.widths, shape, x, y, jax.random.fold_in(mine, i), at_once)

            log_density, mean = jax.lax.map(some, jnp.arange(max(1, samples // at_once)))
            log_density = jax.scipy.special.logsumexp(log_density, axis=0) - math.log(len(mean))
            return log_density - jnp.log(network.y_scale), (mean.mean(axis=0) - y) * network.y_scale

        log_density, error = jax.lax.map(block, (jnp.arange(blocks), rows.reshape(blocks, -1)))
        return log_density.ravel()[:count], error.ravel()[:count]

    return jax.vmap(one)(networks, state.params, rows)
