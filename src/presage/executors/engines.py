"""Engines of other libraries, by name: Dask, Ray, MPI. Each is imported when it is asked for.

What is started here listens on this machine only; clusters of many machines are started by their own tools and joined.
"""

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from importlib import import_module
from typing import Any

from presage.errors import StudyError
from presage.executors.base import Runner
from presage.executors.futures import FuturesRunner

LOOPBACK = "127.0.0.1"
NAMES = ("dask", "dask://host:port", "ray", "ray://host:port", "mpi")


class EngineRunner(FuturesRunner):
    """Evaluates on an executor that was opened here, and so is closed here."""

    def __init__(self, executor: Executor, workers: int, shut: Callable[[bool], None]) -> None:
        super().__init__(executor, workers)
        self._shut = shut

    def close(self, cancel: bool) -> None:
        """As in every runner; what was started for it ends too."""
        super().close(cancel)
        self._shut(cancel)


def is_engine(name: object) -> bool:
    """Whether an executor's name is one of an engine."""
    return isinstance(name, str) and name.partition("://")[0] in ("dask", "ray", "mpi")


def open_engine(name: str, workers: int | None = None) -> Runner:
    """The runner that an engine's name stands for.

    Args:
        name: dask or ray (as many local workers as asked for), dask://host:port or ray://host:port (a cluster that
            runs), or mpi (the other processes of `mpiexec -n 5 python -m mpi4py.futures script.py`).
        workers: trials at once; as many as the engine has where left out.
    """
    kind, _, address = name.partition("://")
    if kind == "mpi" and address:
        raise StudyError(f"MPI has no address, but got {name!r}; start with mpiexec and say 'mpi'")
    return {"dask": _dask, "ray": _ray, "mpi": _mpi}[kind](address, workers)


def _dask(address: str, workers: int | None) -> Runner:
    distributed = _import("distributed", "dask")
    if address:
        try:
            client = distributed.Client(f"tcp://{address}", timeout=10, set_as_default=False)
        except OSError as error:
            raise StudyError(f"a Dask scheduler must answer at {address}, but: {error}") from None
        cluster = None
    else:
        cluster = distributed.LocalCluster(
            n_workers=workers or os.cpu_count(), threads_per_worker=1, host=LOOPBACK, dashboard_address=None,
            silence_logs=40,
        )  # fmt: skip
        client = distributed.Client(cluster, set_as_default=False)
    slots = sum(client.nthreads().values())
    if not slots:
        client.close()
        raise StudyError(f"a Dask scheduler must have workers, but the one at {address} has none yet; start some")

    def shut(cancel: bool) -> None:
        client.close()
        if cluster is not None:
            cluster.close()

    # Not pure: two trials with equal params are two evaluations. No retries: presage counts attempts itself.
    return EngineRunner(client.get_executor(pure=False, retries=0), workers or slots, shut)


def _ray(address: str, workers: int | None) -> Runner:
    ray = _import("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        # Ray gives its workers a low priority. Here trials are all there is to do, and on a busy machine the first ones
        # waited two minutes for their processes.
        local = {
            "num_cpus": workers or os.cpu_count(), "include_dashboard": False, "_node_ip_address": LOOPBACK,
            "_system_config": {"worker_niceness": 0},
        }  # fmt: skip
        try:
            ray.init(f"ray://{address}" if address else "local", **{} if address else local, log_to_driver=True)
        except (OSError, RuntimeError) as error:
            raise StudyError(f"Ray must answer at {address or LOOPBACK}, but: {error}") from None
    slots = int(ray.cluster_resources().get("CPU", 0))

    def shut(cancel: bool) -> None:
        if ours:
            ray.shutdown()

    return EngineRunner(RayExecutor(ray), workers or max(slots, 1), shut)


class RayExecutor(Executor):
    """Calls as tasks of Ray, one CPU each and no retries."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._call = ray.remote(max_retries=0, num_cpus=1)(_call)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Start a call."""
        reference = self._call.remote(fn, args, kwargs)
        inner = reference.future()
        outer = _RayFuture(self._ray, reference)
        inner.add_done_callback(outer.take)
        return outer


class _RayFuture(Future[Any]):
    """Ray's future, which can be cancelled while it waits and while it runs."""

    def __init__(self, ray: Any, reference: Any) -> None:
        super().__init__()
        self._ray, self._reference = ray, reference

    def cancel(self) -> bool:
        if self.done():
            return self.cancelled()
        self._ray.cancel(self._reference, force=True)
        return True

    def take(self, inner: "Future[Any]") -> None:
        """Called when the task is done; Ray's own troubles become the exception."""
        error = inner.exception()
        if isinstance(error, self._ray.exceptions.TaskCancelledError):
            super().cancel()
            self.set_running_or_notify_cancel()
        elif error is not None:
            self.set_exception(error)
        else:
            self.set_result(inner.result())


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)


def _mpi(address: str, workers: int | None) -> Runner:
    futures = _import("mpi4py.futures", "mpi")
    executor = futures.MPIPoolExecutor(max_workers=workers)
    slots = executor.num_workers  # starts it, and waits until the workers are there
    if not slots:
        raise StudyError(
            "MPI must have processes besides the first, but has none; "
            "start with mpiexec -n 5 python -m mpi4py.futures script.py"
        )
    return EngineRunner(executor, workers or slots, lambda cancel: executor.shutdown(wait=True, cancel_futures=cancel))


def _import(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise StudyError(
            f"executor={extra!r} needs {module.partition('.')[0]}, which cannot be imported ({error}); "
            f'pip install "presage[{extra}]"'
        ) from None
