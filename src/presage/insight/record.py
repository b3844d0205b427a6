"""A study seen from outside: its past, and a model of it. Looking never writes."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import StudyError
from presage.history import History
from presage.insight.model import Model
from presage.journal import unpack
from presage.observations import Observations, columns_of, observe
from presage.proposers import ModelBased
from presage.space import Space
from presage.storage import Storage
from presage.suggester import Suggester
from presage.threads import few_threads
from presage.trial import Trial

if TYPE_CHECKING:
    from presage.study import Study

MOST = 300  # values that a model for looking at is fitted to; of more, the better half and some of the others


@dataclass
class Record:
    """The facts of a study, and its surrogate when asked.

    Attributes:
        name: of the study.
        history: its events, replayed.
        storage: where they are from.
        suggester: chooses as the study does; a surrogate that was an object of the user's own is replaced by "auto".
        state: of the last fit.
    """

    name: str
    history: History
    storage: Storage
    suggester: Suggester
    state: dict[str, np.ndarray] = field(default_factory=dict)
    foretold: tuple[Any, Any] | None = field(
        default=None, repr=False
    )  # the last answer of `foretell`, which takes long
    _model: tuple[int, Model] | None = field(default=None, repr=False)

    @staticmethod
    def open(storage: Storage, name: str) -> "Record":
        """The study of that name as it is now."""
        history = History()
        history.catch_up(storage, name)
        return Record.after(history, storage, name)

    @staticmethod
    def after(history: History, storage: Storage, name: str) -> "Record":
        """The study whose events were replayed already."""
        named = {what: setting if isinstance(setting, str) else "auto" for what, setting in history.settings.items()}
        stored = storage.state(name) if named == history.settings else None
        return Record(name, history, storage, Suggester(**named), {} if stored is None else unpack(stored[1]))

    @property
    def space(self) -> Space:
        return self.history.space

    @property
    def sign(self) -> float:
        return self.history.sign

    @property
    def trials(self) -> Sequence[Trial]:
        return self.history.trials

    @property
    def complete(self) -> list[Trial]:
        """Trials with a value, in the order in which they finished."""
        return sorted((t for t in self.history.trials if t.values), key=lambda t: (t.finished or 0.0, t.number))

    @property
    def best(self) -> Trial:
        """The complete trial with the best value."""
        complete = self.complete
        if not complete:
            raise StudyError(f"study {self.name!r} must have a complete trial for this, but has none yet")
        return min(complete, key=lambda t: self.sign * t.values[0])

    @property
    def proposer(self) -> ModelBased:
        """The surrogate and the acquisition; the default ones for a random search."""
        return self.suggester.proposer if isinstance(self.suggester.proposer, ModelBased) else ModelBased()

    def model(self) -> Model:
        """The surrogate fitted to all values so far."""
        if self._model is None or self._model[0] != self.history.seq:
            if len(self.complete) > MOST:
                self._model = (self.history.seq, self.model_of(self._some()))
            else:
                posterior, data = self.suggester.fit(self.history, self.state)
                self._model = (self.history.seq, Model(self.space, posterior, data, self.sign))
        return self._model[1]

    def _some(self) -> Observations:
        ranked = sorted(self.complete, key=lambda t: self.sign * t.values[0])
        others = np.random.default_rng(0).choice(len(ranked) - MOST // 2, MOST - MOST // 2, replace=False)
        return self._observe(ranked[: MOST // 2] + [ranked[MOST // 2 + i] for i in sorted(others)])

    def model_of(self, data: Observations) -> Model:
        """The surrogate fitted to other observations of this study, from scratch."""
        with few_threads():
            fit = self.proposer.surrogate.fit(
                data, rng=np.random.default_rng([self.history.header["seed"], data.count])
            )
        return Model(self.space, fit.posterior, data, self.sign)

    def prefix(self, count: int) -> Observations:
        """What the surrogate would have seen after the first `count` values."""
        return self._observe(self.complete[:count])

    def _observe(self, trials: Sequence[Trial]) -> Observations:
        return observe(
            np.array([self.history.points[t.number] for t in trials]),
            np.array([self.sign * t.values[0] for t in trials]), columns_of(self.space),
            stddev=np.array([t.stddev for t in trials], dtype=float),  # None becomes NaN
            seconds=np.array([t.seconds for t in trials], dtype=float),
        )  # fmt: skip


def record_of(study: "Study | Record | Any") -> Record:
    """The record of a study; a record as it is; the study of a search's result."""
    from presage.study import Study

    if isinstance(study, Record):
        return study
    given, study = study, getattr(study, "study", study)  # a Result
    if not isinstance(study, Study):
        raise StudyError(f"a Study, a Result or a Record is needed, but got {given!r}; load_study opens a stored one")
    with study._lock:
        study._sync()
        record = _records.get(study)
        if record is None:
            record = _records[study] = Record(study.name, study._history, study.storage, study._suggester)
        record.state = study._ledger.state()
        return record


_records: "weakref.WeakKeyDictionary[Study, Record]" = weakref.WeakKeyDictionary()  # so that figures share one fit
