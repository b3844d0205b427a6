"""The study: asks for points, takes values, and remembers everything."""

import io
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from presage.errors import Conflict, SpaceError, SpaceExhausted, StudyError, TrialError
from presage.history import History, myself
from presage.space import Space
from presage.storage import Storage, open_storage
from presage.suggester import Suggester
from presage.trial import Failure, Outcome, Trial, usable

if TYPE_CHECKING:
    from presage.acquisitions import Acquisition
    from presage.loop import Callback, Result
    from presage.observations import Observations
    from presage.surrogates import Posterior, Surrogate

Direction = Literal["minimize", "maximize"]
FORMAT = 1  # of the events; a later presage reads every earlier one
ATTEMPTS = 3  # how often a trial is handed out before it fails for want of a worker that survives


class Prediction(NamedTuple):
    """What the surrogate expects of the objective, in the user's units, noise apart."""

    mean: float
    stddev: float


class Study:
    """A search for the best params, kept in a storage; any number of processes may work on it.

    Args:
        space: where to search.
        direction: minimize or maximize.
        surrogate: a name (auto, gp, random) or a Surrogate; auto takes the better of two Gaussian processes.
        acquisition: a name (auto, logei) or an Acquisition.
        initial: trials before the surrogate is asked, drawn from a Sobol sequence; by default 3 more than
            dimensions, at most 10.
        seed: makes suggestions repeatable; drawn and stored where left out.
        storage: a Storage, a URL or a file name; memory where left out.
        name: of the study in its storage. An existing one is opened if space and direction match.
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
        acquisition: "str | Acquisition" = "auto", initial: int | None = None, seed: int | None = None,
        storage: Storage | str | os.PathLike[str] | None = None, name: str | None = None, replicates: int = 1,
    ):  # fmt: skip
        if not isinstance(space, Space):
            space = Space(space)
        if direction not in ("minimize", "maximize"):
            raise StudyError(f"direction must be 'minimize' or 'maximize', but got {direction!r}")
        for what, value, least in (("initial", initial, 1), ("seed", seed, 0), ("replicates", replicates, 1)):
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least
            ):
                raise StudyError(f"{what} must be a whole number of {least} or more, but got {value!r}")
        self.name = "study" if name is None else name
        self._storage = open_storage(storage)
        self._history = History(space.constraints)
        self._lock = threading.RLock()
        self._state: dict[str, np.ndarray] = {}
        self._state_seq = 0
        self._posterior: tuple[int, Posterior, Observations] | None = None  # and the event it is of
        self.stop_requested = False
        self._suggester = Suggester(surrogate, acquisition)
        header = {
            "type": "created", "format": FORMAT, "space": space.to_json(), "direction": direction,
            "surrogate": _spec(surrogate), "acquisition": _spec(acquisition),
            "initial": min(space.dim + 3, 10) if initial is None else int(initial),
            "seed": int.from_bytes(os.urandom(4), "big") if seed is None else int(seed),
            "replicates": int(replicates), "versions": _versions(), "at": time.time(),
        }  # fmt: skip
        try:
            self._storage.create(self.name, header)
        except Conflict:
            self._check_same(space, direction, seed)
            settings = {what: header[what] for what in ("surrogate", "acquisition")}
            if settings != self._history.settings:  # recorded, or the run could not be replayed
                self._append([{"type": "settings", **settings, "versions": _versions(), "at": time.time()}])
        self._sync()

    def _check_same(self, space: Space, direction: str, seed: int | None) -> None:
        """Opening an existing study must not silently mean another one."""
        self._sync()
        old = self._history
        for what, mine, stored in (
            ("space", space.to_json(), old.stored_space), ("direction", direction, old.header["direction"]),
            ("seed", seed if seed is not None else old.header["seed"], old.header["seed"]),
        ):  # fmt: skip
            if mine != stored:
                remedy = (
                    "use another name=, or load_study() and then study.update_space()"
                    if what == "space"
                    else "use another name="
                )
                raise StudyError(
                    f"study {self.name!r} exists, so its {what} must be {stored}, but got {mine}; {remedy}"
                )

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
        return self._storage

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number, other processes' included."""
        with self._lock:
            self._sync()
            return list(self._history.trials)

    @property
    def best(self) -> Trial:
        """The complete trial with the best value."""
        complete = [trial for trial in self.trials if trial.values]
        if not complete:
            raise StudyError(f"study {self.name!r} must have a complete trial to have a best one, but has none yet")
        return min(complete, key=lambda trial: self._sign * trial.values[0])

    @property
    def _sign(self) -> float:
        return self._history.sign

    def __repr__(self) -> str:
        h = self._history
        best = f", best={self.best.value:g}" if any(t.values for t in h.trials) else ""
        return f"Study({self.name!r}, {self.direction}, {len(h.trials)} trials, {h.finished} finished{best})"

    # Asking.
    @overload
    def ask(self) -> Trial: ...
    @overload
    def ask(self, count: int) -> list[Trial]: ...
    def ask(self, count: int | None = None) -> Trial | list[Trial]:
        """The next trial to evaluate, or a list of `count` (fewer where a finite space runs out).

        Enqueued trials come first, then those whose process died, then new points, none of which was tried before.

        Raises:
            SpaceExhausted: every point has been tried or is being tried.
        """
        wanted = 1 if count is None else count
        if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
            raise StudyError(f"count must be a whole number of 1 or more, but got {count!r}")
        with self._lock:
            trials: list[Trial] = []
            while len(trials) < wanted:
                try:
                    new = self._resume() or self._suggest(wanted - len(trials))
                except Conflict:
                    continue  # another process was faster; what it did is part of the picture now
                except SpaceExhausted:
                    if trials:
                        break
                    raise
                trials += new
            return trials[0] if count is None else trials

    def _resume(self) -> list[Trial]:
        """Hand out a trial that exists and that nobody works on."""
        self._sync()
        trial = self._history.unfinished()
        if trial is None:
            return []
        self._sync()  # again: its process, gone by now, may have told it just before
        number = trial.number
        if self._history.trials[number] is not trial:
            return self._resume()
        attempt = trial.attempt + (trial.state == "running")  # its process died
        if attempt > ATTEMPTS:
            with suppress(TrialError):  # another process was faster
                self._fail(number, Failure("lost", f"its process died {ATTEMPTS} times"))
            return self._resume()
        event = {"type": "started", "number": number, "attempt": attempt, "owner": myself(), "at": time.time()}
        self._append([event], [f"start:{number}:{self._history.handed[number]}"])
        if self._history.owners.get(number) != myself():  # told meanwhile by somebody who had only its number
            return self._resume()
        return [self._history.trials[number]]

    def _suggest(self, count: int) -> list[Trial]:
        """Choose new points and commit them. One number is claimed by one process only; the loser chooses again."""
        began = time.perf_counter()
        history = self._history
        first = len(history.trials)
        points, source, state = self._suggester.choose(history, self._state, count)
        if not len(points):
            raise SpaceExhausted(f"every point of the space has been tried or is being tried, {first} trials in all")
        latency = (time.perf_counter() - began) / len(points)
        events = [
            {"type": "suggested", "number": first + i, "params": history.space.decode(point), "source": source,
             "seen": history.seq, "owner": myself(), "at": time.time(), "latency": round(latency, 6)}
            for i, point in enumerate(points)
        ]  # fmt: skip
        self._append(events, [f"number:{first}"], state)
        return history.trials[first : first + len(points)]

    def enqueue(self, params: Mapping[str, Any]) -> Trial:
        """Have these params tried next, even if they were tried before."""
        full = self.space.check(params)
        number = self._add_trial(
            lambda number: {"type": "enqueued", "number": number, "params": full, "at": time.time()}
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
        number = self._number(trial)
        if (value is None) == (failed is None):
            raise TrialError(f"tell takes a value or failed='reason', but got value={value!r}, failed={failed!r}")
        if failed is not None:
            return self._fail(number, Failure("error", str(failed)))
        event: dict[str, Any] = {"type": "told", "number": number}
        if stddev is not None:
            event["stddev"] = _positive(stddev)
        if metrics:
            event["metrics"] = {str(key): usable(number_, f"metric {key!r}") for key, number_ in metrics.items()}
        try:
            event["values"] = [usable(value)]
        except TrialError as error:
            number_ = value.item() if getattr(value, "shape", None) == () else value
            if isinstance(number_, float) and not math.isfinite(number_):
                return self._fail(number, Failure("invalid", str(error)))
            raise
        if isinstance(trial, Trial) and trial.reports:
            event["reports"] = [list(pair) for pair in trial.reports]
        return self._finish(number, event)

    def tell_outcome(self, trial: Trial, outcome: Outcome) -> None:
        """Record what an executor made of a trial. A lost worker's trial is handed out again, up to three times."""
        reports = [list(pair) for pair in outcome.reports]
        if outcome.failure is None:
            self._finish(
                trial.number, {"type": "told", "number": trial.number, "values": [outcome.value], "reports": reports}
            )
        elif outcome.failure.kind == "lost" and trial.attempt < ATTEMPTS:
            self.interrupt(trial, lost=True)
        else:
            self._fail(trial.number, outcome.failure, reports)

    def interrupt(self, trial: Trial | int, *, lost: bool = False) -> None:
        """Give a running trial back: it waits, and is handed out again before any new point.

        Args:
            trial: the trial or its number.
            lost: its worker died, which counts as an attempt.
        """
        with self._lock:
            number = self._number(trial)
            state = self._history.trials[number].state
            if state != "running":
                raise TrialError(f"a trial must be running to be given back, but trial {number} is {state}")
            self._append([{"type": "interrupted", "number": number, "lost": lost, "at": time.time()}])

    def _fail(self, number: int, failure: Failure, reports: Sequence[Sequence[float]] = ()) -> None:
        self._finish(number, {"type": "failed", "number": number, "reports": list(reports), **vars(failure)})

    def _finish(self, number: int, event: dict[str, Any]) -> None:
        with self._lock:
            self._sync()
            trial = self._history.trials[number]
            if trial.state in ("complete", "failed"):
                known = f"value {trial.value}" if trial.values else f"failure {trial.failure}"
                raise TrialError(f"a trial is told once, but trial {number} has {known} already")
            try:
                self._append([{**event, "at": time.time()}], [f"told:{number}"])
            except Conflict:
                raise TrialError(f"a trial is told once, but trial {number} was just told by another process") from None

    def _number(self, trial: Trial | int) -> int:
        number = trial.number if isinstance(trial, Trial) else trial
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise TrialError(f"tell takes a Trial or its number, but got {trial!r}")
        with self._lock:
            self._sync()
            if not 0 <= number < len(self._history.trials):
                count = len(self._history.trials)
                raise TrialError(
                    f"trial numbers go from 0 to {count - 1}, but got {number}; use tell_many for data from elsewhere"
                )
        return int(number)

    def tell_many(
        self, params: Iterable[Mapping[str, Any]], values: Iterable[Any], *, stddev: Iterable[float] | None = None
    ) -> list[Trial]:
        """Record data from elsewhere: params with their values, all of them or, on an error, none."""
        points, numbers = [self.space.check(p) for p in params], [usable(value) for value in values]
        errors = None if stddev is None else [_positive(s) for s in stddev]
        if len(points) != len(numbers) or (errors is not None and len(errors) != len(points)):
            raise TrialError(f"params and values must be equally many, but got {len(points)} and {len(numbers)}")
        if not points:
            return []
        rows: list[dict[str, Any]] = [{"params": p, "values": [v]} for p, v in zip(points, numbers, strict=True)]
        for row, error in zip(rows, errors or (), strict=False):
            row["stddev"] = error
        first = self._add_trial(lambda number: {"type": "added", "number": number, "trials": rows, "at": time.time()})
        return self._history.trials[first : first + len(rows)]

    def _add_trial(self, make: Callable[[int], dict[str, Any]]) -> int:
        """Append an event that takes the next trial number; the number it took."""
        with self._lock:
            while True:
                self._sync()
                number = len(self._history.trials)
                try:
                    self._append([make(number)], [f"number:{number}"])
                except Conflict:
                    continue
                return number

    def update_space(self, space: Space) -> None:
        """Search another space from now on: dimensions added, bounds widened, choices added.

        Trials keep their meaning: each must be legal in the new space, and a dimension that they do not have needs a
        `default`, which is the value they had in effect.
        """
        with self._lock:
            self._sync()
            for trial in self._history.trials:
                try:
                    space.complete(trial.params)
                except SpaceError as error:
                    raise SpaceError(f"trial {trial.number} must be legal in the new space too: {error}") from None
            self._history._constraints = space.constraints
            self._append([{"type": "space", "space": space.to_json(), "at": time.time()}])

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
                self._posterior = (self._history.seq, *self._suggester.fit(self._history, self._state))
            return self._posterior[1:]

    # Running.
    def optimize(
        self, objective: Callable[..., Any], trials: int | None = None, *, workers: int = 1,
        executor: str | Executor | None = None, timeout: float | None = None, seconds: float | None = None,
        target: float | None = None, patience: int | None = None, max_failures: int = 10, progress: bool = False,
        callbacks: Sequence["Callback"] = (),
    ) -> "Result":  # fmt: skip
        """Evaluate the objective until a rule says stop; see `presage.loop.run` for the arguments."""
        from presage.loop import run

        return run(
            self, objective, trials=trials, workers=workers, executor=executor, timeout=timeout, seconds=seconds,
            target=target, patience=patience, max_failures=max_failures, progress=progress, callbacks=callbacks,
        )  # fmt: skip

    def stop(self) -> None:
        """From a callback: let what runs finish and start nothing new."""
        self.stop_requested = True

    def control(self, action: Literal["pause", "resume", "stop"]) -> None:
        """Have every run of this study, in whichever process, start nothing new, go on, or end."""
        if action not in ("pause", "resume", "stop"):
            raise StudyError(f"action must be pause, resume or stop, but got {action!r}")
        self._append([{"type": "control", "action": action, "at": time.time()}])

    def note(self, text: str, trial: Trial | int | None = None) -> None:
        """Keep a remark with the study or with one of its trials."""
        number = None if trial is None else self._number(trial)
        self._append([{"type": "note", "text": str(text), "number": number, "at": time.time()}])

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What people wrote: text, trial number or None, seconds since the epoch."""
        with self._lock:
            self._sync()
            return list(self._history.notes)

    # Events.
    def _sync(self) -> None:
        """Take in what other processes, or this one, have added."""
        with self._lock:
            for event in self._storage.read(self.name, self._history.seq):
                self._history.apply(event)
            self._load_state()

    def _load_state(self) -> None:
        stored = self._storage.state(self.name) if self._history.seq > self._state_seq else None
        if stored is not None and stored[0] != self._state_seq:
            self._state = _unpack(stored[1])
            self._state_seq = stored[0]

    def _append(
        self, events: list[dict[str, Any]], claims: Iterable[str] = (), state: dict[str, np.ndarray] | None = None
    ) -> None:
        packed = None if state is None else _pack(state)
        last = self._storage.append(self.name, events, claims=claims, state=packed)
        if state is not None:
            self._state, self._state_seq = state, last
        self._sync()


def load_study(
    storage: Storage | str | os.PathLike[str], name: str | None = None, *, space: Space | None = None,
    surrogate: "str | Surrogate | None" = None, acquisition: "str | Acquisition | None" = None,
) -> Study:  # fmt: skip
    """Open an existing study.

    Args:
        storage: where it is.
        name: which one; may be left out where there is only one.
        space: needed where the study's space has constraints, which are callables and are not stored.
        surrogate: needed where it was an object of the caller's own rather than a name.
        acquisition: likewise.
    """
    place = open_storage(storage)
    names = place.studies()
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise StudyError(f"name must be one of {names}, but got {name!r}")
    history = History()
    for event in place.read(name):
        history.apply(event)
    header, given = history.header, {"surrogate": surrogate, "acquisition": acquisition}
    for what, stored in history.settings.items():
        if given[what] is None:
            if not isinstance(stored, str):
                raise StudyError(f"study {name!r} was made with {what} {stored['object']}; pass {what}= again")
            given[what] = stored
    if space is None:
        if history.stored_space["constraints"]:
            raise StudyError(f"the space of study {name!r} has constraints, which are not stored; pass space= again")
        space = history.space
    return Study(space, direction=header["direction"], storage=place, name=name, **given)  # type: ignore[arg-type]


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


def _pack(state: dict[str, np.ndarray]) -> bytes:
    """Plain arrays as bytes that are read back without unpickling anything."""
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **state)
    return out.getvalue()


def _unpack(data: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


__all__ = ["Prediction", "Study", "load_study"]
