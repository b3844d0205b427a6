"""The rules of trials: who may be handed one, whose result counts, what is written when."""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from presage.errors import Conflict, SpaceError, SpaceExhausted, StudyError, TrialError
from presage.history import ACTIONS, History
from presage.journal import Arrays, Journal
from presage.leases import Lease
from presage.space import Space
from presage.storage.base import Payload
from presage.suggester import Suggester
from presage.trial import Failure, Outcome, Trial

ATTEMPTS = 3  # how often a trial is handed out before it fails for want of a worker that survives
ENDED = ("complete", "failed")


class Ledger(Journal):
    """A study's events, with what may be added to them. Whoever calls holds the lock.

    Two processes never do the same thing to a trial: each step claims a text that can be claimed once.
    """

    # Handing out.
    def ask(
        self, lease: Lease, suggester: Suggester, settings: dict[str, Any], count: int, needed: Callable[[], bool]
    ) -> list[Trial]:
        """Trials for whoever holds the lease, if they are needed; Conflict where another process was faster."""
        self._complete_space()
        found = self._resume(lease)
        if found or suggester.learns:
            return found or self._suggest(lease, suggester, settings, count)
        first = len(self.history.trials)

        def make() -> tuple[list[Payload], list[str]]:
            nonlocal first
            self.sync()
            first = len(self.history.trials)
            if self.history.waiting or not needed():
                raise Conflict("something changed meanwhile")
            self._complete_space()
            events, _ = self._chosen(lease, suggester, settings, count)
            return [*events], [self.history.claim]

        # Random points are made in no time, and nobody needs to lose a race for a number. A first look at all that was
        # tried does take time, and is taken before others have to wait.
        _ = self.history.tried
        self.storage.append_after(self.name, make)
        self.sync()
        return [trial for trial in self.history.trials[first:] if self.history.owners.get(trial.number) == lease.owner]

    def _resume(self, lease: Lease) -> list[Trial]:
        """Hand out a trial that exists and that nobody works on."""
        history = self.history
        left = [*history.waiting, *(number for number, owner in history.owners.items() if lease.lost(owner))]
        if not left:
            return []
        number = min(left)
        trial = history.trials[number]
        self.sync()  # again: its worker, gone by now, may have told it just before
        if history.trials[number] is not trial:
            raise Conflict(f"trial {number} has just changed")
        attempt = trial.attempt + (trial.state == "running")  # its worker was lost
        claim = f"start:{number}:{history.handed[number]}"
        if attempt > ATTEMPTS:
            failure = Failure("lost", f"its worker was lost {ATTEMPTS} times")
            event = {"type": "failed", "number": number, **vars(failure), "at": time.time()}
            self.append([event], [claim, f"told:{number}"])
            raise Conflict(f"trial {number} has just been given up")
        event = {"type": "started", "number": number, "attempt": attempt, "owner": lease.owner, "at": time.time()}
        self.append([event], [claim])
        if history.owners.get(number) != lease.owner:  # told meanwhile by somebody who had only its number
            raise Conflict(f"trial {number} has just ended")
        return [history.trials[number]]

    def _suggest(self, lease: Lease, suggester: Suggester, settings: dict[str, Any], count: int) -> list[Trial]:
        """Choose new points and commit them. One number is claimed by one process only; the loser chooses again."""
        first, claim = len(self.history.trials), self.history.claim
        events, state = self._chosen(lease, suggester, settings, count)
        self.append(events, [claim], state)
        return self.history.trials[first : first + len(events)]

    def _chosen(
        self, lease: Lease, suggester: Suggester, settings: dict[str, Any], count: int
    ) -> tuple[list[dict[str, Any]], Arrays | None]:
        """New points as events, and the fit state if it changed."""
        began, history = time.perf_counter(), self.history
        first = len(history.trials)
        known = self.state() if suggester.learns else {}
        effort = suggester.effort(history)
        points, source, state = suggester.choose(history, known, count, effort=effort)
        if not len(points):
            raise _exhausted(history)
        latency = (time.perf_counter() - began) / len(points)
        mine = {} if settings == history.settings else {**settings}  # another process has others
        if effort != "usual":
            mine["effort"] = effort
        if count != len(points):  # what is found may depend on how many were looked for
            mine["asked"] = count
        events = [
            {"type": "suggested", "number": first + i, "params": history.space.decode(point), "source": source,
             "seen": history.seq, "owner": lease.owner, "at": time.time(), "latency": round(latency, 6), **mine}
            for i, point in enumerate(points)
        ]  # fmt: skip
        return events, state

    def add(self, make: Callable[[int], list[dict[str, Any]]]) -> int:
        """Append events that take trial numbers from the next one on; that number."""
        while True:
            self.sync()
            self._complete_space()
            number = len(self.history.trials)
            try:
                self.append(make(number), [self.history.claim])
            except Conflict:
                continue
            return number

    def change_space(self, space: Space) -> None:
        """Another space from the next trial on, in which all trials so far must be legal."""
        while True:
            self.sync()
            for trial in self.history.trials:
                try:
                    space.complete(trial.params)
                except SpaceError as error:
                    raise SpaceError(f"trial {trial.number} must be legal in the new space too: {error}") from None
            event = {"type": "space", "space": space.to_json(), "at": time.time()}
            before = self.history.constraints
            self.history.constraints = space.constraints  # which the event does not hold
            try:
                self.append([event], [self.history.claim])
                return
            except BaseException as error:
                self.history.constraints = before
                if not isinstance(error, Conflict):  # a trial that was made meanwhile must be legal too
                    raise

    def _complete_space(self) -> None:
        """StudyError where the space has got constraints that this process does not have."""
        if len(self.history.space.constraints) != self.history.stored_space["constraints"]:
            raise StudyError(
                f"the space of study {self.name!r} has got constraints, which are not stored; "
                f"open it again with load_study(..., space=)"
            )

    def number(self, trial: Trial | int) -> int:
        """The number of a trial that exists."""
        number = trial.number if isinstance(trial, Trial) else trial
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise TrialError(f"tell takes a Trial or its number, but got {trial!r}")
        self.sync()
        count = len(self.history.trials)
        if not 0 <= number < count:
            raise TrialError(
                f"trial numbers go from 0 to {count - 1}, but got {number}; use tell_many for data from elsewhere"
            )
        return int(number)

    # Taking back.
    def finish(self, number: int, event: dict[str, Any]) -> None:
        """A value or a failure; TrialError where there is one already."""
        self.sync()
        trial = self.history.trials[number]
        if trial.state in ENDED:
            known = f"value {trial.value}" if trial.values else f"failure {trial.failure}"
            raise TrialError(f"a trial is told once, but trial {number} has {known} already")
        try:
            self.append([{**event, "number": number, "at": time.time()}], [f"told:{number}"])
        except Conflict:
            self.sync()
            raise TrialError(f"a trial is told once, but trial {number} was just told by another process") from None

    def fail(self, number: int, failure: Failure, more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """A failure with what else is known; TrialError where the trial has ended already."""
        self.finish(number, {"type": "failed", **vars(failure), **more})

    def outcome(self, trial: Trial, outcome: Outcome, lease: Lease | None) -> bool:
        """What an executor made of a trial, if anything; whether that is how the trial ended.

        Where others were given the trial meanwhile, the first result counts, and every other is kept beside it.
        """
        self.sync()
        number, now, failure = trial.number, self.history.trials[trial.number], outcome.failure
        lost = failure is not None and failure.kind == "lost"
        late = now.attempt > trial.attempt
        if lost and (late or now.state in ENDED):
            return False
        if lost and trial.attempt < ATTEMPTS:
            if now.state == "running":
                self.interrupt(number, lost=True, lease=lease)
            return False
        event: dict[str, Any] = {"values": [outcome.value]} if failure is None else vars(failure)
        if now.state in ENDED:
            self.append([{"type": "late", "number": number, "late": trial.attempt, **event, "at": time.time()}])
            return False
        more: dict[str, Any] = {"reports": [list(pair) for pair in outcome.reports]} if outcome.reports else {}
        if late:
            more["late"] = trial.attempt
        try:
            self.finish(number, {"type": "failed" if failure else "told", **event, **more})
        except TrialError:  # told by another process in this very moment
            return self.outcome(trial, outcome, lease)
        return True

    def interrupt(self, number: int, *, lost: bool, lease: Lease | None) -> None:
        """Have a running trial wait; with a lease, only if that one holds it."""
        state = self.history.trials[number].state
        if state != "running":
            raise TrialError(f"a trial must be running to be given back, but trial {number} is {state}")
        holder = {} if lease is None else {"owner": lease.owner}
        self.append([{"type": "interrupted", "number": number, "lost": lost, **holder, "at": time.time()}])

    # What people say.
    def control(self, action: str) -> None:
        """Ask something of all runs of the study."""
        if action not in ACTIONS:
            raise StudyError(f"action must be pause, resume or stop, but got {action!r}")
        self.append([{"type": "control", "action": action, "at": time.time()}])

    def reported(self, number: int, first: int, reports: list[tuple[int, float]]) -> None:
        """Keep what a running trial reports after `first` earlier ones."""
        self.append(
            [{"type": "reported", "number": number, "first": first, "reports": [list(pair) for pair in reports]}]
        )

    def note(self, text: str, number: int | None) -> None:
        """Keep a remark, with a trial if a number is given."""
        self.append([{"type": "note", "text": str(text), "number": number, "at": time.time()}])


def _exhausted(history: History) -> SpaceError | SpaceExhausted:
    """Why there is no point to suggest."""
    size, count = history.space.size, len(history.trials)
    if size == 0:
        return SpaceError("some point must satisfy the constraints, but none of the space does; loosen them")
    if size is None:
        return SpaceExhausted(f"no point was found that has not been tried or is being tried, {count} trials in all")
    return SpaceExhausted(f"every point of the space has been tried or is being tried, {count} trials in all")
