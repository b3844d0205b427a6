"""Processes: one fresh interpreter per worker, each with a pipe of its own, so that one can die without the others.

Not `multiprocessing.Process`, whose spawned children run the user's main script again, and not `concurrent.futures` or
Pebble, whose workers share a pipe: there a worker that exits with code 0 leaves its trial waiting for ever, and an idle
one that is killed breaks the pool.
"""

import math
import multiprocessing
import multiprocessing.spawn
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from io import TextIOWrapper
from multiprocessing.connection import Connection
from numbers import Real

from presage.errors import StudyError
from presage.executors.base import Objective, Packed, Packer, Runner, check_workers, evaluate, failed, lost
from presage.trial import Failure, Outcome, Trial

GRACE = 1.0  # seconds for a worker to leave by itself before it is killed
CHECK = 1.0  # seconds between looks whether a worker whose pipe is silent still lives


class ProcessRunner(Runner):
    """Evaluates in processes of this machine, which survive what the objective does to one of them.

    Args:
        workers: how many processes.
        timeout: seconds after which an evaluation is killed, together with the processes that it started; the time a
            worker takes to start and to import the objective does not count.
    """

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        if sys.platform == "win32":
            raise StudyError("processes need Linux or macOS, but this is Windows; use executor='threads'")
        number = isinstance(timeout, Real) and not isinstance(timeout, bool)
        if timeout is not None and not (number and 0 < timeout < math.inf):
            raise StudyError(f"timeout must be a positive number of seconds, but got timeout={timeout!r}")
        self.workers = check_workers(workers)
        self._timeout = timeout
        self._packer = Packer()
        self._lock = threading.Lock()
        self._stopped = False
        self._all = {_Worker() for _ in range(workers)}  # started now, so that they are ready when the first trial is
        self._idle = list(self._all)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="presage")  # one waits on each busy worker

    def submit(self, objective: Objective, trial: Trial) -> Future[Outcome]:
        import cloudpickle

        return self._threads.submit(self._run, self._packer.pack(objective), cloudpickle.dumps(trial))

    def close(self, cancel: bool) -> None:
        if cancel:
            self._threads.shutdown(wait=False, cancel_futures=True)
            with self._lock:
                self._stopped = True
            for worker in self._all:
                worker.kill()
        try:
            self._threads.shutdown()
        except KeyboardInterrupt:
            self.close(cancel=True)
            raise
        for worker in self._all:
            worker.hang_up()
        for worker in self._all:
            worker.await_end()
        self._all.clear()

    def _run(self, packed: Packed, trial: bytes) -> Outcome:
        try:
            worker = self._take()
        except OSError as error:
            return lost(f"no worker could be started: {error}")
        if worker is None:
            return lost("stopped before it began")
        outcome = worker.evaluate(packed, trial, self._timeout)
        with self._lock:
            self._idle.append(worker)
        killed = self._stopped and outcome.failure is not None and outcome.failure.kind == "lost"
        return lost("stopped before it finished") if killed else outcome

    def _take(self) -> "_Worker | None":
        """A worker that lives, a new one if need be; none once the runner was stopped."""
        with self._lock:
            while not self._stopped:
                if not self._idle:
                    self._idle.append(_Worker())
                    self._all.add(self._idle[-1])
                worker = self._idle.pop()
                if worker.alive:
                    return worker
                worker.kill()  # what it started may live on
                self._all.remove(worker)
        return None


class _Worker:
    """The near end of a worker process; used by one thread at a time, but for `kill`."""

    def __init__(self) -> None:
        self._pipe, far = multiprocessing.Pipe()
        paths = [path for path in sys.path if isinstance(path, str)]
        command = (
            f"import sys; sys.path[:] = {paths!r}; sys.argv[:] = {sys.argv!r}; "
            f"from {__name__} import serve; serve({far.fileno()})"
        )
        python = os.fsdecode(multiprocessing.spawn.get_executable())
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        with far:
            self._process = subprocess.Popen(
                [python, *flags, "-c", command],
                stdin=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
                start_new_session=True,  # Ctrl-C in the terminal reaches the parent alone, and killpg all it started
            )
        self._holds = ""  # digest of the objective it has

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def evaluate(self, packed: Packed, trial: bytes, timeout: float | None) -> Outcome:
        """What became of the trial; after a failure of kind timeout or lost the worker is dead."""
        try:
            self._pipe.send((None if self._holds == packed.digest else packed, trial))
            answer = self._receive(math.inf)
            if answer is None:  # the objective is loaded, from here on time counts
                self._holds = packed.digest
                answer = self._receive(math.inf if timeout is None else time.monotonic() + timeout)
        except _Overdue:
            self.kill()
            return Outcome(failure=Failure("timeout", f"took longer than {timeout:g} s"))
        except (EOFError, OSError):
            self.kill()
            return lost(self._last_words())
        assert answer is not None
        return answer

    def _receive(self, deadline: float) -> Outcome | None:
        while not self._pipe.poll(max(0.0, min(CHECK, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                raise _Overdue
            # Processes that an objective forked hold the pipe open, so that the worker's end shows only here.
            if not self.alive and not self._pipe.poll(0):
                raise EOFError
        return self._pipe.recv()

    def _last_words(self) -> str:
        code = self._process.returncode
        if code is None:
            return "its worker stopped answering"
        if code >= 0:
            return f"its worker ended with exit code {code}"
        name = signal.Signals(-code).name
        return f"its worker was killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")

    def kill(self) -> None:
        """End the worker and what it started, at once."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # a process stuck in the kernel takes no signal
            self._process.wait(GRACE)

    def hang_up(self) -> None:
        """Tell an idle worker that no more will come."""
        self._pipe.close()

    def await_end(self) -> None:
        """Give the worker time to leave by itself."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self.kill()


class _Overdue(Exception):
    pass


def serve(handle: int) -> None:
    """What a worker process does: evaluate what comes down the pipe until the far end is closed."""
    signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which programs that an objective starts would inherit
    os.set_inheritable(handle, False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # what was printed is seen even if the worker is killed next
    pipe: Connection = Connection(handle)
    jobs: queue.SimpleQueue[tuple[Packed | None, bytes] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, jobs), daemon=True).start()
    objective: Objective | None = None
    while (job := jobs.get()) is not None:
        packed, data = job
        try:
            import cloudpickle

            trial = cloudpickle.loads(data)
            objective = packed.load() if packed is not None else objective
        except BaseException as error:  # noqa: BLE001 - unpickling runs the user's imports
            answer = failed(error)
        else:
            assert objective is not None
            _answer(pipe, None)
            answer = evaluate(objective, trial, interruptible=False)
        _answer(pipe, answer)


def _answer(pipe: Connection, answer: Outcome | None) -> None:
    with suppress(OSError):  # the far end is gone, and soon this one
        pipe.send(answer)


def _listen(pipe: Connection, jobs: queue.SimpleQueue[tuple[Packed | None, bytes] | None]) -> None:
    """Pass on what comes, and see to it that this process ends when its parent does, however long an objective runs."""
    with suppress(EOFError, OSError):
        while True:
            jobs.put(pipe.recv())
    jobs.put(None)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)
