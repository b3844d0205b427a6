"""Several acquisitions, of which those that nominated good points are listened to more."""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from presage.acquisitions import Acquisition, ConfidenceBound, LogExpectedImprovement, ProbabilityOfImprovement
from presage.acquisitions.base import must_be_finite
from presage.observations import Observations
from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.model_based import ModelBased
from presage.proposers.random import RandomSearch
from presage.surrogates import State
from presage.threads import few_threads

GAINS, NOMINEES = "hedge.gains", "hedge.nominees"


@dataclass(frozen=True)
class Portfolio(Proposer):
    """Every acquisition nominates a point and one of them is drawn; each gains by how low f turns out at its nominee.

    (GP-Hedge: Hoffman et al., 2011, arXiv 1009.5419.) Gains are posterior means with their sign changed, in
    standardised units, nominees that were not tried included.

    Args:
        members: the acquisitions.
        base: model, maximiser and batches.
        rate: how fast the odds follow the gains.
    """

    members: tuple[Acquisition, ...] = (LogExpectedImprovement(), ProbabilityOfImprovement(), ConfidenceBound())
    base: ModelBased = field(default_factory=ModelBased)
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not len(self.members) or not all(isinstance(member, Acquisition) for member in self.members):
            raise ValueError(f"members must be acquisitions, one or more, but got members={self.members!r}")
        if not isinstance(self.base, ModelBased):
            raise TypeError(f"base must be a ModelBased, but got base={self.base!r}")
        must_be_finite(rate=self.rate)

    def propose(
        self, state: State, data: Observations, domain: Domain, count: int, *, rng: np.random.Generator
    ) -> Proposal:
        with few_threads():
            try:
                return self._propose(state, data, domain, count, rng)
            except (FloatingPointError, np.linalg.LinAlgError) as error:
                name = type(self.base.surrogate).__name__
                warnings.warn(f"{name} could not be fitted ({error}); suggesting at random", stacklevel=2)
                return RandomSearch().propose(state, data, domain, count, rng=rng)

    def _propose(
        self, state: State, data: Observations, domain: Domain, count: int, rng: np.random.Generator
    ) -> Proposal:
        model = {name: array for name, array in state.items() if name not in (GAINS, NOMINEES)}
        posterior, model, info = self.base.fit(model, data, rng=rng)
        gains = self._gains(state, posterior.predict, len(domain.columns))
        odds = np.exp(self.rate * (gains - gains.max()))
        chosen, keys, nominees = np.empty((0, len(domain.columns))), set[str](), np.empty((0, len(domain.columns)))
        for _ in range(count):
            ranked = [
                replace(self.base, acquisition=member).ranked(posterior, data, domain, rng=rng)[0]
                for member in self.members
            ]
            fresh = [domain.fresh(points, 1, besides=keys) for points in ranked]
            if not all(len(points) for points in fresh):
                break
            nominees = np.concatenate(fresh)
            which = int(rng.choice(len(self.members), p=odds / odds.sum()))
            chosen = np.vstack([chosen, nominees[which]])
            keys.add(domain.key(nominees[which]))
            data = data.with_pending(nominees[which])
        info["odds"] = (odds / odds.sum()).tolist()
        return Proposal(chosen, {**model, GAINS: gains, NOMINEES: nominees}, info)

    def _gains(self, state: State, predict, columns: int) -> np.ndarray:  # type: ignore[no-untyped-def]
        """What each member has gained, its last nominee included, [members]."""
        gains, nominees = state.get(GAINS), state.get(NOMINEES)
        if gains is None or nominees is None or gains.shape != (len(self.members),):
            return np.zeros(len(self.members))
        if nominees.shape != (len(self.members), columns):  # the space has changed
            return gains
        return gains - predict(nominees)[0]
