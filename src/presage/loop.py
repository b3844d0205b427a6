"""Running an objective under a study, and the one-call forms."""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage import leases
from presage.dimensions import is_number
from presage.errors import SpaceExhausted, StudyError, TooManyFailures
from presage.executors import Runner, open_runner
from presage.leases import Lease
from presage.markup import fragment
from presage.space import Space, point_key
from presage.storage import Storage
from presage.study import Study
from presage.trial import Failure, Outcome, Trial

if TYPE_CHECKING:
    from presage.acquisitions import Acquisition
    from presage.proposers import Proposer
    from presage.surrogates import Surrogate

Callback = Callable[[Study, Trial], Any]
# Seconds between looks at what other processes do: few after something happened here, more while nothing does.
SHORTEST_POLL, LONGEST_POLL = 0.05, 1.0


@dataclass(frozen=True)
class Result:
    """What a search came to.

    Attributes:
        study: the study, for everything else.
        stopped: why it ended: trials, seconds, target, patience, exhausted, interrupted, callback, or request (by
            `study.control("stop")` or in the dashboard).
    """

    study: Study
    stopped: str

    @property
    def best(self) -> Trial:
        """The complete trial with the best value."""
        return self.study.best

    @property
    def trials(self) -> list[Trial]:
        return self.study.trials

    def __repr__(self) -> str:
        return f"Result({self.study!r}, stopped by {self.stopped})"

    def _repr_html_(self) -> str:
        return fragment("Result", f"stopped by {self.stopped}", self.study._repr_html_())


@dataclass
class Rules:
    """When to stop."""

    trials: int | None
    deadline: float | None
    target: float | None
    patience: int | None
    sign: float
    since: int = 0  # the last event before the run; a request to stop that is older was for another run

    def reason(self, study: Study) -> str | None:
        """The rule that says stop, if one does."""
        history = study._history
        if study.stop_requested:
            return "callback"
        if history.stopped > self.since:
            return "request"
        if self.trials is not None and history.finished >= self.trials:
            return "trials"
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return "seconds"
        if history.best is None:
            return None
        best = history.trials[history.best].values[0]
        if self.target is not None and self.sign * best <= self.sign * self.target:
            return "target"
        if self.patience is not None and history.since_best >= self.patience:
            return "patience"
        return None


def run(
    study: Study, objective: Callable[..., Any], *, trials: int | None, workers: int = 1,
    executor: str | Executor | Runner | None = None, timeout: float | None = None, seconds: float | None = None,
    target: float | None = None, patience: int | None = None, max_failures: int = 10, progress: bool = False,
    callbacks: Sequence[Callback] = (), lease: float = leases.SECONDS,
    checkpoints: str | os.PathLike[str] | None = None,
) -> Result:  # fmt: skip
    """Evaluate an objective until a rule says stop.

    Args:
        study: where trials come from and go to.
        objective: `f(params)` or `f(params, trial)`.
        trials: stop when the study has so many finished trials, earlier ones and failed ones included; so a script
            that was killed goes on where it was when it is run again.
        workers: trials at once.
        executor: serial, threads, processes, dask, dask://host:port, ray, ray://host:port, mpi, or any
            `concurrent.futures.Executor`.
        timeout: seconds after which an evaluation is killed and fails; needs processes.
        seconds: start nothing new after so long.
        target: stop at a value at least this good.
        patience: stop after so many complete trials without a better value.
        max_failures: after so many failures in a row, raise TooManyFailures with the last traceback.
        progress: show a progress bar.
        callbacks: called with study and trial after each trial; `study.stop()` ends the run.
        lease: seconds without a sign of life after which other processes count this one as lost and are given its
            trials. An objective that holds Python's interpreter lock for so long must run in processes.
        checkpoints: a folder with a file for each trial, `trial.checkpoint`: an objective that writes its state there
            now and then can go on from it when it was interrupted and the trial is handed out again.

    Ctrl-C ends the run: what runs is given back to the study, to be run first next time, and the best so far is shown.
    """
    if trials is None and seconds is None and target is None and patience is None:
        raise StudyError("at least one of trials, seconds, target and patience must be given, or the search never ends")
    limits = {"trials": trials, "seconds": seconds, "patience": patience, "max_failures": max_failures, "lease": lease}
    for what, limit in {"target": target, **limits}.items():
        if not is_number(limit) and (limit is not None or what in ("max_failures", "lease")):
            raise StudyError(f"{what} must be a number, but got {limit!r}")
        if limit is not None and limit <= 0 and what in limits:
            raise StudyError(f"{what} > 0 must hold, but got {limit}")
    if not isinstance(callbacks, Iterable):
        raise StudyError(f"callbacks must be a list of functions of study and trial, but got {callbacks!r}")
    told = [*callbacks]
    for callback in told:
        if not callable(callback):
            raise StudyError(f"a callback must be a function of study and trial, but got {callback!r}")
    if not callable(objective):
        raise StudyError(f"an objective must be callable with a params dictionary, but got {objective!r}")
    deadline = None if seconds is None else time.monotonic() + seconds
    study._sync()
    sign = 1.0 if study.direction == "minimize" else -1.0
    rules = Rules(trials, deadline, target, patience, sign, since=study._history.seq)
    study.stop_requested = False
    from presage.progress import show

    loop = None
    try:
        with open_runner(executor, workers, timeout) as runner, show(study, trials, progress) as view:
            loop = _Loop(study, objective, rules, runner, max_failures, [*told, view.update], lease, checkpoints)
            stopped = loop.go()
        loop.lease.end()
    except BaseException as error:  # the runner is closed and waits for nothing
        if loop is not None:
            loop.lease.forget()
            loop.give_back()
            loop.lease.end()
        if loop is None or not isinstance(error, KeyboardInterrupt):
            raise
        stopped = "interrupted"
        best = [t for t in study.trials if t.values]
        known = f"Best so far: {study.best.value:g} at {study.best.params}" if best else "No value yet."
        print(f"Interrupted. {known}", file=sys.stderr)
    return Result(study, stopped)


