"""Any `concurrent.futures.Executor` of the user's: a pool of the standard library, Dask, Ray, MPI."""

from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait

from presage.errors import StudyError
from presage.executors.base import Objective, Packer, Runner, check_workers, evaluate, evaluate_packed, lost
from presage.trial import Outcome, Trial


class FuturesRunner(Runner):
    """Evaluates on an executor that the user made and shuts down.

    Args:
        executor: where to evaluate; but for threads, objectives get there by cloudpickle.
        workers: trials at once, as many as the executor has where it tells.
    """

    def __init__(self, executor: Executor, workers: int | None = None) -> None:
        if workers is None:
            workers = getattr(executor, "_max_workers", None)
        if workers is None:
            raise StudyError(
                "how many trials run at once must be known, "
                f"but {type(executor).__name__} does not say how many workers it has; give workers="
            )
        self.workers = check_workers(workers)
        self._executor = executor
        self._packer = Packer()
        self._open: set[_Translated] = set()

    def submit(self, objective: Objective, trial: Trial) -> Future[Outcome]:
        try:
            if isinstance(self._executor, ThreadPoolExecutor):
                inner = self._executor.submit(evaluate, objective, trial, interruptible=False)
            else:
                inner = self._executor.submit(evaluate_packed, self._packer.pack(objective), trial)
        except BrokenExecutor as error:
            future: Future[Outcome] = Future()
            future.set_result(_broken(error))
            return future
        outer = _Translated(inner)
        self._open.add(outer)
        outer.add_done_callback(self._open.discard)
        return outer

    def close(self, cancel: bool) -> None:
        """As in every runner; the executor stays open."""
        mine = list(self._open)
        if cancel:
            for future in mine:
                future.cancel()
        else:
            wait(mine)


class _Translated(Future[Outcome]):
    """The executor's future, with the executor's own troubles turned into lost trials."""

    def __init__(self, inner: Future[Outcome]) -> None:
        super().__init__()
        self._inner = inner
        inner.add_done_callback(self._take)

    def cancel(self) -> bool:
        return self._inner.cancel()

    def running(self) -> bool:
        return self._inner.running()

    def _take(self, inner: Future[Outcome]) -> None:
        if inner.cancelled():
            super().cancel()
            self.set_running_or_notify_cancel()
            return
        error = inner.exception()  # the evaluation itself never raises
        self.set_result(inner.result() if error is None else _broken(error))


def _broken(error: BaseException) -> Outcome:
    return lost(f"the executor broke: {type(error).__name__}: {error}")
