"""Whether a study's suggestions can be computed again from its events: the order of arrivals is part of them."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import StudyError
from presage.history import History
from presage.journal import unpack
from presage.space import Params, Space
from presage.storage import Event, Storage, open_storage
from presage.suggester import Suggester

if TYPE_CHECKING:
    from presage.acquisitions import Acquisition
    from presage.surrogates import Surrogate


@dataclass(frozen=True)
class Difference:
    """A suggestion that came out otherwise."""

    number: int
    stored: Params
    computed: Params | None


@dataclass(frozen=True)
class Replay:
    """What became of computing all suggestions again.

    Attributes:
        suggestions: how many there are.
        differences: those that came out otherwise.
        state: whether the fit state at the end is the stored one.
        versions: what the study was made with.
    """

    suggestions: int
    differences: tuple[Difference, ...]
    state: bool
    versions: dict[str, str]

    @property
    def exact(self) -> bool:
        """Whether everything came out the same, to the last bit."""
        return self.state and not self.differences


def replay(
    storage: Storage | str | os.PathLike[str], name: str, *, space: Space | None = None,
    surrogate: "str | Surrogate | None" = None, acquisition: "str | Acquisition | None" = None,
) -> Replay:  # fmt: skip
    """Compute every suggestion of a study again, each from the events that it saw; guaranteed for the same versions.

    Args:
        storage: where the study is.
        name: which one.
        space: needed where the study's space has constraints, which are callables and are not stored.
        surrogate: needed where it was an object of the caller's own rather than a name.
        acquisition: likewise.
    """
    events, _, stored = open_storage(storage, create=False).snapshot(name)
    history = History(() if space is None else space.constraints)
    given = {"surrogate": surrogate, "acquisition": acquisition}
    suggesters: dict[str, Suggester] = {}
    state: dict[str, np.ndarray] = {}
    differences: list[Difference] = []
    count = 0
    suggested = (payload for _, payload in events if payload.get("type") == "suggested")
    for seen, batch in groupby(suggested, key=lambda payload: payload["seen"]):
        same = list(batch)
        _apply(history, events, seen)
        if space is None and history.stored_space["constraints"]:
            raise StudyError(f"the space of study {name!r} has constraints, which are not stored; pass space= again")
        settings = {what: same[0].get(what, history.settings[what]) for what in given}
        suggester = suggesters.setdefault(repr(settings), _suggester(name, settings, given))
        asked, effort = same[0].get("asked", len(same)), same[0].get("effort", "usual")
        points, _, new = suggester.choose(history, state, asked, effort=effort)
        computed: list[Params | None] = [history.space.decode(point) for point in points]
        computed += [None] * (len(same) - len(computed))
        for payload, mine in zip(same, computed, strict=True):
            theirs = history.space.complete(payload["params"])
            if repr(mine) != repr(theirs):  # in which 1, 1.0 and True differ
                differences.append(Difference(payload["number"], theirs, mine))
        count += len(same)
        state = state if new is None else new
    _apply(history, events, len(events))
    versions = events[0].payload.get("versions", {})
    return Replay(count, tuple(differences), _equal(state, {} if stored is None else unpack(stored[1])), versions)


def _apply(history: History, events: list[Event], upto: int) -> None:
    for event in events[history.seq : upto]:
        history.apply(event)


def _suggester(name: str, settings: dict[str, Any], given: dict[str, Any]) -> Suggester:
    for what, stored in settings.items():
        if not isinstance(stored, str) and given[what] is None:
            raise StudyError(f"study {name!r} was made with {what} {stored['object']}; pass {what}= again")
    return Suggester(*(s if isinstance(s, str) else given[what] for what, s in settings.items()))


def _equal(mine: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> bool:
    return mine.keys() == theirs.keys() and all(_same(mine[name], theirs[name]) for name in mine)


def _same(one: np.ndarray, other: Iterable[Any]) -> bool:
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
