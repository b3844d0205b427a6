"""What a search over networks knows, what it may decide, and how it is played on a table of curves."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from presage.design.curves.base import Curves

__all__ = ["Board", "Move", "Played", "Search", "play", "rungs_at"]


class Move(NamedTuple):
    """Train a network, the row, up to a step, the column."""

    row: int
    column: int


@dataclass(frozen=True)
class Board:
    """Networks that could be trained, and how far each is.

    Attributes:
        curves: values so far, smaller being better; rows without values are networks not yet started.
        cost: of one step of each network, in seconds or in steps, [n].
        first: rows that are known to do well elsewhere, the best first; a search may begin with them.
    """

    curves: Curves
    cost: np.ndarray
    first: tuple[int, ...] = ()

    @cached_property
    def done(self) -> np.ndarray:
        """How many columns of each row are known, [n]."""
        return self.curves.known

    @property
    def finals(self) -> np.ndarray:
        """Values of networks that were trained to the end, NaN for the others, [n]."""
        return self.curves.values[:, -1]

    def price(self, row: int | np.ndarray, column: int | np.ndarray) -> Any:
        """What it costs to train a network from where it is up to a step."""
        steps = np.concatenate([[0], self.curves.steps])
        return self.cost[row] * (steps[np.asarray(column) + 1] - steps[self.done[row]])

    def best(self) -> int | None:
        """The trained network with the least final value, None if none is trained to the end."""
        finals = self.finals
        return int(np.nanargmin(finals)) if np.isfinite(finals).any() else None


class Search(ABC):
    """A way to choose what to train next; configuration only, every field has a default."""

    @abstractmethod
    def decide(self, board: Board, *, rng: np.random.Generator, memory: dict[str, Any]) -> list[Move]:
        """Networks to advance together, none twice; empty if there is nothing left to do.

        Args:
            board: what is known.
            rng: for whatever is random.
            memory: the search's own, kept between decisions; numbers, lists and plain arrays by name.
        """


def rungs_at(steps: np.ndarray, shares: Sequence[float]) -> list[int]:
    """The columns nearest to shares of the last step, the last one among them.

    Example:
        >>> rungs_at(np.array([100, 500, 1000, 2000]), (0.1, 0.25))
        [0, 1, 3]
    """
    return sorted({int(np.argmin(np.abs(steps - share * steps[-1]))) for share in (*shares, 1.0)})


@dataclass
class Played:
    """What a search did on a table.

    Attributes:
        spent: cost before and including each move, in order.
        moves: the moves.
    """

    spent: list[float] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)


def play(
    search: Search, curves: Curves, cost: np.ndarray, budget: float, *, rng: np.random.Generator,
    first: tuple[int, ...] = (),
) -> Played:  # fmt: skip
    """Let a search find its way through a table whose values it sees only as far as it has paid for them."""
    values = np.full_like(curves.values, np.nan)
    played, memory, spent = Played(), {}, 0.0  # type: ignore[var-annotated]
    while spent < budget:
        board = Board(Curves(curves.x, curves.steps, values, curves.columns), cost, first)
        moves = search.decide(board, rng=rng, memory=memory)
        if not moves:
            break
        prices = [float(board.price(*move)) for move in moves]
        for move, price in zip(moves, prices, strict=True):
            if price <= 0.0:
                raise ValueError(f"a move must train its network, but {move} was already made")
            spent += price
            played.spent.append(spent)
            played.moves.append(move)
            values[move.row, : move.column + 1] = curves.values[move.row, : move.column + 1]
    return played