class _Loop:
    """One run: suggests as soon as a worker is free, tells as soon as an outcome is in."""

    def __init__(
        self, study: Study, objective: Callable[..., Any], rules: Rules, runner: Runner, max_failures: int,
        callbacks: Sequence[Callback], lease: float, checkpoints: str | os.PathLike[str] | None,
    ):  # fmt: skip
        self.lease = Lease(study.storage, study.name, "loop", lease)
        self.study, self.objective, self.rules, self.runner = study, objective, rules, runner
        self.max_failures, self.callbacks = max_failures, callbacks
        self.checkpoints = None if checkpoints is None else Path(checkpoints).absolute()  # workers may be elsewhere
        if self.checkpoints is not None:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        self.running: dict[Future[Outcome], Trial] = {}
        self.held: Trial | None = None  # asked, not yet submitted
        self.in_a_row = 0
        self.exhausted = False

    def go(self) -> str:
        poll = SHORTEST_POLL
        while True:
            self.study._sync()
            stop = self.rules.reason(self.study)
            while stop is None and not self.exhausted and len(self.running) < self.runner.workers:
                if not self._start():
                    break
                poll = SHORTEST_POLL
                if any(future.done() for future in self.running):
                    break
            if self.running:
                done, _ = wait(self.running, timeout=poll if stop is None else None, return_when=FIRST_COMPLETED)
                for future in done:
                    self._end(future)
                    poll = SHORTEST_POLL
            elif stop is not None or (self.exhausted and not self._busy()):
                return stop or "exhausted"
            elif self.exhausted or not self._needed():
                time.sleep(poll)  # others are busy with the last ones and may be lost with them, or somebody paused
                self.exhausted = False
            poll = min(1.5 * poll, LONGEST_POLL)

    def _needed(self) -> bool:
        """Whether to start another: nobody paused or stopped, and trials lack, those that run counted as done."""
        history = self.study._history
        if history.paused or history.stopped > self.rules.since:
            return False
        return self.rules.trials is None or history.finished + self._busy() < self.rules.trials

    def _busy(self) -> int:
        """How many trials are being evaluated, here or elsewhere. What a person asked for may never be."""
        owners = self.study._history.owners.values()
        return sum(not leases.by_hand(owner) and not self.lease.lost(owner) for owner in owners)

    def _start(self) -> bool:
        try:
            trials = self.study.ask_as(self.lease, 1, self._needed)
        except SpaceExhausted:
            self.exhausted = True
            return False
        if not trials:
            return False
        self.held = trials[0]
        if self.checkpoints is not None:
            # Also by its params: a folder may hold what a study left that is no more.
            mark = hashlib.sha256(point_key(self.held.params).encode()).hexdigest()[:8]
            self.held = self.held.but({"checkpoint": self.checkpoints / f"{self.held.number}-{mark}.npz"})
        future = self.runner.submit(self.objective, self.held)
        self.running[future] = self.held
        self.held = None
        return True

    def _end(self, future: Future[Outcome]) -> None:
        trial = self.running[future]
        outcome = Outcome(failure=Failure("lost", "cancelled")) if future.cancelled() else future.result()
        counts = self.study.tell_outcome(trial, outcome, self.lease)
        del self.running[future]
        if not counts:  # its worker was lost, or others were given it
            self.exhausted = False
            return
        told = self.study._history.trials[trial.number]
        self.in_a_row = self.in_a_row + 1 if told.failure else 0
        for callback in self.callbacks:
            callback(self.study, told)
        if told.failure and self.in_a_row >= self.max_failures:
            last = told.failure.traceback or told.failure.message
            raise TooManyFailures(f"the objective failed {self.in_a_row} times in a row; the last time:\n{last}")

    def give_back(self) -> None:
        for trial in [*self.running.values(), *([self.held] if self.held else [])]:
            if self.study._history.owners.get(trial.number) == self.lease.owner:
                self.study.interrupt(trial, lease=self.lease)


