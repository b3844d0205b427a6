"""The protocol of a proposer: observations in, points to try out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from presage.errors import SpaceError
from presage.observations import Column, Observations

if TYPE_CHECKING:
    from presage.surrogates.base import State

ATTEMPTS = 200  # batches of random points drawn before a space counts as unsatisfiable


@dataclass(frozen=True)
class Domain:
    """Where points may be proposed.

    Attributes:
        columns: what each column is.
        project: snaps points [n, d] to legal ones.
        legal: which of some projected points satisfy the constraints, [n].
        key: the point as the user sees it; different points of the cube may be the same one.
        taken: keys that may not be proposed again: tried or pending as often as is allowed.
        remaining: all points that may still be proposed, [n, d], for finite spaces small enough to list.
        box: lower and upper bounds of the part of the cube that is looked at, [2, d]; all of it where left out.
    """

    columns: tuple[Column, ...]
    project: Callable[[np.ndarray], np.ndarray]
    legal: Callable[[np.ndarray], np.ndarray]
    key: Callable[[np.ndarray], str]
    taken: Container[str] = frozenset()
    remaining: np.ndarray | None = None
    box: np.ndarray | None = None

    @property
    def bounds(self) -> np.ndarray:
        """Lower and upper bounds of points, [2, d]."""
        return np.array([[0.0], [1.0]]).repeat(len(self.columns), axis=1) if self.box is None else self.box

    def inside(self, unit: np.ndarray) -> np.ndarray:
        """Legal or illegal points of the box, projected, for points [n, d] of the unit cube."""
        lower, upper = self.bounds
        return self.project(lower + (upper - lower) * unit)

    def random(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Legal points, uniform, [count, d]; fewer than `count` where legal ones are rare."""
        found: list[np.ndarray] = []
        have = 0
        for _ in range(ATTEMPTS):
            points = self.inside(rng.random((max(count, 64), len(self.columns))))
            points = points[self.legal(points)]
            found.append(points[: count - have])
            have += len(found[-1])
            if have >= count:
                break
        if not have:
            tried = ATTEMPTS * max(count, 64)
            raise SpaceError(
                f"some point must satisfy the constraints, but none of {tried} random ones does; loosen them"
            )
        return np.concatenate(found)

    def fresh(self, points: np.ndarray, count: int, besides: Container[str] = ()) -> np.ndarray:
        """The first `count` points that may be proposed and differ from each other and from some others, by key."""
        chosen: dict[str, np.ndarray] = {}
        for point in points:
            if len(chosen) == count:
                break
            key = self.key(point)
            if key not in self.taken and key not in besides:
                chosen.setdefault(key, point)
        return np.array(list(chosen.values())).reshape(len(chosen), len(self.columns))


class Proposal(NamedTuple):
    """Points [count, d] (fewer where no more are left), the state to keep, and what there is to tell."""

    points: np.ndarray
    state: "State"
    info: dict[str, Any]


class Proposer(ABC):
    """How the next points are chosen. Configuration only; its memory is the state that it returns."""

    @abstractmethod
    def propose(
        self, state: "State", data: Observations, domain: Domain, count: int, *, rng: np.random.Generator
    ) -> Proposal:
        """Choose points that are legal, fresh and different from each other."""

    def quick(self) -> "Proposer":
        """The same at less cost, where there is a way."""
        return self
