"""Algorithm 2 of S4: Bayesian optimisation over a GPAR model of training curves."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from presage.design.baselines import fresh, log_expected_improvement
from presage.design.board import Board, Move, Search
from presage.design.curves.base import continued
from presage.design.curves.gpar import GPAR
from presage.surrogates.base import Marginal

__all__ = ["GPARSearch"]


@dataclass(frozen=True)
class GPARSearch(Search):
    """K random networks trained to the end, then M networks at a time advanced by one stage.

    Mean and variance of each network's final value come from N samples of the model, drawn anew for each of the M
    choices; the one with the largest acquisition is advanced. (The seed's aim is a larger log-likelihood; values are
    smaller is better here.)

    Args:
        stages: steps at which networks are looked at, besides the last one.
        initial: K.
        parallel: M.
        samples: N.
        acquisition: ei, pi or ucb.
        kappa: of ucb.
        distinct: no network twice in one batch.
        model: of the curves at the stages.
        refit: hyperparameters are fitted anew whenever the number of values has grown by this share.
    """

    stages: tuple[int, ...] = (1000, 4000)
    initial: int = 4
    parallel: int = 4
    samples: int = 50
    acquisition: Literal["ei", "pi", "ucb"] = "ei"
    kappa: float = 1.0
    distinct: bool = True
    model: GPAR = GPAR()
    refit: float = 0.1

    def decide(self, board: Board, *, rng: np.random.Generator, memory: dict[str, Any]) -> list[Move]:
        steps = board.curves.steps
        columns = sorted({int(np.argmin(np.abs(steps - stage))) for stage in (*self.stages, steps[-1])})
        complete = int(np.isfinite(board.finals).sum())
        if complete < self.initial:
            return [Move(row, len(steps) - 1) for row in fresh(board, rng, min(self.parallel, self.initial - complete))]
        found = continued(self.model, board.curves.at(columns), memory, self.refit, rng=rng)
        law, squash = found.posterior.marginal(), found.posterior.squash
        best = float(squash.forward(np.nanmin(board.finals)))
        free = ~np.isfinite(board.finals)
        chosen: list[int] = []
        for _ in range(min(self.parallel, int(free.sum()))):
            # N samples of each network's final value; the model hands on a mixture over samples of earlier outputs.
            pick = rng.integers(len(law.mean), size=(self.samples, law.mean.shape[1]))
            at = np.arange(law.mean.shape[1])
            draws = law.mean[pick, at] + np.sqrt(law.variance[pick, at]) * rng.standard_normal(pick.shape)
            score = self._score(draws.mean(axis=0), draws.var(axis=0, ddof=1), best)
            score[~free] = -np.inf
            if self.distinct:
                score[chosen] = -np.inf
            chosen.append(int(np.argmax(score)))
        done = board.done
        return [Move(row, next(c for c in columns if c >= done[row])) for row in dict.fromkeys(chosen)]

    def _score(self, mean: np.ndarray, variance: np.ndarray, best: float) -> np.ndarray:
        """The acquisition of every network from mean and variance of its final value, larger being better."""
        sigma = np.sqrt(variance)
        if self.acquisition == "ei":
            return log_expected_improvement(Marginal(mean[None], variance[None], np.ones(1)), best)
        if self.acquisition == "pi":
            return (best - mean) / np.maximum(sigma, 1e-12)
        return self.kappa * sigma - mean
