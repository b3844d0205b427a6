"""Threads of this process: for objectives that wait, or whose work is done outside Python."""

from concurrent.futures import Future, ThreadPoolExecutor

from presage.executors.base import Objective, Runner, check_workers, evaluate
from presage.trial import Outcome, Trial


class ThreadRunner(Runner):
    """Evaluates in threads; Python cannot stop one, so also after `close(cancel=True)` what runs goes on to its end."""

    def __init__(self, workers: int) -> None:
        self.workers = check_workers(workers)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="presage")

    def submit(self, objective: Objective, trial: Trial) -> Future[Outcome]:
        return self._threads.submit(evaluate, objective, trial, interruptible=False)

    def close(self, cancel: bool) -> None:
        self._threads.shutdown(wait=not cancel, cancel_futures=cancel)
