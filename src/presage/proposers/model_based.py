"""Fit a surrogate, maximise an acquisition."""

import warnings
from dataclasses import dataclass, field

import numpy as np

from presage.acquisitions import Acquisition, Context, Feasible, LogExpectedImprovement
from presage.observations import Observations
from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.maximise import Maximiser
from presage.proposers.random import RandomSearch
from presage.surrogates import Posterior, State, Surrogate, automatic
from presage.threads import few_threads

ANCHORS = 5  # best observed points around which candidates are drawn
FITTED = "rows"  # in the state: how many values the last fit saw


@dataclass(frozen=True)
class ModelBased(Proposer):
    """Bayesian optimisation: where the acquisition over the surrogate's posterior is largest.

    Pending points count as observed at their posterior mean, so that the next proposal goes elsewhere.

    Args:
        surrogate: the model.
        acquisition: what a point is worth under it.
        maximiser: finds the point that is worth most.
    """

    surrogate: Surrogate = field(default_factory=automatic)
    acquisition: Acquisition = field(default_factory=LogExpectedImprovement)
    maximiser: Maximiser = field(default_factory=Maximiser)

    def propose(
        self, state: State, data: Observations, domain: Domain, count: int, *, rng: np.random.Generator
    ) -> Proposal:
        with few_threads():
            try:
                return self._propose(state, data, domain, count, rng)
            except (FloatingPointError, np.linalg.LinAlgError) as error:
                warnings.warn(
                    f"{type(self.surrogate).__name__} could not be fitted ({error}); suggesting at random", stacklevel=2
                )
                return RandomSearch().propose(state, data, domain, count, rng=rng)

    def _propose(
        self, state: State, data: Observations, domain: Domain, count: int, rng: np.random.Generator
    ) -> Proposal:
        posterior, state, info = self.fit(state, data, rng=rng)
        acquisition = Feasible.learned(self.acquisition, data) if data.failed.any() else self.acquisition
        order = np.argsort(np.where(data.mask, data.y, np.inf), kind="stable")
        anchors = data.x[order[: min(ANCHORS, data.count)]]
        chosen, keys = np.empty((0, len(domain.columns))), set[str]()
        for _ in range(count):
            believed, best = posterior, posterior.incumbent()
            if data.failed.any():  # f has no value there; nobody should be drawn to where it might have been good
                worst = np.full(data.failed.sum(), data.y[data.mask].max())
                believed = believed.condition(data.x[data.failed], worst)
            if data.pending.any():
                at = data.x[data.pending]
                best = min(best, believed.marginal(at).moments()[0].min())
                believed = believed.condition(at, believed.predict(at)[0])
            context = Context(best=best)

            def values(x: np.ndarray, believed: Posterior = believed, context: Context = context) -> np.ndarray:
                return acquisition.values(believed, x, context)

            def gradients(
                x: np.ndarray, believed: Posterior = believed, context: Context = context
            ) -> tuple[np.ndarray, np.ndarray]:
                return acquisition.values_and_gradients(believed, x, context)

            points, worth = self.maximiser(
                values, gradients if believed.differentiable else None, domain, anchors, rng=rng
            )
            new = domain.fresh(points, 1, besides=keys)
            if not len(new):
                break
            chosen = np.vstack([chosen, new])
            keys.add(domain.key(new[0]))
            data = data.with_pending(new[0])
            info["acquisition"] = float(worth[0])
        return Proposal(chosen, state, info)

    def fit(self, state: State, data: Observations, *, rng: np.random.Generator) -> tuple[Posterior, State, dict]:
        """The posterior given the values; hyperparameters are refitted where the surrogate finds that they are due."""
        fitted = int(state[FITTED]) if FITTED in state else 0
        keep = not self.surrogate.due(data, state, fitted)
        posterior, found, diagnostics = self.surrogate.fit(data, rng=rng, previous=state or None, keep=keep)
        if not keep:
            state = {**found, FITTED: np.array(data.count)}
        return posterior, state, {"source": "model", **diagnostics}
