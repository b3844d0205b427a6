"""Where objectives run: here, in threads, in processes, or on an executor of the user's."""

from concurrent.futures import Executor

from presage.errors import StudyError
from presage.executors.base import Objective, Runner, check_workers, evaluate
from presage.executors.engines import NAMES as ENGINES
from presage.executors.engines import is_engine, open_engine
from presage.executors.futures import FuturesRunner
from presage.executors.processes import ProcessRunner
from presage.executors.serial import SerialRunner
from presage.executors.threads import ThreadRunner

__all__ = [
    "FuturesRunner", "Objective", "ProcessRunner", "Runner", "SerialRunner", "ThreadRunner", "evaluate", "open_runner",
]  # fmt: skip


def open_runner(
    executor: str | Executor | Runner | None = None, workers: int = 1, timeout: float | None = None
) -> Runner:
    """The runner that the user's arguments ask for.

    Args:
        executor: serial, threads, processes, an engine (dask, dask://host:port, ray, ray://host:port, mpi), or any
            `concurrent.futures.Executor`. Left out, processes where there are several workers or a timeout, else
            serial. A Runner is taken as it is.
        workers: trials at once; with an engine or an executor of the user's, 1 means as many as it has.
        timeout: seconds after which an evaluation is killed.

    Example:
        >>> type(open_runner()).__name__
        'SerialRunner'
    """
    if isinstance(executor, Runner):
        return executor
    check_workers(workers)
    if executor is None:
        executor = "serial" if workers == 1 and timeout is None else "processes"
    if executor == "processes":
        return ProcessRunner(workers, timeout)
    if not isinstance(executor, Executor) and executor not in ("serial", "threads") and not is_engine(executor):
        raise StudyError(
            f"executor must be 'serial', 'threads', 'processes', an engine ({', '.join(ENGINES)}) or a "
            f"concurrent.futures.Executor, but got {executor!r}; leave it out to get what fits workers="
        )
    if timeout is not None:
        raise StudyError(
            f"timeout needs executor='processes', since nothing else can be stopped, but got executor={executor!r}; "
            "leave out one of the two"
        )
    if isinstance(executor, str) and is_engine(executor):
        return open_engine(executor, None if workers == 1 else workers)
    if isinstance(executor, Executor):
        return FuturesRunner(executor, None if workers == 1 else workers)
    if executor == "threads":
        return ThreadRunner(workers)
    if workers != 1:
        raise StudyError(
            f"executor='serial' runs one trial at a time, but got workers={workers}; "
            "leave out workers= or use executor='processes'"
        )
    return SerialRunner()
