"""Markov chains that leave a density invariant, many at once, behind one interface.

A sampler is frozen configuration; `move` makes one transition of all chains, `learn` adapts the step size and the
masses that they share. Where trajectories have a random length all chains take the same one, so that none waits for
another inside a vectorised loop. A chain's state is its position and nothing else. Everything here runs inside jit.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

Density = Callable[[Any], Any]  # log density of one position [p], up to a constant

DIVERGENT = 1000.0  # an energy error beyond this is no rounding: the trajectory has left its level set


class Tuning(NamedTuple):
    """What is learned about the step size.

    Attributes:
        log_step: the step of the next warm-up transition.
        log_mean: the step once warm-up is over.
        error: running mean of how far the acceptance fell short of its target, or of the acceptance itself.
        count: transitions learned from.
        anchor: where dual averaging shrinks the step to.
        mass: of each coordinate, [p].
        learned: transitions that the masses were learned from.
    """

    log_step: Any
    log_mean: Any
    error: Any
    count: Any
    anchor: Any
    mass: Any
    learned: Any


class Info(NamedTuple):
    """Of one transition.

    Attributes:
        acceptance: probabilities, [c].
        divergent: whether each chain's trajectory diverged, [c].
        gradients: taken by each chain, [].
        square: mean squares of each chain's slopes, [c, p], or None.
    """

    acceptance: Any
    divergent: Any
    gradients: Any
    square: Any = None


class Sampler(ABC):
    """A transition kernel with a step size that is adapted while warming up."""

    @property
    @abstractmethod
    def aim(self) -> float:
        """The mean acceptance probability that the step size is adapted to."""

    @abstractmethod
    def move(self, density: Density, position: Any, step: Any, mass: Any, key: Any) -> tuple[Any, Info]:
        """One transition of chains at positions [c, p]."""

    def start(self, step: Any, mass: Any, learned: Any) -> Tuning:
        """Before anything was learned about the step."""
        log_step, zero = jnp.log(step), jnp.zeros_like(step)
        return Tuning(log_step, log_step, zero, zero, log_step, mass, jnp.asarray(learned, step.dtype))

    def learn(self, tuning: Tuning, info: Info) -> Tuning:
        """Dual averaging of the step (Hoffman & Gelman, 2014, eq. 6 with their constants), and the masses."""
        count = tuning.count + 1.0
        error = tuning.error + (self.aim - info.acceptance.mean() - tuning.error) / (count + 10.0)
        log_step = tuning.anchor - jnp.sqrt(count) / 0.05 * error
        weight = count**-0.75
        log_mean = weight * log_step + (1.0 - weight) * tuning.log_mean
        return Tuning(log_step, log_mean, error, count, tuning.anchor, self.weigh(tuning, info), tuning.learned + 1.0)

    def weigh(self, tuning: Tuning, info: Info) -> Any:
        """The masses: unchanged, unless a sampler knows better."""
        return tuning.mass


class Path(NamedTuple):
    """A leapfrog trajectory: its end, log densities at both ends, the first slope, and the sum of squares of all."""

    position: Any
    momentum: Any
    before: Any
    after: Any
    slope: Any
    square: Any


def leapfrog(density: Density, position: Any, momentum: Any, step: Any, count: Any, mass: Any) -> Path:
    """`count` leapfrog steps of chains at positions [c, p] with momenta [c, p] and masses [p].

    The gradient at the start is taken inside the loop instead of being carried from the transition before: one more
    gradient per trajectory, and half of the program to compile.
    """
    slope = jax.vmap(jax.value_and_grad(density))

    def body(i: Any, path: Path) -> Path:
        value, gradient = slope(path.position)
        first = i == 0
        momentum = path.momentum + jnp.where(first | (i == count), 0.5 * step, step) * gradient
        position = jnp.where(i < count, path.position + step * momentum / mass, path.position)
        before, start = jnp.where(first, value, path.before), jnp.where(first, gradient, path.slope)
        return Path(position, momentum, before, value, start, path.square + gradient * gradient)

    nothing = jnp.zeros(len(position), position.dtype)
    zeros = jnp.zeros_like(position)
    path = Path(position, momentum, nothing, nothing, zeros, zeros)
    return lax.fori_loop(0, count + 1, body, path)


def trajectory(density: Density, position: Any, step: Any, count: Any, mass: Any, key: Any) -> tuple[Any, Info]:
    """A leapfrog trajectory from a new Gaussian momentum, and Metropolis's test of its end."""
    draw, test = jax.random.split(key)
    momentum = jnp.sqrt(mass) * jax.random.normal(draw, position.shape, position.dtype)
    path = leapfrog(density, position, momentum, step, count, mass)
    gain = path.after - path.before + 0.5 * ((momentum**2 - path.momentum**2) / mass).sum(axis=1)
    position, info = accept(position, path.position, gain, count + 1, test)
    # Points on the way are as good as the energy is kept; where a step was too long the slopes there mean nothing.
    trust = info.acceptance[:, None]
    along = jnp.where(trust > 0.0, trust * path.square / (count + 1), 0.0)
    return position, info._replace(square=along + (1.0 - trust) * path.slope**2)


