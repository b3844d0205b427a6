"""An ensemble of sparse networks as a surrogate (S2)."""

from dataclasses import dataclass

import jax
import numpy as np

from presage.kernels import feature_owners, features
from presage.networks.ensemble import EnsembleDesign
from presage.networks.functions import Functions
from presage.networks.training import Training
from presage.observations import Observations, padded
from presage.surrogates.base import Fit, State, Surrogate
from presage.surrogates.sampled_functions import SampledFunctions
from presage.surrogates.variational_network import among, with_nan, without_nan

DESIGN = EnsembleDesign(
    members=20, keep=0.8, activation="tanh", steps=1000, training=Training(rate=1e-2, tolerance=1e-6)
)


@dataclass(frozen=True)
class NetworkEnsemble(Surrogate):
    """Networks with random sparse connections, their disagreement being the uncertainty.

    Args:
        design: of the ensemble; with relu the posterior is not differentiable.
    """

    design: EnsembleDesign = DESIGN

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        """Train all members anew; with `keep`, condition those of the fit before on what is new."""
        at, y = data.x[data.mask], data.y[data.mask]
        seed = int(rng.integers(2**32))
        report = {}
        if keep and previous is not None and previous["weight0"].shape[1] == len(feature_owners(data.columns)):
            state = previous
        else:
            with jax.default_device(jax.devices("cpu")[0]):
                fitted = self.design.fit(features(at, data.columns), y, seed=seed, most=padded(len(y)))
            chosen = fitted.functions.some(np.resize(np.flatnonzero(fitted.included), self.design.members))
            state = {"x": without_nan(at), "y": y, "noise": np.array(fitted.noise), **chosen.arrays()}
            report = {"excluded": int((~fitted.included).sum()), "steps": int(fitted.steps.max())}
        old = with_nan(state["x"])
        functions = Functions.from_arrays(state, self.design.activation)
        posterior = SampledFunctions(
            functions, data.columns, old, state["y"], np.zeros(len(old)), float(state["noise"]),
            np.eye(functions.count), self.design.activation != "relu",
        )  # fmt: skip
        new = ~among(at, old)
        return Fit(posterior.condition(at[new], y[new]) if new.any() else posterior, state, report)
