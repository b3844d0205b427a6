"""Fit a surrogate, maximise an acquisition."""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from presage import acquisitions
from presage.acquisitions import Acquisition, Context, Feasible
from presage.observations import Observations
from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.batch import Batch, Believe, JointImprovement, joins
from presage.proposers.maximise import Maximiser
from presage.proposers.random import RandomSearch
from presage.surrogates import Posterior, State, Surrogate, automatic
from presage.threads import few_threads

ANCHORS = 5  # best observed points around which candidates are drawn
LOOKED_AT = 1000  # observed points that acquisitions know of; where there are more, the best half as many
FITTED = "rows"  # in the state: how many values the last fit saw


@dataclass(frozen=True)
class ModelBased(Proposer):
    """Bayesian optimisation: where the acquisition over the surrogate's posterior is largest.

    Args:
        surrogate: the model.
        acquisition: what a point is worth under it.
        maximiser: finds the point that is worth most.
        batch: what pending points mean for the next one; by default they count as believed, and batches of expected
            improvement move to where they are best together.
        apart: least distance on the cube between a new point and pending ones (seed S3's distinct points).
    """

    surrogate: Surrogate = field(default_factory=automatic)
    acquisition: Acquisition = field(default_factory=acquisitions.automatic)
    maximiser: Maximiser = field(default_factory=Maximiser)
    batch: Batch | None = None
    apart: float = 0.0

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
        informed = self._informed(data)  # once for all points
        chosen, keys, rest = np.empty((0, len(domain.columns))), set[str](), data
        for _ in range(count):
            points, values = informed._ranked(posterior, rest, domain, rng)
            new = domain.fresh(self._apart(points, rest.x[rest.pending]), 1, besides=keys)
            if not len(new):
                break
            chosen = np.vstack([chosen, new])
            keys.add(domain.key(new[0]))
            rest = rest.with_pending(new[0])
            info["acquisition"] = float(values[0])
        if len(chosen) > 1 and not data.failed.any():  # how likely a point is to fail does not move with it
            context = self._context(posterior, data, domain)
            asked = informed.acquisition
            moved = self._batch.together(posterior, asked, context, chosen, data.x[data.pending], domain, rng=rng)
            if len(domain.fresh(moved, len(moved))) == len(moved):
                chosen = moved
        return Proposal(chosen, state, info)

    def quick(self) -> "ModelBased":
        """With a quarter of the candidates, of which two are improved."""
        return replace(self, maximiser=replace(self.maximiser.fewer(4), starts=2))

    @property
    def _batch(self) -> Batch:
        if self.batch is not None:
            return self.batch
        return JointImprovement() if joins(self.acquisition) and not self.apart else Believe()

    def ranked(
        self, posterior: Posterior, data: Observations, domain: Domain, *, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Legal points in falling order of what they are worth, given failed and pending rows, [m, d] and [m]."""
        return self._informed(data)._ranked(posterior, data, domain, rng)

    def _informed(self, data: Observations) -> "ModelBased":
        """With what the acquisition learns of the table besides values: times, failures."""
        acquisition = self.acquisition.informed(data)
        if data.failed.any():
            acquisition = Feasible.learned(acquisition, data)
        return replace(self, acquisition=acquisition, batch=self._batch)

    def _ranked(
        self, posterior: Posterior, data: Observations, domain: Domain, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        context, believed, acquisition = self._context(posterior, data, domain), posterior, self.acquisition
        if data.pending.any():
            at = data.x[data.pending]
            believed, acquisition, context = self._batch.pending(believed, acquisition, context, at, rng=rng)
        acquisition = acquisition.prepare(believed, context, rng=rng)

        def values(x: np.ndarray) -> np.ndarray:
            return acquisition.values(believed, x, context)

        def gradients(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return acquisition.values_and_gradients(believed, x, context)

        maximiser = self.maximiser.fewer(4) if acquisition.costly else self.maximiser
        return maximiser(values, gradients if believed.differentiable else None, domain, _anchors(data), rng=rng)

    def _context(self, posterior: Posterior, data: Observations, domain: Domain) -> Context:
        def candidates(rng: np.random.Generator) -> np.ndarray:
            if domain.remaining is not None:
                return domain.remaining
            return np.concatenate(self.maximiser.candidates(domain, _anchors(data), rng=rng))

        rows = np.flatnonzero(data.mask)
        if len(rows) > LOOKED_AT:
            rows = rows[np.argsort(data.y[rows], kind="stable")[: LOOKED_AT // 2]]
        return Context(Context.best_of(posterior), data.count, data.x[rows], candidates)

    def _apart(self, points: np.ndarray, pending: np.ndarray) -> np.ndarray:
        """The points that differ enough from pending ones; all of them where none does."""
        if not self.apart or not len(pending):
            return points
        step = np.nan_to_num(points[:, None] - pending)
        far = (np.sqrt(np.square(step).sum(axis=2)) >= self.apart).all(axis=1)
        return points[far] if far.any() else points

    def fit(self, state: State, data: Observations, *, rng: np.random.Generator) -> tuple[Posterior, State, dict]:
        """The posterior given the values; hyperparameters are refitted where the surrogate finds that they are due."""
        fitted = int(state[FITTED]) if FITTED in state else 0
        keep = not self.surrogate.due(data, state, fitted)
        posterior, found, diagnostics = self.surrogate.fit(data, rng=rng, previous=state or None, keep=keep)
        if not keep:
            state = {**found, FITTED: np.array(data.count)}
        return posterior, state, {"source": "model", **diagnostics}


def _anchors(data: Observations) -> np.ndarray:
    """The best observed points, best first."""
    order = np.argsort(np.where(data.mask, data.y, np.inf), kind="stable")
    return data.x[order[: min(ANCHORS, data.count)]]
