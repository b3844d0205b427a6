"""What searches within searches have in common: states inside states, points told apart, settings checked."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np

from presage.proposers.base import Proposer
from presage.surrogates import State


@dataclass(frozen=True)
class Either(Container[str]):
    """What is in one or the other of two containers."""

    first: Container[str]
    second: Container[str]

    def __contains__(self, key: object) -> bool:
        return key in self.first or key in self.second


def equal(x: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of some points [n, d] are which of others [m, d], [n, m]; absent cells are NaN or -1.

    A point that was stored in the user's units and read back differs by roundings. One column after the other, for the
    pairs that are equal so far, as all differences at once would not fit into memory.
    """
    x, others = np.nan_to_num(x, nan=-1.0), np.nan_to_num(others, nan=-1.0)
    i, j = np.indices((len(x), len(others))).reshape(2, -1)
    for column in range(others.shape[1]):
        near = np.abs(x[i, column] - others[j, column]) < 1e-9
        i, j = i[near], j[near]
    same = np.zeros((len(x), len(others)), dtype=bool)
    same[i, j] = True
    return same


def split(state: State, prefix: str) -> tuple[State, State]:
    """The part of a state whose names have this prefix, without it, and the rest."""
    part = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
    return part, {name: array for name, array in state.items() if not name.startswith(prefix)}


def joined(prefix: str, part: State, rest: State) -> State:
    """The state of which `split` gives these two."""
    return {**rest, **{prefix + name: array for name, array in part.items()}}


def check(proposer: Any, **least: int) -> None:
    """ValueError for a setting below its least; TypeError for a base that is no proposer."""
    for name, value in least.items():
        if not getattr(proposer, name) >= value:
            raise ValueError(f"{name} >= {value} must hold, but got {name}={getattr(proposer, name)}")
    if not isinstance(proposer.base, Proposer):
        raise TypeError(f"base must be a proposer such as ModelBased(), but got base={proposer.base!r}")
