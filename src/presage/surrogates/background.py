"""Fitting while suggestions go on: the old state serves until the new one is there, and is then replaced at once."""

import threading
import time
from dataclasses import dataclass

import numpy as np

from presage.observations import Observations
from presage.surrogates.base import Fit, State, Surrogate


@dataclass
class Job:
    """A fit that runs in a thread of its own."""

    thread: threading.Thread
    state: State | None = None
    error: BaseException | None = None


class InBackground(Surrogate):
    """A surrogate whose later fits run in a thread, from a snapshot of the data, while its old state is used.

    A fit that is due starts the thread and is answered with the old state and the new data. At the first question
    after the thread has ended its state is taken over, and the study stores it with the suggestion that it makes; so
    a suggestion stays a function of the events, the state stored with it, the seed and the number. A process that dies
    loses an unfinished fit and nothing else.

    A thread is enough: nearly all of the work is matrix products, which leave the interpreter to others.

    Args:
        surrogate: what is fitted; one whose `fit(..., keep=True)` is quick.
    """

    def __init__(self, surrogate: Surrogate):
        self.surrogate = surrogate
        self.trained, self.seconds = 0, 0.0  # fits taken over from the thread, and what the last one took
        self._job: Job | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"InBackground({self.surrogate!r})"

    @property
    def training(self) -> bool:
        """Whether a fit is running."""
        job = self._job
        return job is not None and job.thread.is_alive()

    def wait(self) -> None:
        """Until no fit is running."""
        job = self._job
        if job is not None:
            job.thread.join()

    def due(self, data: Observations, state: State, fitted: int) -> bool:
        job = self._job
        return self.surrogate.due(data, state, fitted) if job is None else not job.thread.is_alive()

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        if keep or previous is None:  # a first fit has nothing to go on with meanwhile
            return self.surrogate.fit(data, rng=rng, previous=previous, keep=keep)
        with self._lock:
            job = self._job
            if job is None:
                self._job = self._start(data, np.random.default_rng(rng.integers(2**63)), previous)
            elif not job.thread.is_alive():
                self._job = None
                if job.error is not None:
                    raise job.error
                previous, self.trained = job.state, self.trained + 1
        return self.surrogate.fit(data, rng=rng, previous=previous, keep=True)

    def _start(self, data: Observations, rng: np.random.Generator, previous: State) -> Job:
        def run() -> None:
            began = time.perf_counter()
            try:
                job.state = self.surrogate.fit(data, rng=rng, previous=previous).state
            except BaseException as error:  # noqa: BLE001  raised where the state is asked for
                job.error = error
            self.seconds = time.perf_counter() - began

        job = Job(threading.Thread(target=run, name="presage-fit", daemon=True))
        job.thread.start()
        return job
