"""How the hyperparameters of a process are found: at a mode, or by sampling their posterior."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from presage import lbfgs
from presage.inference.diagnostics import ess, r_hat
from presage.inference.slice import slice_sample
from presage.surrogates.gaussian import Model, Table, energy, negative_evidence

MANY = 200  # beyond so many rows a search runs from one start only


class Found(NamedTuple):
    """Vectors of hyperparameters, [c, p], equally weighted, and what there is to report."""

    theta: np.ndarray
    report: dict[str, Any]


class Hyperparameters(ABC):
    """A way to find hyperparameters."""

    @abstractmethod
    def find(self, model: Model, table: Table, known: np.ndarray | None, *, rng: np.random.Generator) -> Found:
        """Hyperparameters given the data, starting from those of an earlier fit, [c, p], where there was one."""


@dataclass(frozen=True)
class Mode(Hyperparameters):
    """The maximum of the posterior (MAP), or of the likelihood alone (type II).

    Args:
        prior: whether the prior counts.
    """

    prior: bool = True

    def find(self, model: Model, table: Table, known: np.ndarray | None, *, rng: np.random.Generator) -> Found:
        priors, count = model.priors, len(table.y)
        if known is None:
            starts = [priors.center, _short(model)] if count <= MANY else [priors.center]
        else:  # a look at the usual start now and then, lest a poor local optimum be handed on for ever
            starts = [known[0]]
            if count < 20 or (count <= MANY and count % 7 == 0):
                starts.append(priors.center)
        found = lbfgs.minimize(
            lambda theta: energy(model, table, theta, self.prior), np.array(starts), priors.lower, priors.upper,
            gradient_tol=1e-3, value_tol=1e-5,
        )  # fmt: skip
        best = int(np.argmin(found.value))
        theta = found.x[best] if np.isfinite(found.value[best]) else priors.center
        return Found(theta[None], {"evaluations": found.evaluations, "energy": float(found.value[best])})


def _short(model: Model) -> np.ndarray:
    """The usual start with shorter lengthscales."""
    start, at = model.priors.center.copy(), 0
    for block in model.priors.blocks:
        if block.name.endswith("lengthscale"):
            start[at : at + block.size] -= 1.5
        at += block.size
    return start


def _inside(model: Model, theta: np.ndarray) -> bool:
    return bool(((theta >= model.priors.lower) & (theta <= model.priors.upper)).all())


def log_posterior(model: Model, table: Table, theta: np.ndarray) -> float:
    """log p(theta | y) up to a constant, -inf outside the box of the priors."""
    if not _inside(model, theta):
        return -math.inf
    return -float(model.priors.energy(theta[None])[0][0]) - negative_evidence(model, table, theta, None)


@dataclass(frozen=True)
class Slice(Hyperparameters):
    """Slice sampling, coordinate by coordinate.

    Args:
        samples: vectors kept.
        warmup: sweeps before the first, half as many when there was an earlier fit.
        thin: sweeps per vector kept.
    """

    samples: int = 32
    warmup: int = 50
    thin: int = 3

    def find(self, model: Model, table: Table, known: np.ndarray | None, *, rng: np.random.Generator) -> Found:
        start = Mode().find(model, table, None, rng=rng).theta[0] if known is None else known[-1]
        if not np.isfinite(log_posterior(model, table, start)):
            start = model.priors.center
        warmup = self.warmup if known is None else self.warmup // 2
        theta, evaluations = slice_sample(
            lambda one: log_posterior(model, table, one), start, samples=self.samples, warmup=warmup, thin=self.thin,
            rng=rng,
        )  # fmt: skip
        return Found(theta, {"evaluations": evaluations, **_mixing(theta)})


@dataclass(frozen=True)
class NUTS(Hyperparameters):
    """The no-U-turn sampler of BlackJAX, with window adaptation.

    Args:
        samples: vectors kept.
        warmup: steps of adaptation.
        thin: steps per vector kept.
    """

    samples: int = 32
    warmup: int = 200
    thin: int = 2

    def find(self, model: Model, table: Table, known: np.ndarray | None, *, rng: np.random.Generator) -> Found:
        return _blackjax(self, model, table, known, rng, "nuts", None)


@dataclass(frozen=True)
class HMC(Hyperparameters):
    """Hamiltonian Monte Carlo of BlackJAX with a fixed number of steps, with window adaptation.

    Args:
        samples: vectors kept.
        warmup: steps of adaptation.
        thin: steps per vector kept.
        leaps: leapfrog steps per step.
    """

    samples: int = 32
    warmup: int = 200
    thin: int = 2
    leaps: int = 10

    def find(self, model: Model, table: Table, known: np.ndarray | None, *, rng: np.random.Generator) -> Found:
        return _blackjax(self, model, table, known, rng, "hmc", self.leaps)


def _blackjax(
    how: NUTS | HMC, model: Model, table: Table, known: np.ndarray | None, rng: np.random.Generator, name: str,
    leaps: int | None,
) -> Found:  # fmt: skip
    """Samples by a gradient-based sampler; the evidence and its derivative stay in NumPy, called from JAX."""
    import jax

    size, evaluations = model.priors.size, 0

    def value_and_gradient(theta: np.ndarray) -> np.ndarray:
        nonlocal evaluations
        evaluations += 1
        found = np.zeros(1 + size)
        if _inside(model, theta):
            value, gradient = energy(model, table, theta[None])
            found[0], found[1:] = -value[0], -gradient[0]
        else:  # a wall: such a step is a divergence and is not taken
            found[0] = -np.inf
        return found

    start = Mode().find(model, table, None, rng=rng).theta[0] if known is None else known[-1]
    if not np.isfinite(log_posterior(model, table, start)):
        start = model.priors.center
    token = next(_TOKENS)
    _ASKED[token] = value_and_gradient
    try:
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            program = _program(name, size, how.warmup, how.samples * how.thin, leaps)
            key = jax.random.key(int(rng.integers(2**31)))
            path, divergent, rate = (np.asarray(part) for part in program(np.int32(token), start, key))
    finally:
        del _ASKED[token]
    theta = path[how.thin - 1 :: how.thin]
    report = {"evaluations": evaluations, "divergent": int(divergent.sum()), "acceptance": float(rate.mean())}
    return Found(theta, {**report, **_mixing(theta)})


# Compiled programs ask for a density by its number, so that they serve every data set of their size.
_ASKED: dict[int, Callable[[np.ndarray], np.ndarray]] = {}
_TOKENS = itertools.count()


def _answer(token: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """log p and its derivatives, [1 + p], as pairs of 32 bits: JAX calls this from a thread without float64."""
    theta = np.ascontiguousarray(bits).view(np.float64)[:, 0]
    return _ASKED[int(token)](theta)[:, None].view(np.uint32)


@lru_cache(maxsize=16)
def _program(name: str, size: int, warmup: int, draws: int, leaps: int | None) -> Callable:
    """Window adaptation and sampling, compiled once for a number of hyperparameters."""
    import blackjax
    import jax
    import jax.numpy as jnp

    shape = jax.ShapeDtypeStruct((1 + size, 2), jnp.uint32)
    options = {} if leaps is None else {"num_integration_steps": leaps}
    algorithm = getattr(blackjax, name)

    @jax.jit
    def program(token, start, key):
        def both(theta):
            bits = jax.lax.bitcast_convert_type(theta, jnp.uint32)
            found = jax.pure_callback(_answer, shape, token, bits, vmap_method="sequential")
            return jax.lax.bitcast_convert_type(found, jnp.float64)

        @jax.custom_vjp
        def log_density(theta):
            return both(theta)[0]

        def forward(theta):
            found = both(theta)
            return found[0], found[1:]

        log_density.defvjp(forward, lambda gradient, cotangent: (cotangent * gradient,))
        adapting, sampling = jax.random.split(key)
        adaptation = blackjax.window_adaptation(algorithm, log_density, **options)
        (state, parameters), _ = adaptation.run(adapting, start, warmup)
        step = algorithm(log_density, **parameters).step

        def one(state, key):
            state, info = step(key, state)
            return state, (state.position, info.is_divergent, info.acceptance_rate)

        return jax.lax.scan(one, state, jax.random.split(sampling, draws))[1]

    return program


def _mixing(theta: np.ndarray) -> dict[str, float]:
    """R-hat and effective sample size of the coordinate that mixed worst."""
    if len(theta) < 8:
        return {}  # too few to tell
    path = theta[:, None]  # one chain
    return {"r_hat": float(r_hat(path).max()), "ess": float(ess(path).min())}
