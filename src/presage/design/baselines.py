"""What everybody would try first: random search, successive halving, Hyperband, a Gaussian process on final values."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from presage.design.board import Board, Move, Search, rungs_at
from presage.observations import observe
from presage.surrogates.base import Marginal, Surrogate
from presage.surrogates.gaussian_process import GaussianProcess

__all__ = ["FinalSearch", "Hyperband", "RandomSearch", "SuccessiveHalving", "log_expected_improvement"]


def log_expected_improvement(law: Marginal, best: float) -> np.ndarray:
    """log E[max(best - value, 0)] of every row, [n]."""
    from presage.acquisitions.improvement import log_improvement

    sigma = np.sqrt(np.maximum(law.variance, 1e-30))
    z = np.clip((best - law.mean) / sigma, -1e9, 1e9)  # values that are known have no spread
    each = log_improvement(z)[0] + np.log(sigma)
    return np.logaddexp.reduce(each + np.log(law.weight)[:, None], axis=0)


def fresh(board: Board, rng: np.random.Generator, count: int = 1) -> list[int]:
    """Some networks that nobody has started, at random."""
    free = np.flatnonzero(board.done == 0)
    return rng.choice(free, min(count, len(free)), replace=False).tolist()


@dataclass(frozen=True)
class RandomSearch(Search):
    """Train networks at random, each to its end.

    Args:
        parallel: how many at a time.
    """

    parallel: int = 1

    def decide(self, board: Board, *, rng: np.random.Generator, memory: dict[str, Any]) -> list[Move]:
        return [Move(row, len(board.curves.steps) - 1) for row in fresh(board, rng, self.parallel)]


@dataclass(frozen=True)
class SuccessiveHalving(Search):
    """Asynchronous successive halving (ASHA, arXiv 1810.05934, algorithm 2).

    Whoever is among the best 1/eta of those that reached a rung goes on to the next; if nobody can, a new network
    starts.

    Args:
        eta: one in so many is promoted.
        least: the first rung, as a share of the whole training; the next ones are eta times as far.
    """

    eta: int = 3
    least: float = 1 / 27

    def decide(self, board: Board, *, rng: np.random.Generator, memory: dict[str, Any]) -> list[Move]:
        rungs = rungs_at(board.curves.steps, _geometric(self.least, self.eta))
        for lower, upper in reversed(list(pairwise(rungs))):
            there = np.flatnonzero(board.done > lower)
            best = there[np.argsort(board.curves.values[there, lower], kind="stable")][: len(there) // self.eta]
            waiting = [int(row) for row in best if board.done[row] <= upper]
            if waiting:
                return [Move(waiting[0], upper)]
        new = fresh(board, rng)
        if new:
            return [Move(new[0], rungs[0])]
        left = np.flatnonzero(board.done < len(board.curves.steps))  # all were started: the best go on first
        if not len(left):
            return []
        at = board.done[left] - 1
        row = int(left[np.lexsort((board.curves.values[left, at], -at))[0]])
        return [Move(row, next(rung for rung in rungs if rung >= board.done[row]))]


def _geometric(least: float, eta: int) -> list[float]:
    """Shares of the training from the least to the whole."""
    count = round(-math.log(least) / math.log(eta))
    return [float(eta) ** -power for power in range(count, 0, -1)]


@dataclass(frozen=True)
class Hyperband(Search):
    """Brackets of successive halving, from many short to few long trainings (arXiv 1603.06560, algorithm 1).

    Args:
        eta: one in so many is promoted.
        least: the first rung of the widest bracket, as a share of the whole training.
    """

    eta: int = 3
    least: float = 1 / 27

    def decide(self, board: Board, *, rng: np.random.Generator, memory: dict[str, Any]) -> list[Move]:
        largest = round(-math.log(self.least) / math.log(self.eta))
        while True:
            queue, bracket = memory.get("queue", []), memory.get("bracket", largest)
            while queue:
                row, column = queue.pop(0)
                if board.done[row] <= column:
                    memory["queue"] = queue
                    return [Move(row, column)]
            rungs = rungs_at(board.curves.steps, _geometric(float(self.eta) ** -bracket, self.eta))
            members, rung = memory.get("members", []), memory.get("rung", -1)
            if members and rung + 1 < len(rungs):  # the round is over: the best of it go on
                order = sorted(members, key=lambda row: float(board.curves.values[row, rungs[rung]]))
                members = order[: max(1, len(members) // self.eta)]
                rung += 1
            else:
                if members:
                    bracket = bracket - 1 if bracket > 0 else largest
                    rungs = rungs_at(board.curves.steps, _geometric(float(self.eta) ** -bracket, self.eta))
                count = math.ceil((largest + 1) / (bracket + 1) * self.eta**bracket)
                members, rung = fresh(board, rng, count), 0
                if not members:
                    left = np.flatnonzero(board.done < len(board.curves.steps))
                    return [Move(int(left[0]), len(board.curves.steps) - 1)] if len(left) else []
            memory |= {
                "bracket": bracket, "members": members, "rung": rung, "queue": [(row, rungs[rung]) for row in members],
            }  # fmt: skip


@dataclass(frozen=True)
class FinalSearch(Search):
    """Bayesian optimisation of final values: every network is trained to its end.

    Args:
        surrogate: of the final values.
        initial: networks at random before the first fit.
        parallel: networks at a time; later ones of a batch take the earlier ones' expected values as seen.
        refit: hyperparameters are fitted anew whenever the number of values has grown by this share.
    """

    surrogate: Surrogate = GaussianProcess()
    initial: int = 4
    parallel: int = 1
    refit: float = 0.1

    def decide(self, board: Board, *, rng: np.random.Generator, memory: dict[str, Any]) -> list[Move]:
        last = len(board.curves.steps) - 1
        finals = board.finals
        complete = int(np.isfinite(finals).sum())
        if complete < self.initial:
            return [Move(row, last) for row in fresh(board, rng, min(self.parallel, self.initial - complete))]
        free = np.flatnonzero(~np.isfinite(finals))
        data = observe(board.curves.x, finals, board.curves.columns)
        state, fitted = memory.get("state"), memory.get("fitted", 0)
        keep = complete < fitted * (1.0 + self.refit)
        found = self.surrogate.fit(data, rng=rng, previous=state, keep=keep)
        memory |= {"state": found.state, "fitted": fitted if keep else complete}
        posterior = found.posterior
        chosen: list[int] = []
        while len(chosen) < min(self.parallel, len(free)):
            law = posterior.marginal(board.curves.x[free])
            score = log_expected_improvement(law, posterior.incumbent())
            score[np.isin(free, chosen)] = -np.inf
            row = int(free[np.argmax(score)])
            chosen.append(row)
            if len(chosen) < self.parallel:
                at = board.curves.x[[row]]
                posterior = posterior.condition(at, posterior.marginal(at).moments()[0])
        return [Move(row, last) for row in chosen]
