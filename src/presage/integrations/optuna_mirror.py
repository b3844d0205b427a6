"""An Optuna study as presage sees it: one history per search space, caught up trial by trial."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from presage.errors import SpaceError
from presage.history import FORMAT, History
from presage.integrations import require
from presage.observations import columns_of, observe
from presage.space import Params, Space
from presage.storage import Event
from presage.suggester import Suggester, design, initial_trials
from presage.threads import few_threads

require("optuna", "optuna")

from optuna.distributions import BaseDistribution  # noqa: E402
from optuna.trial import FrozenTrial, TrialState  # noqa: E402

if TYPE_CHECKING:
    from presage.proposers.model_based import ModelBased
    from presage.surrogates import State

CONSTRAINTS = "constraints"  # the system attribute in which all of Optuna's samplers keep them
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class Mirror:
    """The trials of an Optuna study that have a point in some space, and the points that come next.

    Args:
        space: what is searched.
        direction: minimize or maximize.
        seed: of the suggestions.
        initial: trials before the surrogate is asked.
        learn_failures: whether failed trials say that their points cannot be evaluated.
        graded: whether constraints are modelled; otherwise points that violate one count as failed.
        state: of the last fit, where there was one.
    """

    def __init__(
        self, space: Space, direction: str, seed: int, initial: int | None, learn_failures: bool, graded: bool,
        state: "State",
    ) -> None:  # fmt: skip
        self.space, self.state, self._learn_failures, self._graded = space, state, learn_failures, graded
        self._sign = 1.0 if direction == "minimize" else -1.0
        self._taken: set[int] = set()
        self._complete: list[FrozenTrial] = []
        self._limits = Limits(space)
        header = {
            "type": "created", "format": FORMAT, "space": space.to_json(), "surrogate": "", "acquisition": "",
            "seed": seed, "initial": initial or initial_trials(space), "replicates": 1, "at": 0.0,
        }  # fmt: skip
        # The search, and the one for a first point at which all constraints hold.
        self._history, self._violations = History(space.constraints), History(space.constraints)
        self._violations_state: State = {}
        _apply(self._history, {**header, "direction": direction})
        _apply(self._violations, {**header, "direction": "minimize"})

    def catch_up(self, trials: Iterable[FrozenTrial]) -> None:
        """Take in the trials that have ended since."""
        for trial in trials:
            if trial.state in ENDED and trial.number not in self._taken:
                self._taken.add(trial.number)
                self._take(trial)

    def _take(self, trial: FrozenTrial) -> None:
        ended = self._end(trial)
        if trial.state == TrialState.COMPLETE:
            self._complete.append(trial)
        params = self.legal(trial.params)
        if params is None:
            return
        limited = self._graded and trial.state != TrialState.FAIL
        violation = self._limits.add(params, constraints_of(trial)) if limited else None
        told = ended["type"] == "told"
        off = ended if violation is None and not told else {"type": "told", "values": [violation or 0.0]}
        number = len(self._history.trials)
        for history, end in ((self._history, ended), (self._violations, off)):
            _apply(history, _suggested(number, params), {**end, "number": number, "at": 0.0})

    def _end(self, trial: FrozenTrial) -> dict[str, Any]:
        """How the trial ended, as an event."""
        if trial.state == TrialState.FAIL:
            return _failed("error" if self._learn_failures else "lost")
        limits = constraints_of(trial).values()
        if any(not value <= 0.0 for value in limits):  # how far it was off is learned, where that is a number
            return _failed("pruned" if self._graded and all(map(math.isfinite, limits)) else "invalid")
        # Optuna gives a pruned trial its last report as a value, which is not one of the objective.
        value, stddev = self._foretold(trial) if trial.state == TrialState.PRUNED else (trial.value, 0.0)
        if value is None:
            return _failed("pruned")
        if not math.isfinite(value):
            return _failed("invalid")
        return {"type": "told", "values": [float(value)], **({"stddev": stddev} if stddev else {})}

    def _foretold(self, trial: FrozenTrial) -> tuple[float | None, float]:
        """What a pruned trial would have come to, with a standard error; None where it has reported nothing.

        Its last value, moved by what complete trials gained from that step to their end (the median; half the range
        of the middle 68 percent is the error), but no better than the best trial, or it were not pruned.
        """
        step = trial.last_step
        if step is None:
            return None, 0.0
        value, stddev = float(trial.intermediate_values[step]), 0.0
        ends = [(t.value, t.intermediate_values.get(step)) for t in self._complete if t.value is not None]
        gains = [end - then for end, then in ends if then is not None and math.isfinite(end - then)]
        if gains:
            low, middle, high = np.percentile(gains, [16, 50, 84])
            value, stddev = value + float(middle), float(high - low) / 2
        best = self._history.best
        least = -math.inf if best is None else self._sign * self._history.trials[best].values[0]
        return self._sign * max(self._sign * value, least), stddev  # NaN stays NaN: it is the first of the two

    def legal(self, params: Mapping[str, Any]) -> Params | None:
        """The point that params have in the space; None where they have none."""
        try:
            return self.space.complete({name: params[name] for name in self.space if name in params})
        except SpaceError:
            return None

    def believed(self, number: int, params: Params) -> Params:
        """The point that a running trial is at; one that has not said it yet is at its point of the initial design."""
        known = self.legal(params)
        if known is None:
            own = self.space.decode(design_point(self._history.header["seed"], number, self.space.dim))
            known = self.legal({**own, **params})
        return own if known is None else known

    def suggest(self, suggester: Suggester, number: int, pending: Sequence[Params]) -> Params:
        """The point for the trial of that number while others are being evaluated."""
        astray = self._limits.seen and self._history.best is None
        now = (self._violations if astray else self._history).copy()
        for params in pending:
            _apply(now, _suggested(len(now.trials), params))
        known = self._violations_state if astray else self.state
        if not astray and self._limits.seen:
            model = cast("ModelBased", suggester.proposer)
            suggester = self._limits.respected(model, np.random.default_rng([now.header["seed"], number, 1]))
        points, _, state = suggester.choose(now, known, 1, number)
        if not len(points):  # all have been tried, and Optuna does not end there: those tried least may be again
            now.header = {**now.header, "replicates": 1 + min(now.tried.values())}
            points, _, state = suggester.choose(now, known, 1, number)
        if state is not None and astray:
            self._violations_state = state
        elif state is not None:
            self.state = state
        return self.space.decode(points[0])


class Limits:
    """Constraint values seen so far, by name, and what they say about other points.

    Attributes:
        seen: whether there are any.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._values: dict[str, list[tuple[np.ndarray, float]]] = {}
        self._states: dict[str, State] = {}

    @property
    def seen(self) -> bool:
        return bool(self._values)

    def add(self, params: Params, values: Mapping[str, float]) -> float | None:
        """Take in a trial's values; by how much they are violated in all, None where they are none or not finite."""
        if not values or not all(map(math.isfinite, values.values())):
            return None
        point = self._space.encode(params)
        for name, value in values.items():
            self._values.setdefault(name, []).append((point, float(value)))
        return float(sum(max(value, 0.0) for value in values.values()))

    def respected(self, model: "ModelBased", rng: np.random.Generator) -> Suggester:
        """A suggester to which points are worth as much as they are likely to be feasible; a process per constraint."""
        from presage.acquisitions import Constrained
        from presage.surrogates import GaussianProcess

        acquisition = model.acquisition
        for name, seen in self._values.items():
            data = observe(np.array([x for x, _ in seen]), np.array([c for _, c in seen]), columns_of(self._space))
            with few_threads():
                found = GaussianProcess(warp=None).fit(data, rng=rng, previous=self._states.get(name))
            self._states[name] = found.state
            acquisition = Constrained(acquisition, found.posterior, -data.center / data.scale)
        return Suggester("auto", replace(model, acquisition=acquisition))


