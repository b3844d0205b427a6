"""The default search: train what promises most improvement per unit of cost, with the option to give it up."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from presage.acquisitions.improvement import log_improvement
from presage.design.board import Board, Move, Search, rungs_at
from presage.design.curves.base import Curves, continued
from presage.design.curves.kronecker import KroneckerModel, KroneckerPosterior

__all__ = ["CurveSearch", "rates"]

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def rates(
    mean: np.ndarray, stddev: np.ndarray, informed: np.ndarray, best: float, now: np.ndarray, later: np.ndarray
) -> np.ndarray:
    """Improvement per cost of paying `now`, looking, and paying `later` only where it is then worth its cost.

    The look moves the mean of the final value by a normal number of variance stddev^2 - informed^2 and leaves the
    standard deviation `informed`. The rate r solves E[(EI after the look - r later)+] = r now: the largest ratio of
    expected improvement to expected cost that any rule for going on can reach. Arrays broadcast together.

    Args:
        mean: of the final value.
        stddev: of the final value.
        informed: standard deviation of the final value after the look.
        best: the value to improve on.
        now: cost up to the look.
        later: cost from there to the end.
    """
    moved = np.sqrt(np.maximum(stddev**2 - informed**2, 0.0))
    left = np.maximum(informed, 1e-9)
    z = (best - mean - moved * NODES.reshape(-1, *[1] * moved.ndim)) / left
    gain = left * np.exp(log_improvement(np.clip(z, -1e9, 1e9))[0])
    # The lower the mean after the look the larger the gain, so the nodes are in order already. If the k best of them go
    # on, r = sum w gain / (now + later sum w); the best k gives the largest r.
    weight = WEIGHTS.reshape(-1, *[1] * moved.ndim)
    paid = now + later * np.cumsum(weight, axis=0)
    return (np.cumsum(weight * gain, axis=0) / paid).max(axis=0)


@dataclass(frozen=True)
class CurveSearch(Search):
    """Cost-aware search on a model of whole curves.

    Every network, started or not, has a rate: the expected improvement on the best final value per unit of cost, under
    the best plan that trains it up to some rung, looks, and goes on or gives up. The network with the highest rate is
    trained up to that rung. What has been paid no longer counts, so a network on its way has an advantage over one to
    be started: no dithering.

    It begins with the networks that the board names first, then with random ones. The first of those named is trained
    to the end, which gives something to improve on and a whole curve to learn from. Where none is named, that is the
    most promising of the initial networks.

    Args:
        model: of the curves. Ranges are chosen wide: if it did not expect less of their ends, the corners, of which it
            knows least, would be tried first.
        rungs: shares of the training at which it may be interrupted.
        initial: networks started before the first fit.
        first: how far they are trained before the first fit, as a share.
        parallel: networks advanced together; later ones of a batch take the earlier ones' expected values as seen.
        refit: hyperparameters are fitted anew whenever the number of values has grown by this share.
    """

    model: KroneckerModel = KroneckerModel(ends=2.0)
    rungs: tuple[float, ...] = (0.2, 0.45, 0.65)
    initial: int = 3
    first: float = 0.2
    parallel: int = 1
    refit: float = 0.4

    def decide(self, board: Board, *, rng: np.random.Generator, memory: dict[str, Any]) -> list[Move]:
        columns = rungs_at(board.curves.steps, self.rungs)
        begun = self._begin(board, rng)
        if begun:
            return begun
        seen = board.curves.at(columns)
        found = continued(self.model, seen, memory, self.refit, rng=rng)
        moves: list[Move] = []
        posterior = found.posterior
        while True:
            assert isinstance(posterior, KroneckerPosterior)
            rate, rung = self.plan(board, posterior, columns)
            if not np.isfinite(board.finals).any() and not moves:  # something to improve on
                mean = np.where(board.done > 0, posterior.marginal().mean[0], np.inf)
                rate[int(np.argmin(mean))], rung[int(np.argmin(mean))] = np.inf, len(columns) - 1
            rate[[move.row for move in moves]] = -np.inf
            row = int(np.argmax(rate))
            if rate[row] == -math.inf:
                return moves
            moves.append(Move(row, columns[rung[row]]))
            if len(moves) >= self.parallel:
                return moves
            seen = self._expected(seen, posterior, row, int(rung[row]))
            posterior = self.model.fit(seen, rng=rng, previous=found.state, keep=True).posterior

    def _begin(self, board: Board, rng: np.random.Generator) -> list[Move]:
        """The next of the initial networks: those under way, those named, then any; none if all had their turn."""
        look, end = rungs_at(board.curves.steps, (self.first,))[0], len(board.curves.steps) - 1
        started = [int(row) for row in np.flatnonzero(board.done > 0)]
        if len(started) > self.initial:
            return []
        goal = {row: end if row in board.first[:1] else look for row in range(len(board.done))}
        rows = [row for row in started if board.done[row] <= goal[row]]
        new = [row for row in board.first if board.done[row] == 0]
        others = np.setdiff1d(np.flatnonzero(board.done == 0), new)
        wanted = min(self.initial - len(started), len(new) + len(others))
        if wanted > len(new):
            share = 1.0 / board.cost[others]  # as much for the cheap as for the dear
            new += rng.choice(others, wanted - len(new), replace=False, p=share / share.sum()).tolist()
        return [Move(int(row), goal[row]) for row in [*rows, *new[:wanted]][: self.parallel]]

    def plan(self, board: Board, posterior: KroneckerPosterior, columns: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """The rate of every network, -inf for those that are done, and the rung up to which it is to be trained."""
        finals, last = board.finals, len(columns) - 1
        law = posterior.marginal()
        mean, stddev = law.mean[0], np.sqrt(law.variance[0])
        unfinished = ~np.isfinite(finals)
        best = float(posterior.squash.forward(np.nanmin(finals))) if (~unfinished).any() else float(np.median(mean))
        rows, at = np.arange(len(finals)), np.array(columns)[:, None]
        now, whole = board.price(rows, at), board.price(rows, columns[last])
        open_ = unfinished & (board.done <= at)
        informed = np.minimum(posterior.informed(), stddev)
        found = rates(mean, stddev, informed, best, np.where(open_, now, 1.0), np.maximum(whole - now, 0.0))
        found[~open_] = -np.inf
        return found.max(axis=0), found.argmax(axis=0)

    def _expected(self, seen: Curves, posterior: KroneckerPosterior, row: int, rung: int) -> Curves:
        """The table as if a network had come out at a rung as expected."""
        values = seen.values.copy()
        for j in range(int(seen.known[row]), rung + 1):
            values[row, j] = float(posterior.squash.inverse(posterior.marginal(j).mean[0, row]))
        return Curves(seen.x, seen.steps, values, seen.columns)
