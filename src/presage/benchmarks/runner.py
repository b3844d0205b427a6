"""Problems x methods x seeds, several at a time; what is finished is written down at once and not run again."""

import multiprocessing
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from presage.benchmarks import methods, records
from presage.benchmarks.problems import PROBLEMS
from presage.errors import PresageError, SpaceExhausted

# One thread per run: the cores are for runs, and timings of methods are only comparable so.
SINGLE = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}  # fmt: skip


class Job(NamedTuple):
    """A run to be made."""

    problem: str
    method: str
    seed: int
    python: str | None = None


class Failed(NamedTuple):
    """A run that could not be made, and why."""

    job: Job
    reason: str


def play(job: Job, trials: int | None = None) -> records.Record:
    """Run a method on an instance and give the record of it.

    Regret is the value without noise less the minimum; what a noisy problem showed is kept as values. A method that has
    seen every point of a finite space ends early; its record is shorter.
    """
    problem = PROBLEMS[job.problem]
    instance = problem.make(job.seed)
    count = problem.trials if trials is None else trials
    session = methods.start(job.method, instance.space, count, job.seed, job.python)
    regret, values, seconds = [], [], []
    for number in range(count):
        began = time.perf_counter()
        try:
            params = session.ask()
        except SpaceExhausted:
            break
        spent = time.perf_counter() - began
        exact = instance.value(instance.space.check(params))
        seen = exact + problem.disturbance(job.seed, number)
        began = time.perf_counter()
        session.tell(seen)
        spent += time.perf_counter() - began
        regret.append(float(f"{exact - instance.minimum:.6g}"))
        values.append(float(f"{seen:.8g}"))
        seconds.append(float(f"{spent if session.spent is None else session.spent:.2g}"))
    return {
        "problem": job.problem, "method": job.method, "seed": job.seed, "trials": count, "minimum": instance.minimum,
        "regret": regret, **({"values": values} if problem.noise else {}), "seconds": seconds,
        "versions": dict(session.versions), "machine": machine(),
    }  # fmt: skip


def machine() -> dict[str, str | int | None]:
    """What a run was made on."""
    return {"processor": platform.machine(), "cores": os.cpu_count(), "system": platform.system()}


def run(
    jobs: Sequence[Job], folder: Path, *, workers: int = 1, command: str = "", seconds: float | None = None,
    tell: Callable[[Job, records.Record | Failed], None] = lambda job, result: None,
) -> list[Failed]:  # fmt: skip
    """Make the runs that are missing in a folder; those that failed are returned and are tried again next time.

    Args:
        jobs: what is wanted.
        folder: where results are kept.
        workers: runs at a time.
        command: written into every record.
        seconds: start nothing new after so long.
        tell: called after every run.
    """
    began = time.monotonic()
    finished = records.done(folder, {job.method for job in jobs}, {name: p.trials for name, p in PROBLEMS.items()})
    missing = iter([job for job in jobs if (job.problem, job.method, job.seed) not in finished])
    failed: list[Failed] = []
    without: set[str] = set()  # methods whose library is missing; asked once
    with processes(workers) as pool:
        running: dict[Future[records.Record], Job] = {}
        while True:
            late = seconds is not None and time.monotonic() - began > seconds
            while not late and len(running) < workers:
                job = next((job for job in missing if job.method not in without), None)
                if job is None:
                    break
                running[pool.submit(play, job)] = job
            if not running:
                return failed
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                result = _result(future, job, without)
                if isinstance(result, Failed):
                    failed.append(result)
                else:
                    result |= {"command": command, "at": round(time.time())}
                    records.append(folder, result)
                tell(job, result)


@contextmanager
def processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes with one thread each; an error or Ctrl-C in the block ends them at once."""
    others = set(multiprocessing.active_children())
    with environment(SINGLE):
        pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=end_with_parent)
        try:
            yield pool
        except BaseException:
            for child in set(multiprocessing.active_children()) - others:
                child.kill()  # or the interpreter would wait for what they are at
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def end_with_parent() -> None:
    """End this process when the one that started it is gone, which is also the one that Ctrl-C is for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _result(future: "Future[records.Record]", job: Job, without: set[str]) -> "records.Record | Failed":
    try:
        return future.result()
    except methods.MissingPeer as error:
        without.add(job.method)
        return Failed(job, str(error))
    except BrokenProcessPool as error:
        raise PresageError(
            f"a worker died during {job.method} on {job.problem}, seed {job.seed}, perhaps for want of memory; what "
            "was finished is kept, the same command goes on"
        ) from error
    except Exception as error:  # noqa: BLE001  a peer may raise anything; the other runs go on
        return Failed(job, f"{type(error).__name__}: {error}")


class environment:  # noqa: N801
    """Environment variables for the processes started in a block."""

    def __init__(self, wanted: Mapping[str, str]) -> None:
        self.wanted = wanted

    def __enter__(self) -> None:
        self.before = {name: os.environ.get(name) for name in self.wanted}
        os.environ.update(self.wanted)

    def __exit__(self, *error: object) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def jobs_for(
    problems: Sequence[str], names: Sequence[str], seeds: Sequence[int], pythons: Mapping[str, str]
) -> Iterator[Job]:
    """All runs, seed by seed, so that a run cut short has a few seeds of everything."""
    for seed in seeds:
        for problem in problems:
            for name in names:
                yield Job(problem, name, seed, pythons.get(name))