class Follower:
    """What is known of one Optuna study; goes through pickle with its fit states, and reads the trials again.

    Attributes:
        shared: the distributions that all complete trials have, in the order of the first one's suggestions; None
            before there is such a trial.
    """

    def __init__(self) -> None:
        self._began: datetime | None = None
        self._states: dict[str, State] = {}
        self._forget()

    def _forget(self) -> None:
        self.shared: dict[str, BaseDistribution] | None = None
        self._read: set[int] = set()
        self._mirrors: dict[str, Mirror] = {}

    def __getstate__(self) -> dict[str, Any]:
        states = {key: mirror.state for key, mirror in self._mirrors.items()}
        return {"_began": self._began, "_states": {**self._states, **states}}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self._forget()

    def look(self, trials: Sequence[FrozenTrial]) -> None:
        """Learn which parameters all trials share. Another study with the same name and number is begun anew."""
        began = trials[0].datetime_start if trials else None
        if self._began not in (None, began):
            self._states = {}
            self._forget()
        self._began = began
        for trial in trials:
            if trial.number in self._read or trial.state != TrialState.COMPLETE:  # others may have ended too early
                continue
            self._read.add(trial.number)
            if self.shared is None:
                self.shared = dict(trial.distributions)
            else:
                given = trial.distributions
                self.shared = {name: axis for name, axis in self.shared.items() if given.get(name) == axis}

    def mirror(self, space: Space, make: "Callable[[State], Mirror]") -> Mirror:
        """The study's trials in a space; made from the state of the last fit there if that is the first look."""
        key = repr(space)
        if key not in self._mirrors:
            self._mirrors[key] = make(self._states.pop(key, {}))
        return self._mirrors[key]


def design_point(seed: int, number: int, dim: int) -> np.ndarray:
    """The point of the initial design for the trial of that number, [dim]."""
    return design(seed, number + 1, dim)[number]


def constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """A trial's constraint values, set by a sampler's function (one list) or by the objective (one attribute each)."""
    attributes, prefix = trial.system_attrs, f"{CONSTRAINTS}:"
    each = {key.removeprefix(prefix): value for key, value in attributes.items() if key.startswith(prefix)}
    return {**{str(i): value for i, value in enumerate(attributes.get(CONSTRAINTS) or ())}, **each}


def _suggested(number: int, params: Params) -> dict[str, Any]:
    return {"type": "suggested", "number": number, "params": params, "source": "told", "owner": "optuna", "at": 0.0}


def _failed(kind: str) -> dict[str, Any]:
    return {"type": "failed", "kind": kind, "message": ""}


def _apply(history: History, *payloads: dict[str, Any]) -> None:
    for payload in payloads:
        history.apply(Event(history.seq + 1, payload))