def accept(position: Any, proposal: Any, gain: Any, gradients: Any, key: Any) -> tuple[Any, Info]:
    """Metropolis's test, given the gain in log density [c]; what is not a number is not accepted."""
    gain = jnp.where(jnp.isnan(gain), -jnp.inf, gain)
    taken = jnp.log(jax.random.uniform(key, gain.shape, gain.dtype)) < gain
    probability = jnp.exp(jnp.minimum(gain, 0.0))
    return jnp.where(taken[:, None], proposal, position), Info(probability, gain < -DIVERGENT, jnp.asarray(gradients))


@dataclass(frozen=True)
class HMC(Sampler):
    """Hamiltonian Monte Carlo with trajectories of random length and masses that follow the slopes.

    In coordinates of prior size 1, the mean square of a coordinate's slope is its mean curvature (Fisher's identity),
    its variance is about 1, and the mass between the two views is the root of their ratio. Coordinates that many data
    depend on, first biases above all, then move slowly, and the step is no longer held down by them.

    Args:
        length: mean length of a trajectory; a quarter turn of a standard normal number by default.
        jitter: lengths are uniform within this share of the mean.
        most: leapfrog steps at most.
        aim: acceptance aimed at.
        memory: transitions that the masses are learned from; none if 0.
    """

    length: float = 0.5 * math.pi
    jitter: float = 0.6
    most: int = 1024
    aim: float = 0.8
    memory: float = 30.0

    def weigh(self, tuning: Tuning, info: Info) -> Any:
        if not self.memory:
            return tuning.mass
        # A chain that has not yet come down sees huge slopes; in logarithms they are soon outweighed.
        log_new = 0.5 * jnp.log(jnp.maximum(info.square.mean(axis=0), 1e-12))
        log_old = jnp.log(tuning.mass)
        pace = jnp.maximum(1.0 / self.memory, 1.0 / (tuning.learned + 1.0))
        finite = jnp.isfinite(log_new)
        return jnp.exp(jnp.where(finite, jnp.maximum(log_old + pace * (log_new - log_old), 0.0), log_old))

    def move(self, density: Density, position: Any, step: Any, mass: Any, key: Any) -> tuple[Any, Info]:
        key, draw = jax.random.split(key)
        low, high = (self.length * (1.0 + sign * self.jitter) for sign in (-1.0, 1.0))
        length = jax.random.uniform(draw, (), position.dtype, low, high)
        count = jnp.clip(jnp.ceil(length / step), 1, self.most).astype(jnp.int32)
        return trajectory(density, position, step, count, mass, key)