def minimize(
    objective: Callable[..., Any], space: Space | Mapping[str, Any], trials: int = 50, *, seed: int | None = None,
    initial: int | None = None, surrogate: "str | Surrogate" = "auto",
    acquisition: "str | Acquisition | Proposer" = "auto", start: Iterable[Mapping[str, Any]] = (), workers: int = 1,
    executor: str | Executor | None = None,
    storage: Storage | str | os.PathLike[str] | None = None, name: str | None = None, progress: bool = True,
    callbacks: Sequence[Callback] = (), **stopping: Any,
) -> Result:  # fmt: skip
    """Find the params at which an objective is least.

    Args:
        objective: `f(params)` or `f(params, trial)`, giving a number.
        space: a Space, or a dictionary of dimensions.
        trials: how many evaluations in all.
        seed: makes the search repeatable.
        initial: evaluations before the surrogate is asked.
        surrogate: see Study.
        acquisition: see Study.
        start: params to try first.
        workers: evaluations at once.
        executor: see `presage.loop.run`.
        storage: a file name or URL keeps the study, so that running the same line again goes on with it.
        name: of the study in the storage.
        progress: show a progress bar where there is a terminal.
        callbacks: called with study and trial after each trial.
        **stopping: timeout, seconds, target, patience, max_failures, checkpoints; see `presage.loop.run`.

    Example:
        >>> from presage import functions
        >>> result = minimize(functions.branin, functions.branin.space, trials=25, seed=1, progress=False)
        >>> result.best.value < functions.branin.minimum + 0.1
        True
    """
    return _search(
        "minimize", objective, space, trials, seed, initial, surrogate, acquisition, start, workers, executor, storage,
        name, progress, callbacks, stopping,
    )  # fmt: skip


def maximize(
    objective: Callable[..., Any], space: Space | Mapping[str, Any], trials: int = 50, *, seed: int | None = None,
    initial: int | None = None, surrogate: "str | Surrogate" = "auto",
    acquisition: "str | Acquisition | Proposer" = "auto", start: Iterable[Mapping[str, Any]] = (), workers: int = 1,
    executor: str | Executor | None = None,
    storage: Storage | str | os.PathLike[str] | None = None, name: str | None = None, progress: bool = True,
    callbacks: Sequence[Callback] = (), **stopping: Any,
) -> Result:  # fmt: skip
    """Find the params at which an objective is largest; arguments as for `minimize`."""
    return _search(
        "maximize", objective, space, trials, seed, initial, surrogate, acquisition, start, workers, executor, storage,
        name, progress, callbacks, stopping,
    )  # fmt: skip


def _search(
    direction: Any, objective: Any, space: Any, trials: int, seed: int | None, initial: int | None, surrogate: Any,
    acquisition: Any, start: Iterable[Mapping[str, Any]], workers: int, executor: Any, storage: Any, name: str | None,
    progress: bool, callbacks: Sequence[Callback], stopping: dict[str, Any],
) -> Result:  # fmt: skip
    study = Study(space, direction=direction, surrogate=surrogate, acquisition=acquisition, initial=initial, seed=seed,
                  storage=storage, name=name)  # fmt: skip
    if not study.trials:
        for params in start:
            study.enqueue(params)
    return study.optimize(
        objective, trials, workers=workers, executor=executor, progress=progress, callbacks=callbacks, **stopping
    )
