"""What a suggestion takes with n values, for every surrogate and every peer, cold start included.

Each cell, a method with n values, is a process of its own. It is given n values of Hartmann's function at random points
and asked: the first suggestion counts from the start of the process, so that imports, compilation and a fit from
nothing are in it, but not the handing over of values. Then values are told and suggestions asked for in turn. A
cell that exceeds its limit is ended, and larger n are not tried.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.benchmarks import peers, records
from presage.benchmarks.runner import SINGLE, environment, machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (10, 100, 1000, 10_000, 100_000)
REPEATS = 5  # suggestions after the first
LIMIT = 60.0  # seconds
MEMORY = 12 << 30  # bytes of address space of a cell: an exact process on 100,000 values would take all there is
PEERS = tuple(name for name in peers.PEERS if name not in ("optuna-gp-exact", "botorch-noisy"))


def surrogates() -> tuple[str, ...]:
    """Every surrogate by name, as a method."""
    from presage.surrogates import BY_NAME

    return tuple(f"presage:{name}" for name in BY_NAME)


class Slow(Exception):
    """A cell's time is up."""


class Child:
    """A process that serves one method, ended when its time is up."""

    def __init__(self, command: Sequence[str]) -> None:
        with environment(SINGLE):
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        _little_memory(self.process.pid)

    def call(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """Ask something; Slow where no answer comes in time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        up = threading.Event()

        def end() -> None:
            up.set()
            self.process.kill()

        timer = threading.Timer(limit, end)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if up.is_set():
            raise Slow
        if not line:
            raise MemoryError(f"the process ended with exit code {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise MemoryError(answer["error"]) if "MemoryError" in answer["error"] else RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def _little_memory(pid: int) -> None:
    """Bound what a process may take, where the system can (Linux): from outside, since forks among threads hang."""
    try:
        from resource import RLIMIT_AS, prlimit
    except ImportError:
        return
    prlimit(pid, RLIMIT_AS, (MEMORY, MEMORY))


def command_of(method: str, pythons: Mapping[str, str]) -> list[str]:
    """What serves a method."""
    if method.startswith("presage:"):
        return [sys.executable, "-m", "presage.benchmarks.ours"]
    return [pythons.get(method, sys.executable), "-I", str(Path(peers.__file__).resolve())]


def measure(method: str, n: int, limit: float, pythons: Mapping[str, str]) -> dict[str, Any]:
    """One cell: seconds of the first suggestion of a new process, and the mean of those after it.

    "ended" says why one or both are missing: time, memory, or what the method said.
    """
    from presage.functions import hartmann6 as f

    points = [f.space.decode(x) for x in np.random.default_rng(0).random((n, 6))]
    values = [f(point) for point in points]
    found: dict[str, Any] = {"method": method, "n": n, "limit": limit, "machine": machine()}
    began = time.perf_counter()
    child = Child(command_of(method, pythons))
    try:
        found["versions"] = child.call({"cold": [method, f.space.to_json(), n + REPEATS + 2, 0]}, limit)["versions"]
        started = time.perf_counter() - began
        child.call({"give": [points, values]}, limit)
        answer = child.call({"ask": 0}, limit)
        found["first"] = started + answer["seconds"]
        spent: list[float] = []
        while len(spent) < REPEATS and sum(spent) < limit / 3:
            params = answer["params"]
            told = child.call({"tell": f(params)}, limit)
            answer = child.call({"ask": 0}, limit)
            spent.append(told["seconds"] + answer["seconds"])
            found["next"] = statistics.fmean(spent)
    except Slow:
        found["ended"] = "time"
    except MemoryError as error:
        found["ended"] = f"memory: {error}"[:200]
    except RuntimeError as error:
        found["ended"] = str(error)[:200]
    finally:
        child.close()
    return found


def run(
    methods: Sequence[str], path: Path, *, sizes: Sequence[int] = SIZES, limit: float = LIMIT,
    pythons: Mapping[str, str], command: str = "", tell: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Measure what is missing in a file, small n first, and give all of it.

    What ended for want of time is measured again when more of it is allowed.
    """
    kept = {(line["method"], line["n"]): line for line in records.lines(path)}
    over: set[str] = set()
    for n in sorted(sizes):
        for method in methods:
            found = kept.get((method, n))
            if found is None or ("ended" in found and found["limit"] < limit):
                if method in over:
                    tell(f"{method} is left out at n = {n}")
                    continue
                found = measure(method, n, limit, pythons) | {"command": command, "at": round(time.time())}
                records.add(path, found)
                kept[method, n] = found
            if "ended" in found:
                over.add(method)
            tell(f"{method} at n = {n}: {_shown(found, 'first')}, then {_shown(found, 'next')}")
    return [found for (method, _), found in kept.items() if method in methods]


def _shown(found: Mapping[str, Any], what: str) -> str:
    return f"{found[what]:.3g} s" if what in found else f"- ({found['ended']})" if "ended" in found else "-"


def markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """Two tables: first suggestions of a process, and those after it."""
    sizes = sorted({one["n"] for one in found})
    methods = list(dict.fromkeys(one["method"] for one in found))
    by = {(one["method"], one["n"]): one for one in found}
    parts = []
    titles = {
        "first": "Seconds from the start of a process to its first suggestion",
        "next": "Mean seconds of the suggestions after it",
    }
    for what, title in titles.items():
        rows = [[method, *(_cell(by.get((method, n)), what) for n in sizes)] for method in methods]
        head = ["", *(f"n = {n:,}" for n in sizes)]
        lines = [head, ["---"] * len(head), *rows]
        parts.append(f"{title}:\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
    said = "A cell without a number was ended: time is more than the limit, larger n were then not tried."
    return "\n\n".join([*parts, said]) + "\n"


def _cell(found: Mapping[str, Any] | None, what: str) -> str:
    if found is None:
        return "-"
    return f"{found[what]:.3g}" if what in found else str(found.get("ended", "-")).split(":")[0]


def figure(found: Sequence[Mapping[str, Any]]) -> "Figure":
    """Both tables as curves; presage's surrogates solid, peers dashed."""
    from presage.plots._style import CYCLE
    from presage.plots._style import figure as frame

    methods = list(dict.fromkeys(one["method"] for one in found))
    with frame(1, 2, size=(11.0, 5.0), sharey=True) as (made, axes):
        for axis, (what, title) in zip(
            axes[0], (("first", "first suggestion of a process"), ("next", "suggestions after it")), strict=True
        ):
            count = {True: 0, False: 0}
            for method in methods:
                ours = method.startswith("presage:")
                mine = sorted((one["n"], one[what]) for one in found if one["method"] == method and what in one)
                i = count[ours]
                count[ours] += 1
                if mine:
                    axis.loglog(
                        *zip(*mine, strict=True), color=CYCLE[i % len(CYCLE)], linestyle="-" if ours else "--",
                        marker="os^vD"[i // len(CYCLE)], markersize=3.5, linewidth=1.2, label=method,
                    )  # fmt: skip
            axis.set(title=title, xlabel="values n")
        axes[0, 0].set_ylabel("seconds")
        made.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize=7)
    return made
