"""A mean-field Gaussian network as a surrogate (S4)."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from presage.kernels import feature_owners, features
from presage.networks.training import Cohort, Table, Training, describe
from presage.networks.training import State as TrainingState
from presage.networks.variational import Variational, posterior
from presage.observations import Observations, padded
from presage.surrogates.base import Fit, State, Surrogate
from presage.surrogates.sampled_functions import SampledFunctions

SPREAD = math.sqrt(1.0 / 12.0)  # standard deviation of a coordinate of the cube


@dataclass(frozen=True)
class VariationalNetwork(Surrogate):
    """A network trained by variational inference, seen through functions drawn from it.

    Args:
        widths: of the hidden layers.
        activation: relu, tanh or silu; with relu the posterior is not differentiable.
        steps: of the first training.
        more: of later ones, which go on from the network of the fit before, late in the decay of the rate.
        samples: Monte Carlo samples in training.
        draws: functions drawn from the posterior.
        rate: learning rate, which falls to 0 along a cosine.
        initial_noise: variance of the noise at the start.
    """

    widths: tuple[int, ...] = (50,)
    activation: str = "tanh"
    steps: int = 3000
    more: int = 1000
    samples: int = 4
    draws: int = 200
    rate: float = 1e-2
    initial_noise: float = 0.01

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        """Maximise the evidence lower bound; with `keep`, condition the functions of the network on what is new."""
        at, y = data.x[data.mask], data.y[data.mask]
        seed = int(rng.integers(2**32))
        with jax.default_device(jax.devices("cpu")[0]):
            cohort = self._cohort(data, seed)
            known: State | None = None
            if previous is not None and previous["params"].shape == cohort.state.params.shape:
                known = previous
                cohort.state = resumed(cohort.state, known, self.steps - self.more)
            if known is None or not keep:
                cohort.advance(self.steps)
                known = {"x": without_nan(at), "y": y, "seed": np.array(seed), **arrays(cohort.state)}
            network = posterior(cohort)
        functions = network.draw(self.draws, np.random.default_rng(int(known["seed"])))
        old = with_nan(known["x"])
        fitted = SampledFunctions(
            functions, data.columns, old, known["y"], np.zeros(len(old)), math.exp(network.log_noise),
            np.eye(self.draws), self.activation != "relu",
        )  # fmt: skip
        new = ~among(at, old)
        if new.any():
            fitted = fitted.condition(at[new], y[new])
        return Fit(fitted, known, {"loss": float(cohort.state.loss[0]), "noise": math.exp(network.log_noise)})

    def _cohort(self, data: Observations, seed: int) -> Cohort:
        """The network before its training; the table is padded, so that a growing study compiles few programs."""
        x, y = features(data.x[data.mask], data.columns), data.y[data.mask]
        most = padded(len(y))
        table = Table.padded(x, y, most)
        family = Variational(self.activation, samples=self.samples)
        networks = describe(
            family, [self.widths], table, [np.arange(len(y))], seeds=[seed], most=most,
            initial_noise=[self.initial_noise],
        )  # fmt: skip
        count = len(feature_owners(data.columns))
        networks = networks._replace(
            x_center=np.zeros((1, count), np.float32), x_scale=np.full((1, count), SPREAD, np.float32),
            y_center=np.zeros(1, np.float32), y_scale=np.ones(1, np.float32),
        )  # fmt: skip
        return Cohort.new(family, Training(rate=self.rate, decay=self.steps), networks, table)


def arrays(state: TrainingState) -> State:
    """What a later fit goes on from: parameters and the optimiser's state."""
    leaves = jax.tree.leaves(state.optimiser)
    return {"params": np.asarray(state.params), **{f"optimiser{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}}


def resumed(state: TrainingState, known: State, step: int) -> TrainingState:
    """A state with parameters and moments of an earlier one, at a step late in the decay of the rate.

    So the first training and later ones are runs of one compiled program.
    """
    leaves, tree = jax.tree.flatten(state.optimiser)
    known_leaves = [jnp.asarray(known[f"optimiser{i}"]) for i in range(len(leaves))]
    counted = [jnp.full_like(leaf, step) if leaf.dtype == jnp.int32 else leaf for leaf in known_leaves]
    return state._replace(
        params=jnp.asarray(known["params"]), optimiser=jax.tree.unflatten(tree, counted),
        step=jnp.full_like(state.step, step),
    )  # fmt: skip


def without_nan(x: np.ndarray) -> np.ndarray:
    """Points with -1, which no coordinate of the cube is, for NaN."""
    return np.nan_to_num(x, nan=-1.0)


def with_nan(x: np.ndarray) -> np.ndarray:
    """The inverse of `without_nan`."""
    return np.where(x < 0.0, np.nan, x)


def among(x: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which rows [n, d] are rows of `others`, NaN being equal to NaN, [n]."""
    if x.shape[1] != others.shape[1]:
        return np.zeros(len(x), bool)
    seen = {row.tobytes() for row in without_nan(others)}
    return np.array([row.tobytes() in seen for row in without_nan(x)])