@dataclass(frozen=True)
class PlainHMC(Sampler):
    """Hamiltonian Monte Carlo as first taught: always the same number of leapfrogs, a step that follows the acceptance.

    After each transition the step grows or shrinks by a fixed factor, as a moving average of the acceptance is above
    or below its aim (S1's rule, kept within bounds; here only while warming up, for the chain to be a Markov chain).
    """

    leapfrogs: int = 20
    aim: float = 0.9
    grow: float = 1.02
    shrink: float = 0.98
    least: float = 0.001
    most: float = 0.25
    memory: float = 0.9

    def move(self, density: Density, position: Any, step: Any, mass: Any, key: Any) -> tuple[Any, Info]:
        return trajectory(density, position, step, jnp.int32(self.leapfrogs), mass, key)

    def learn(self, tuning: Tuning, info: Info) -> Tuning:
        first = tuning.count == 0
        recent = info.acceptance.mean()
        recent = jnp.where(first, recent, self.memory * tuning.error + (1.0 - self.memory) * recent)
        change = jnp.where(recent > self.aim, math.log(self.grow), math.log(self.shrink))
        log_step = jnp.clip(tuning.log_step + change, math.log(self.least), math.log(self.most))
        return tuning._replace(log_step=log_step, log_mean=log_step, error=recent, count=tuning.count + 1.0)


@dataclass(frozen=True)
class RandomWalk(Sampler):
    """Metropolis's Gaussian random walk; its best acceptance in many dimensions is 0.234."""

    aim: float = 0.234

    def move(self, density: Density, position: Any, step: Any, mass: Any, key: Any) -> tuple[Any, Info]:
        draw, test = jax.random.split(key)
        proposal = position + step / jnp.sqrt(mass) * jax.random.normal(draw, position.shape, position.dtype)
        before, after = jax.vmap(jax.vmap(density))(jnp.stack([position, proposal]))
        return accept(position, proposal, after - before, 0, test)


@dataclass(frozen=True)
class NUTS(Sampler):
    """The no-U-turn sampler of BlackJAX.

    Args:
        doublings: of a trajectory, at most.
        aim: acceptance aimed at.
    """

    doublings: int = 10
    aim: float = 0.8

    def move(self, density: Density, position: Any, step: Any, mass: Any, key: Any) -> tuple[Any, Info]:
        from blackjax.mcmc import nuts

        kernel = nuts.build_kernel()

        def one(key: Any, q: Any) -> tuple[Any, Any, Any, Any]:
            state, info = kernel(key, nuts.init(q, density), density, step, 1.0 / mass, self.doublings)
            return state.position, info.acceptance_rate, info.is_divergent, info.num_integration_steps

        position, probability, divergent, steps = jax.vmap(one)(jax.random.split(key, len(position)), position)
        return position, Info(probability, divergent, steps.max() + 1)


@dataclass(frozen=True)
class MCLMC(Sampler):
    """BlackJAX's microcanonical sampler with Metropolis's test.

    Args:
        length: of a trajectory, in units in which sqrt(p) turns a standard normal vector as pi / 2 turns it in HMC.
        jitter: lengths are uniform within this share of the mean.
        most: steps at most; a step of its integrator takes two gradients.
        aim: acceptance aimed at.
    """

    length: float = 1.5
    jitter: float = 0.6
    most: int = 1024
    aim: float = 0.9

    def move(self, density: Density, position: Any, step: Any, mass: Any, key: Any) -> tuple[Any, Info]:
        from blackjax.mcmc import adjusted_mclmc

        kernel = adjusted_mclmc.build_kernel()
        key, draw = jax.random.split(key)
        low, high = (self.length * (1.0 + sign * self.jitter) for sign in (-1.0, 1.0))
        scale = math.sqrt(position.shape[1])
        length = jax.random.uniform(draw, (), position.dtype, low, high)
        count = jnp.clip(jnp.ceil(length / step), 1, self.most).astype(jnp.int32)

        def one(key: Any, q: Any) -> tuple[Any, Any, Any]:
            state, info = kernel(key, adjusted_mclmc.init(q, density), density, scale * step, (count,), 1.0 / mass)
            return state.position, info.acceptance_rate, info.is_divergent

        position, probability, divergent = jax.vmap(one)(jax.random.split(key, len(position)), position)
        return position, Info(probability, divergent, 2 * count + 1)
