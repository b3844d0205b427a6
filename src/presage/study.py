"""The study: asks for points, takes values, and remembers everything."""

import copy
import math
import os
import random
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from presage.errors import Conflict, SpaceExhausted, StorageError, StudyError, TrialError
from presage.history import FORMAT, History
from presage.leases import SECONDS, Lease
from presage.ledger import Ledger
from presage.markup import fragment, table
from presage.preview import Preview
from presage.space import Space
from presage.storage import Storage, open_storage
from presage.suggester import Suggester, initial_trials
from presage.trial import Failure, Outcome, Trial, usable

if TYPE_CHECKING:
    from presage.acquisitions import Acquisition
    from presage.explain import Explanation
    from presage.loop import Callback, Result
    from presage.observations import Observations
    from presage.proposers import Proposer
    from presage.surrogates import Posterior, Surrogate

Direction = Literal["minimize", "maximize"]
LISTED = 10  # trials that a notebook shows
ROWS = 100  # observations per event when many are told at once: few enough that a page of events fits in memory


class Prediction(NamedTuple):
    """What the surrogate expects of the objective, in the user's units, noise apart."""

    mean: float
    stddev: float


class Study:
    """A search for the best params, kept in a storage; any number of processes may work on it.

    Args:
        space: where to search.
        direction: minimize or maximize.
        surrogate: a name (see presage.surrogates.BY_NAME) or a Surrogate; auto takes the better of two Gaussian
            processes, random none.
        acquisition: a name (auto, ei, logei, capped, eips, nei, pi, lcb, ucb, es, pes, mes, jes, kg, ts, explore), an
            Acquisition, or a whole Proposer such as `presage.proposers.TrustRegion()`, which brings its own surrogate.
        initial: trials before the surrogate is asked, drawn from a Sobol sequence (the second of them is the middle of
            the space where it has five dimensions or more); by default 3 more than dimensions, at most 10.
        seed: makes suggestions repeatable; drawn and stored where left out.
        storage: a Storage, a URL or a file name; memory where left out.
        name: of the study in its storage. An existing one is opened if space and direction match, and seed and initial
            where they are given.
        replicates: how often one point may be suggested; more than 1 for noisy objectives on finite spaces.

    Example:
        >>> from presage import Float, Space
        >>> study = Study(Space({"x": Float(-1, 1)}), seed=0)
        >>> for _ in range(10):
        ...     trial = study.ask()
        ...     study.tell(trial, (trial.params["x"] - 0.3) ** 2)
        >>> abs(study.best.params["x"] - 0.3) < 0.02
        True
    """

    def __init__(
        self, space: Space, *, direction: Direction = "minimize", surrogate: "str | Surrogate" = "auto",
        acquisition: "str | Acquisition | Proposer" = "auto", initial: int | None = None, seed: int | None = None,
        storage: Storage | str | os.PathLike[str] | None = None, name: str | None = None,
        replicates: int | None = None,
    ):  # fmt: skip
        if not isinstance(space, Space):
            space = Space(space)
        if direction not in ("minimize", "maximize"):
            raise StudyError(f"direction must be 'minimize' or 'maximize', but got {direction!r}")
        given = {"seed": seed, "initial": initial, "replicates": replicates}
        for what, least in {"seed": 0, "initial": 1, "replicates": 1}.items():
            value = given[what]
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least
            ):
                raise StudyError(f"{what} must be a whole number of {least} or more, but got {value!r}")
        fixed = {what: int(value) for what, value in given.items() if value is not None}
        defaults = {
            "seed": int.from_bytes(os.urandom(4), "big"), "initial": initial_trials(space), "replicates": 1,
        }  # fmt: skip
        self._set_up(
            Ledger(open_storage(storage), "study" if name is None else name, History(space.constraints)),
            surrogate, acquisition,
        )  # fmt: skip
        header = {
            "type": "created", "format": FORMAT, "space": space.to_json(), "direction": direction, **self._settings,
            **defaults, **fixed, "versions": _versions(), "at": time.time(),
        }  # fmt: skip
        try:
            self.storage.create(self.name, header)
            self._sync()
        except Conflict:
            self._check_same({"space": header["space"], "direction": direction, **fixed})

    def _set_up(
        self, ledger: Ledger, surrogate: "str | Surrogate", acquisition: "str | Acquisition | Proposer"
    ) -> None:
        self.name, self._ledger, self._lock = ledger.name, ledger, ledger.lock
        self._suggester = Suggester(surrogate, acquisition)
        self._settings = {"surrogate": _spec(surrogate), "acquisition": _spec(acquisition)}
        self._posterior: tuple[int, Posterior, Observations] | None = None  # and the event it is of
        self._hand: Lease | None = None  # on what was asked for without a loop
        self.stop_requested = False

    def _check_same(self, given: dict[str, Any]) -> None:
        """Opening an existing study must not silently mean another one."""
        self._sync()
        for what, mine in given.items():
            stored = self._history.stored_space if what == "space" else self._history.header[what]
            if mine != stored:
                remedy = (
                    "use another name=, or load_study() and then study.update_space()"
                    if what == "space"
                    else "use another name="
                )
                raise StudyError(
                    f"study {self.name!r} exists, so its {what} must be {stored}, but got {mine}; {remedy}"
                )
        if self._settings != self._history.settings:  # recorded, or the run could not be replayed
            self._ledger.append([{"type": "settings", **self._settings, "versions": _versions(), "at": time.time()}])

    # Facts.
    @property
    def space(self) -> Space:
        """The search space as it is now."""
        return self._history.space

    @property
    def direction(self) -> Direction:
        return self._history.header["direction"]

    @property
    def seed(self) -> int:
        return self._history.header["seed"]

    @property
    def storage(self) -> Storage:
        return self._ledger.storage

    @property
    def _history(self) -> History:
        return self._ledger.history

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number, other processes' included."""
        with self._lock:
            self._sync()
            return list(self._history.trials)

    @property
    def best(self) -> Trial:
        """The complete trial with the best value."""
        with self._lock:
            self._sync()
            if self._history.best is None:
                failures = [trial.failure for trial in self._history.trials if trial.failure]
                last = f"; {len(failures)} failed, the last: {failures[-1].message}" if failures else ""
                raise StudyError(
                    f"study {self.name!r} must have a complete trial to have a best one, but has none yet{last}"
                )
            return self._history.trials[self._history.best]

    @property
    def _sign(self) -> float:
        return self._history.sign

    def __repr__(self) -> str:
        h = self._history
        best = "" if h.best is None else f", best={h.trials[h.best].value:g}"
        return f"Study({self.name!r}, {self.direction}, {len(h.trials)} trials, {h.finished} finished{best})"

    def _repr_html_(self) -> str:
        trials, h = self.trials, self._history
        counts = Counter(trial.state for trial in trials)
        said = ", ".join([self.direction, f"{len(trials)} trials", *(f"{n} {state}" for state, n in counts.items())])
        best = None if h.best is None else h.trials[h.best]
        parts = (
            [] if best is None else [table([("best value", best.value), ("trial", best.number), *best.params.items()])]
        )
        rows = [
            (t.number, t.state, "" if t.value is None else t.value, *(t.params.get(name, "") for name in self.space))
            for t in trials[-LISTED:]
        ]
        folded = [
            ("space", table((name, repr(axis)) for name, axis in self.space.items())),
            ("last trials", table(rows, ["trial", "state", "value", *self.space])),
        ]
        return fragment(f"Study {self.name!r}", said, *parts, folded=folded)

    # Asking.
    @overload
    def ask(self) -> Trial: ...
    @overload
    def ask(self, count: int) -> list[Trial]: ...
    def ask(self, count: int | None = None) -> Trial | list[Trial]:
        """The next trial to evaluate, or a list of `count` (fewer where a finite space runs out).

        Enqueued trials come first, then those whose process died, then new points, none of which was tried before.
        What is asked for is held until it is told or this study is gone; then others are given it.

        Raises:
            SpaceExhausted: every point has been tried or is being tried.
        """
        wanted = 1 if count is None else count
        if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
            raise StudyError(f"count must be a whole number of 1 or more, but got {count!r}")
        if self._hand is None or self._hand.pid != os.getpid():  # a forked child is somebody else
            self._hand = Lease(self.storage, self.name, "hand")
            weakref.finalize(self, self._hand.forget)
        trials = self.ask_as(self._hand, wanted)
        return trials[0] if count is None else trials

    def ask_as(self, lease: Lease, count: int = 1, needed: Callable[[], bool] = lambda: True) -> list[Trial]:
        """Trials for whoever holds a lease; none where, given all that others have done, they are not needed."""
        with self._lock:
            trials: list[Trial] = []
            beaten = 0
            while len(trials) < count:
                self._sync()
                if not needed():
                    break
                try:
                    trials += self._ledger.ask(lease, self._suggester, self._settings, count - len(trials), needed)
                except Conflict:  # another process was faster; what it did is part of the picture now
                    beaten += 1
                    time.sleep(random.uniform(0.0, min(0.001 * 2**beaten, 0.1)))  # many at once would all lose again
                except SpaceExhausted:
                    if trials:
                        break
                    raise
            return [  # what an objective does to its params is its own affair; what it reports is seen at once
                trial.but({"live": Preview(trial.number, self._preview), "params": copy.deepcopy(trial.params)})
                for trial in trials
            ]

    def _preview(self, number: int, first: int, reports: list[tuple[int, float]]) -> bool:
        """Store what a running trial has reported, if nobody is at the study just now; a training does not wait."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if number in self._history.owners:
                self._ledger.reported(number, first, reports)
            return True
        except StorageError:  # the trial's end will say if the storage is gone for good
            return False
        finally:
            self._lock.release()

    def enqueue(self, params: Mapping[str, Any]) -> Trial:
        """Have these params tried next, even if they were tried before."""
        with self._lock:
            number = self._ledger.add(
                lambda number: [
                    {"type": "enqueued", "number": number, "params": self.space.check(params), "at": time.time()}
                ]
            )
            return self._history.trials[number]

    # Telling.
    def tell(
        self, trial: Trial | int, value: Any = None, *, stddev: float | None = None,
        metrics: Mapping[str, float] | None = None, failed: str | None = None,
    ) -> None:  # fmt: skip
        """Record what became of a trial; once this returns it is stored.

        Args:
            trial: the trial or its number, in any order.
            value: the objective's value. NaN and infinities are recorded as a failure.
            stddev: the standard error of the value, where it is known.
            metrics: further numbers to keep.
            failed: instead of a value: the reason why there is none.
        """
        with self._lock:
            number = self._ledger.number(trial)
            if (value is None) == (failed is None):
                raise TrialError(f"tell takes a value or failed='reason', but got value={value!r}, failed={failed!r}")
            more: dict[str, Any] = {}
            if metrics:
                more["metrics"] = {str(key): usable(number_, f"metric {key!r}") for key, number_ in metrics.items()}
            if isinstance(trial, Trial) and trial.reports:
                more["reports"] = [list(pair) for pair in trial.reports]
            if failed is not None:
                return self._ledger.fail(number, Failure("error", str(failed)), more)
            event: dict[str, Any] = {"type": "told", **more}
            if stddev is not None:
                event["stddev"] = _positive(stddev)
            try:
                event["values"] = [usable(value)]
            except TrialError as error:
                number_ = value.item() if getattr(value, "shape", None) == () else value
                if isinstance(number_, float) and not math.isfinite(number_):
                    return self._ledger.fail(number, Failure("invalid", str(error)), more)
                raise
            return self._ledger.finish(number, event)

    def tell_outcome(self, trial: Trial, outcome: Outcome, lease: Lease | None = None) -> bool:
        """Record what an executor made of a trial; whether that is how the trial ended.

        A lost worker's trial is handed out again, up to three times. Where the trial was given to somebody else
        meanwhile, the first result counts and every other is kept in `Trial.late`.
        """
        with self._lock:
            return self._ledger.outcome(trial, outcome, lease)

    def interrupt(self, trial: Trial | int, *, lost: bool = False, lease: Lease | None = None) -> None:
        """Give a running trial back: it waits, and is handed out again before any new point.

        Args:
            trial: the trial or its number.
            lost: its worker died, which counts as an attempt.
            lease: only if it is still held by this one.
        """
        with self._lock:
            self._ledger.interrupt(self._ledger.number(trial), lost=lost, lease=lease)

    def tell_many(
        self, params: Iterable[Mapping[str, Any]], values: Iterable[Any], *, stddev: Iterable[float] | None = None
    ) -> list[Trial]:
        """Record data from elsewhere: params with their values, all of them or, on an error, none."""
        points = list(params)
        rows: list[dict[str, Any]] = [{"values": [usable(value)]} for value in values]
        errors = None if stddev is None else [_positive(s) for s in stddev]
        if len(points) != len(rows):
            raise TrialError(f"params and values must be equally many, but got {len(points)} and {len(rows)}")
        if errors is not None and len(errors) != len(points):
            raise TrialError(f"stddev must be as many as params, {len(points)}, but got {len(errors)}")
        if not points:
            return []
        for row, error in zip(rows, errors or (), strict=False):
            row["stddev"] = error
        now = time.time()

        def make(number: int) -> list[dict[str, Any]]:
            full = [{"params": self.space.check(p), **row} for p, row in zip(points, rows, strict=True)]
            return [
                {"type": "added", "number": number + at, "trials": full[at : at + ROWS], "at": now}
                for at in range(0, len(full), ROWS)
            ]

        with self._lock:
            first = self._ledger.add(make)
            return self._history.trials[first : first + len(rows)]

    def update_space(self, space: Space) -> None:
        """Search another space from now on: dimensions added, bounds widened, choices added.

        Trials keep their meaning: each must be legal in the new space, and a dimension that they do not have needs a
        `default`, which is the value they had in effect.
        """
        if not isinstance(space, Space):
            space = Space(space)
        with self._lock:
            self._ledger.change_space(space)

    # The model.
    def posterior(self) -> "Posterior":
        """The surrogate fitted to the values so far, on the unit cube and in standardised units."""
        return self._fitted()[0]

    def predict(self, params: Mapping[str, Any]) -> Prediction:
        """What the surrogate expects at some params: mean and standard deviation of f, in the objective's units."""
        posterior, data = self._fitted()
        mean, variance = posterior.predict(self.space.encode(params)[None])
        value = self._sign * (data.center + data.scale * float(mean[0]))
        return Prediction(value, data.scale * math.sqrt(float(variance[0])))

    def _fitted(self) -> tuple["Posterior", "Observations"]:
        with self._lock:
            self._sync()
            if self._posterior is None or self._posterior[0] != self._history.seq:
                self._posterior = (self._history.seq, *self._suggester.fit(self._history, self._ledger.state()))
            return self._posterior[1:]

    def explain(self) -> "Explanation":
        """What would be done for the next trial, and why: surrogate, acquisition, batch, maximiser, and figures."""
        from presage.explain import explain

        return explain(self)

    # Running.
    def optimize(
        self, objective: Callable[..., Any], trials: int | None = None, *, workers: int = 1,
        executor: str | Executor | None = None, timeout: float | None = None, seconds: float | None = None,
        target: float | None = None, patience: int | None = None, max_failures: int = 10, progress: bool = False,
        callbacks: Sequence["Callback"] = (), lease: float = SECONDS,
        checkpoints: str | os.PathLike[str] | None = None,
    ) -> "Result":  # fmt: skip
        """Evaluate the objective until a rule says stop; see `presage.loop.run` for the arguments."""
        from presage.loop import run

        return run(
            self, objective, trials=trials, workers=workers, executor=executor, timeout=timeout, seconds=seconds,
            target=target, patience=patience, max_failures=max_failures, progress=progress, callbacks=callbacks,
            lease=lease, checkpoints=checkpoints,
        )  # fmt: skip

    def stop(self) -> None:
        """From a callback: let what runs finish and start nothing new."""
        self.stop_requested = True

    def control(self, action: Literal["pause", "resume", "stop"]) -> None:
        """Have every run of this study, in whichever process, start nothing new, go on, or end."""
        self._ledger.control(action)

    def note(self, text: str, trial: Trial | int | None = None) -> None:
        """Keep a remark with the study or with one of its trials."""
        with self._lock:
            self._ledger.note(text, None if trial is None else self._ledger.number(trial))

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What people wrote: text, trial number or None, seconds since the epoch."""
        with self._lock:
            self._sync()
            return list(self._history.notes)

    def _sync(self) -> None:
        self._ledger.sync()


def load_study(
    storage: Storage | str | os.PathLike[str], name: str | None = None, *, space: Space | None = None,
    surrogate: "str | Surrogate | None" = None, acquisition: "str | Acquisition | Proposer | None" = None,
) -> Study:  # fmt: skip
    """Open an existing study.

    Args:
        storage: where it is.
        name: which one; may be left out where there is only one.
        space: needed where the study's space has constraints, which are callables and are not stored.
        surrogate: needed where it was an object of the caller's own rather than a name.
        acquisition: likewise.
    """
    place = open_storage(storage, create=False)
    names = place.studies()
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise StudyError(f"name must be one of {names}, but got {name!r}")
    assert name is not None
    ledger = Ledger(place, name, History(() if space is None else space.constraints))
    ledger.sync()
    given = {"surrogate": surrogate, "acquisition": acquisition}
    for what, stored in ledger.history.settings.items():
        if given[what] is None:
            if not isinstance(stored, str):
                raise StudyError(f"study {name!r} was made with {what} {stored['object']}; pass {what}= again")
            given[what] = stored
    if space is None and ledger.history.stored_space["constraints"]:
        raise StudyError(f"the space of study {name!r} has constraints, which are not stored; pass space= again")
    study = object.__new__(Study)
    study._set_up(ledger, **given)  # type: ignore[arg-type]
    study._check_same({} if space is None else {"space": space.to_json()})
    return study


def _positive(stddev: float) -> float:
    number = usable(stddev, "stddev")
    if number < 0:
        raise TrialError(f"stddev >= 0 must hold, but got {number}")
    return number


def _versions() -> dict[str, str]:
    """What a replay must have to give the same suggestions."""
    import presage

    return {"presage": presage.__version__, "numpy": np.__version__}


def _spec(setting: Any) -> Any:
    return setting if isinstance(setting, str) else {"object": repr(setting)}


__all__ = ["Prediction", "Study", "load_study"]
