"""What every executor shares: one evaluation, from a call to an outcome, and the contract of a runner."""

import copy
import hashlib
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from presage.errors import StudyError, TrialError
from presage.trial import Failure, Outcome, Trial, usable

Objective = Callable[..., Any]
HERE = os.path.join(os.path.dirname(__file__), "")


class Runner(ABC):
    """Evaluates trials, `workers` at a time; as a context manager it closes itself.

    Attributes:
        workers: how many trials it evaluates at once.
    """

    workers: int

    @abstractmethod
    def submit(self, objective: Objective, trial: Trial) -> Future[Outcome]:
        """Start an evaluation; nothing that the objective does makes the future's result raise."""

    @abstractmethod
    def close(self, cancel: bool) -> None:
        """Let what was submitted finish or, with `cancel`, drop what waits and stop what runs if that can be done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(cancel=error is not None)


def check_workers(workers: int) -> int:
    """`workers` itself, or a StudyError."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise StudyError(f"workers must be a whole number of 1 or more, but got workers={workers!r}")
    return workers


def evaluate(objective: Objective, trial: Trial, *, interruptible: bool = True) -> Outcome:
    """Call the objective with a copy of the trial's params, and say what came of it.

    Args:
        objective: called as `objective(params, trial)` where it has a second positional parameter without default or
            one named `trial`, else as `objective(params)`.
        trial: what to evaluate; the objective gets a copy, since this one is the record.
        interruptible: whether a KeyboardInterrupt goes through. Only in the main thread of the user's own process is
            it the user's; elsewhere it becomes a lost trial.

    Example:
        >>> evaluate(lambda params: params["x"] ** 2, Trial(0, {"x": 3}))
        Outcome(value=9.0, failure=None, reports=())
    """
    trial = replace(trial, params=copy.deepcopy(trial.params), reports=list(trial.reports))
    value, failure = None, None
    try:
        value = _call(objective, trial)
    except KeyboardInterrupt:
        if interruptible:
            raise
        failure = Failure("lost", "interrupted")
    except BaseException as error:  # noqa: BLE001 - whatever a user's code raises is an outcome
        failure = _failure(error)
    else:
        try:
            value = usable(value)
        except TrialError as error:
            failure = Failure("invalid", str(error))
        except Exception as error:  # noqa: BLE001 - a foreign object may raise anything when asked for its value
            failure = Failure("invalid", f"a value must be one finite number, but reading it raised {error!r}")
    reports = tuple(trial.reports)
    return Outcome(failure=failure, reports=reports) if failure else Outcome(value, reports=reports)


def _call(objective: Objective, trial: Trial) -> Any:
    params = copy.deepcopy(trial.params)  # apart from trial.params, so that changing one leaves the other
    try:
        parameters = list(inspect.signature(objective).parameters.values())
    except (TypeError, ValueError):  # some callables written in C have none
        return objective(params)
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(p.name == "trial" and p.kind in by_name for p in parameters[1:]):
        return objective(params, trial=trial)
    second = [p for p in parameters if p.kind in by_place][1:2]
    if second and second[0].default is inspect.Parameter.empty:
        return objective(params, trial)
    return objective(params)


def failed(error: BaseException) -> Outcome:
    """The outcome of a trial that raised, told from the user's own code on."""
    return Outcome(failure=_failure(error))


def _failure(error: BaseException) -> Failure:
    while error.__traceback__ and error.__traceback__.tb_frame.f_code.co_filename.startswith(HERE):
        error.__traceback__ = error.__traceback__.tb_next
    try:
        failure = Failure.of(error)
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        return Failure("error", f"{type(error).__name__}, whose message cannot be shown")
    if isinstance(error, SystemExit):
        return replace(failure, message=f"the objective called sys.exit({error.code!r})")
    return failure


def lost(message: str) -> Outcome:
    """The outcome of a trial whose worker went away."""
    return Outcome(failure=Failure("lost", message))


@dataclass(frozen=True)
class Packed:
    """An objective ready to travel; equal where the digest is."""

    digest: str
    data: bytes = field(compare=False, repr=False)

    def load(self) -> Objective:
        """The objective, unpickled once per process."""
        return _load(self)


@lru_cache(maxsize=4)
def _load(packed: Packed) -> Objective:
    import cloudpickle

    return cloudpickle.loads(packed.data)


class Packer:
    """Pickles an objective once, however often it is submitted."""

    def __init__(self) -> None:
        self._last: tuple[Objective, Packed] | None = None

    def pack(self, objective: Objective) -> Packed:
        """The objective in bytes, or a StudyError that says why it cannot travel."""
        last = self._last
        if last is not None and last[0] is objective:
            return last[1]
        import cloudpickle

        try:
            data = cloudpickle.dumps(objective)
        except Exception as error:
            name = getattr(objective, "__qualname__", None) or repr(objective)
            raise StudyError(
                f"an objective that runs in another process must be picklable, but {name} is not "
                f"({type(error).__name__}: {error}); create what it holds inside it, or use executor='threads'"
            ) from error
        packed = Packed(hashlib.sha256(data).hexdigest(), data)
        self._last = objective, packed
        return packed


def evaluate_packed(packed: Packed, trial: Trial) -> Outcome:
    """`evaluate` for an objective that came from another process; never raises."""
    try:
        objective = packed.load()
    except BaseException as error:  # noqa: BLE001 - unpickling runs the user's imports
        return failed(error)
    return evaluate(objective, trial, interruptible=False)
