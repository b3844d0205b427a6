"""A mean-field Gaussian network as a surrogate (S4)."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from presage.kernels import feature_owners, features
from presage.networks.training import Cohort, Table, Training, describe
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
        more: of later ones, which go on from the network of the fit before.
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
            steps = self.steps if previous is None else self.more
            cohort = self._cohort(data, seed, steps)
            known = previous
            if known is not None and known["params"].shape == cohort.state.params.shape:
                cohort.state = cohort.state._replace(params=jnp.asarray(known["params"]))
            else:
                known = None
            if known is None or not keep:
                cohort.advance(steps)
                known = {"params": np.asarray(cohort.state.params), "seed": np.array(seed), "x": at, "y": y}
            network = posterior(cohort)
        functions = network.draw(self.draws, np.random.default_rng(int(known["seed"])))
        fitted = SampledFunctions(
            functions, data.columns, known["x"], known["y"], np.zeros(len(known["y"])), math.exp(network.log_noise),
            np.eye(self.draws), self.activation != "relu",
        )  # fmt: skip
        new = ~among(at, known["x"])
        if new.any():
            fitted = fitted.condition(at[new], y[new])
        return Fit(fitted, known, {"loss": float(cohort.state.loss[0]), "noise": math.exp(network.log_noise)})

    def _cohort(self, data: Observations, seed: int, steps: int) -> Cohort:
        """The network before its training; the table is padded, so that a growing study compiles few programs."""
        x, y = features(data.x[data.mask], data.columns), data.y[data.mask]
        most = padded(len(y))
        table = Table(np.pad(x, ((0, most - len(y)), (0, 0))), np.pad(y, (0, most - len(y))))
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
        return Cohort.new(family, Training(rate=self.rate, decay=steps), networks, table)


def among(x: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which rows [n, d] are rows of `others`, NaN being equal to NaN, [n]."""
    if x.shape[1] != others.shape[1]:
        return np.zeros(len(x), bool)
    seen = {row.tobytes() for row in np.nan_to_num(others, nan=-1.0)}
    return np.array([row.tobytes() in seen for row in np.nan_to_num(x, nan=-1.0)])
