"""Running chains: one compiled program for any number of transitions, on one core or on all."""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from presage.inference.samplers import Sampler
from presage.threads import usable_cores


class Chains(NamedTuple):
    """What a run gives.

    Attributes:
        positions: [draws, c, p].
        step: the step size in the end.
        mass: the masses in the end, [p].
        acceptance: mean acceptance probability after warm-up.
        divergent: transitions after warm-up that diverged.
        gradients: taken by each chain, warm-up included.
    """

    positions: Any
    step: Any
    mass: Any
    acceptance: Any
    divergent: Any
    gradients: Any


@functools.partial(jax.jit, static_argnames=("sampler", "density", "draws"))
def run(
    sampler: Sampler, density: Callable[[Any, Any], Any], data: Any, position: Any, step: Any, mass: Any, key: Any,
    warmup: Any, thin: Any, *, draws: int, learned: Any = 0.0,
) -> Chains:  # fmt: skip
    """Warm up, then keep every `thin`-th position of each chain.

    The numbers of transitions are not part of the program: a cold fit, a warm one and a longer one share it.

    Args:
        sampler: the kernel.
        density: log density of a position [p] given the data; hashable, equal for equal programs.
        data: its second argument.
        position: where the chains start, [c, p].
        step: the step size to start with.
        mass: of each coordinate, [p], to start with.
        key: of JAX's random numbers.
        warmup: transitions whose positions are not kept, and from which step size and masses are learned.
        thin: transitions per position kept.
        draws: positions kept of each chain.
        learned: transitions that the masses were learned from before.
    """

    def of(q: Any) -> Any:
        # Accelerators round the factors of a product of matrices to ten bits unless told otherwise: energies would err
        # by more than a step changes them, and Gram matrices would have no Cholesky factor.
        with jax.default_matmul_precision("highest"):
            return density(q, data)

    def body(i: Any, carry: tuple) -> tuple:
        q, tuning, kept, acceptance, divergent, gradients = carry
        warming = i < warmup
        size = jnp.exp(jnp.where(warming, tuning.log_step, tuning.log_mean))
        q, info = sampler.move(of, q, size, tuning.mass, jax.random.fold_in(key, i))
        tuning = jax.tree.map(lambda new, old: jnp.where(warming, new, old), sampler.learn(tuning, info), tuning)
        # Every position is written; the last of each `thin` stays.
        kept = lax.dynamic_update_index_in_dim(kept, q, jnp.maximum(i - warmup, 0) // jnp.maximum(thin, 1), 0)
        acceptance += jnp.where(warming, 0.0, info.acceptance.mean())
        divergent += jnp.where(warming, 0, info.divergent.sum(dtype=jnp.int32))
        return q, tuning, kept, acceptance, divergent, gradients + info.gradients.astype(jnp.int32)

    zero = jnp.zeros((), position.dtype)
    start = (
        position, sampler.start(jnp.asarray(step, position.dtype), mass, learned),
        jnp.zeros((draws, *position.shape), position.dtype), zero, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32),
    )  # fmt: skip
    _, tuning, kept, acceptance, divergent, gradients = lax.fori_loop(0, warmup + draws * thin, body, start)
    return Chains(kept, jnp.exp(tuning.log_mean), tuning.mass, acceptance / (draws * thin), divergent, gradients)


def on_cores(program: Callable[[Any, Any], Any], starts: Any, keys: Any) -> Any:
    """What a JAX program gives for each start and key, stacked; on as many threads as there are cores."""
    config: Any = jax.config
    double, device = config.jax_enable_x64, config.jax_default_device  # each thread has its own

    def one(start: Any, key: Any) -> Any:
        with jax.enable_x64(double), jax.default_device(device):
            return jax.block_until_ready(program(start, key))

    with ThreadPoolExecutor(usable_cores()) as pool:
        return jax.tree.map(lambda *parts: jnp.stack(parts), *pool.map(one, starts, keys))


def run_apart(
    sampler: Sampler, density: Callable[[Any, Any], Any], data: Any, position: Any, step: Any, mass: Any, key: Any,
    warmup: Any, thin: Any, *, draws: int, learned: Any = 0.0,
    spread: Callable[[Callable[[Any, Any], Any], Any, Any], Any] = on_cores,
) -> Chains:  # fmt: skip
    """The same with each chain on its own, as many at once as there are cores; for processors.

    XLA runs a loop of small operations on one core. Chains warm up on their own, and go on with the mean of what they
    have learned. Numbers do not depend on how many cores there are. Chains stay single: batches of factorisations
    share the threads of one pool, and two programs that wait for it there wait forever (jaxlib 0.10).

    Args:
        spread: what runs a program for each start and key.
    """

    def stretch(starts: Any, step: Any, mass: Any, key: Any, warmup: Any, thin: Any) -> Chains:
        def program(start: Any, key: Any) -> Chains:
            of = (sampler, density, data, start[None], step, mass, key, warmup, thin)
            return run(*of, draws=draws, learned=learned)

        each = spread(program, starts, jax.random.split(key, len(starts)))
        return Chains(
            jnp.moveaxis(each.positions[:, :, 0], 0, 1), jnp.exp(jnp.log(each.step).mean()),
            jnp.sqrt((each.mass**2).mean(axis=0)), each.acceptance.mean(), each.divergent.sum(), each.gradients.mean(),
        )  # fmt: skip

    position = jnp.asarray(position)
    step = jnp.asarray(step, position.dtype)
    stretch(position[:1], step, mass, key, 0, 0)  # no transition: compiles, once, what all threads then find
    first, second = jax.random.split(key)
    warm = stretch(position, step, mass, first, warmup, 0)
    start = jnp.where(warmup > 0, warm.positions[0], position)  # of no transitions none is kept
    chains = stretch(start, warm.step, warm.mass, second, 0, thin)
    return chains._replace(gradients=chains.gradients + warm.gradients)
