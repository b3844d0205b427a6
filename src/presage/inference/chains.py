"""Running chains: one compiled program for any number of transitions, on one core or on all."""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from presage.inference.samplers import Sampler

ROUND = 10  # transitions after which chains that run apart share what they have learned
PACE = 2.0  # by how much the logarithm of their step follows the acceptance at first


class Chains(NamedTuple):
    """What a run gives.

    Attributes:
        positions: [draws, c, p].
        step: the step size in the end.
        mass: the masses in the end, [p].
        acceptance: mean acceptance probability after warm-up, or during it where nothing comes after.
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
    warmup: Any, thin: Any, *, draws: int, learned: Any = 0.0, settle: Any = True,
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
        settle: whether the step is learned as well.
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
        new = sampler.learn(tuning, info)
        new = new._replace(
            log_step=jnp.where(settle, new.log_step, tuning.log_step),
            log_mean=jnp.where(settle, new.log_mean, tuning.log_mean),
        )
        tuning = jax.tree.map(lambda new, old: jnp.where(warming, new, old), new, tuning)
        # Every position is written; the last of each `thin` stays.
        kept = lax.dynamic_update_index_in_dim(kept, q, jnp.maximum(i - warmup, 0) // jnp.maximum(thin, 1), 0)
        acceptance += jnp.where(warming & (thin > 0), 0.0, info.acceptance.mean())
        divergent += jnp.where(warming, 0, info.divergent.sum(dtype=jnp.int32))
        return q, tuning, kept, acceptance, divergent, gradients + info.gradients.astype(jnp.int32)

    zero = jnp.zeros((), position.dtype)
    start = (
        position, sampler.start(jnp.asarray(step, position.dtype), mass, learned),
        jnp.zeros((draws, *position.shape), position.dtype), zero, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32),
    )  # fmt: skip
    _, tuning, kept, acceptance, divergent, gradients = lax.fori_loop(0, warmup + draws * thin, body, start)
    counted = jnp.where(thin > 0, draws * thin, warmup)
    return Chains(kept, jnp.exp(tuning.log_mean), tuning.mass, acceptance / counted, divergent, gradients)


def on_cores(program: Callable[[Any, Any], Any], starts: Any, keys: Any) -> Any:
    """What a JAX program gives for each start and key, stacked; on as many threads as there are cores."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    config: Any = jax.config
    double, device = config.jax_enable_x64, config.jax_default_device  # each thread has its own

    def one(start: Any, key: Any) -> Any:
        with jax.enable_x64(double), jax.default_device(device):
            return jax.block_until_ready(program(start, key))

    with ThreadPoolExecutor(usable) as pool:
        return jax.tree.map(lambda *parts: jnp.stack(parts), *pool.map(one, starts, keys))


def repeated(count: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    """What `lax.fori_loop` does, in Python."""
    for i in range(count):
        carry = body(i, carry)
    return carry


def run_apart(
    sampler: Sampler, density: Callable[[Any, Any], Any], data: Any, position: Any, step: Any, mass: Any, key: Any,
    warmup: Any, thin: Any, *, draws: int, learned: Any = 0.0,
    spread: Callable[[Callable[[Any, Any], Any], Any, Any], Any] = on_cores,
    repeat: Callable[[Any, Callable[[Any, Any], Any], Any], Any] = repeated,
) -> Chains:  # fmt: skip
    """The same with each chain on its own, as many at once as there are cores; for processors.

    XLA runs a loop of small operations on one core. After every few transitions of the warm-up the chains share what
    they have learned: the step follows the mean of their acceptance. Numbers do not depend on how many cores there
    are. Chains stay single: batches of factorisations share the threads of one pool, and two programs that wait for it
    there wait forever (jaxlib 0.10).

    Args:
        spread: what runs a program for each start and key.
        repeat: what runs the rounds of the warm-up, whose number may be traced if this can be.
    """

    def stretch(starts: Any, step: Any, mass: Any, key: Any, warmup: Any, thin: Any, learned: Any) -> Chains:
        def program(start: Any, key: Any) -> Chains:
            of = (sampler, density, data, start[None], step, mass, key, warmup, thin)
            return run(*of, draws=draws, learned=learned, settle=False)

        each = spread(program, starts, jax.random.split(key, len(starts)))
        return Chains(
            jnp.moveaxis(each.positions[:, :, 0], 0, 1), step, jnp.sqrt((each.mass**2).mean(axis=0)),
            each.acceptance.mean(), each.divergent.sum(), each.gradients.mean(),
        )  # fmt: skip

    def share(i: Any, carry: tuple) -> tuple:
        position, step, mass, gradients = carry
        before = learned + ROUND * i
        count = jnp.asarray(jnp.minimum(ROUND, warmup - ROUND * i), jnp.int32)
        found = stretch(position, step, mass, jax.random.fold_in(warm, i), count, 0, before)
        gain = PACE / jnp.sqrt(1.0 + before / ROUND)
        step = step * jnp.exp(gain * (found.acceptance - sampler.aim)).astype(step.dtype)
        return found.positions[0], step, found.mass, gradients + found.gradients

    position = jnp.asarray(position)
    step, learned = jnp.asarray(step, position.dtype), jnp.asarray(learned, position.dtype)
    warm, last = jax.random.split(key)
    none = jnp.zeros((), jnp.int32)
    stretch(position[:1], step, mass, key, none, 0, learned)  # compiles, once, what all threads then find
    carry = (position, step, mass, jnp.zeros((), position.dtype))
    position, step, mass, gradients = repeat(-(-warmup // ROUND), share, carry)
    chains = stretch(position, step, mass, last, none, thin, learned)
    return chains._replace(gradients=chains.gradients + gradients)
