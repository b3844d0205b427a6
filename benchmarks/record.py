"""What every recorded result says about where it comes from."""

import json
import multiprocessing
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parent.parent / "docs" / "figures"
T = TypeVar("T")


def spread(work: Callable[..., T], items: Iterable[tuple[Any, ...]], jobs: int) -> Iterator[tuple[tuple[Any, ...], T]]:
    """Each item with work(*item), in the order in which `jobs` processes end them; in this process if there is one."""
    if jobs == 1:
        yield from ((item, work(*item)) for item in items)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        under_way = {pool.submit(work, *item): item for item in items}
        for done in as_completed(under_way):
            yield under_way[done], done.result()


def write(name: str, result: Any, packages: tuple[str, ...] = ("presage", "numpy", "scipy", "cmaes")) -> None:
    """Write a result with the command, the versions and the machine that made it."""
    from presage.benchmarks.methods import code

    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    record = {
        "command": command, "versions": {package: version(package) for package in packages} | {"code": code()},
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "processor": platform.machine()},
        "threads": os.environ.get("OMP_NUM_THREADS"), "result": result,
    }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
