"""Many workers on one study: what they get done, and that nothing is lost when things go wrong.

    python benchmarks/workers.py throughput            # 16 workers, 5,000 trials of 1 ms, SQLite and PostgreSQL
    python benchmarks/workers.py kills                 # the same, a random worker killed every second for two minutes
    python benchmarks/workers.py restarts              # the same, PostgreSQL stopped and started ten times
    python benchmarks/workers.py partition             # four network namespaces, a host cut off for 30 s (needs root)
    python benchmarks/workers.py engines dask mpi ray  # one study on each, 4 workers, an objective of 1 s
    python benchmarks/workers.py many                  # 100,000 trials in one study, an import of 1,000,000 values
    python benchmarks/workers.py fuzz                  # 100,000 damaged files and hostile payloads

Each writes benchmarks/results/workers_NAME.json. PostgreSQL's programs must be installed. Engines: `presage[dask]`,
`presage[ray]`, `presage[mpi]` and mpiexec; each runs in the environment it is installed in.
"""

import argparse
import json
import os
import platform
import random
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from presage.storage import open_storage
from presage.testing.fleet import Fleet, broken
from presage.testing.postgres import Server, wait_until

RESULTS = Path(__file__).parent / "results"
PATIENCE = 1500.0  # seconds that a fleet may take


def machine() -> dict[str, Any]:
    def known(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    names = ("presage", "sqlalchemy", "numpy", "psycopg", "distributed", "ray", "mpi4py")
    return {
        "cores": os.cpu_count(), "load at the start": round(os.getloadavg()[0], 1), "system": platform.system(),
        "python": platform.python_version(), "sqlite": sqlite3.sqlite_version,
        **{name: known(name) for name in names if known(name)},
    }  # fmt: skip


def commit_seconds(folder: Path, times: int = 100) -> float:
    """What the disk takes for one durable commit, without presage: the floor of every append."""
    with closing(sqlite3.connect(folder / "probe.db", isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("CREATE TABLE t (n)")
        began = time.perf_counter()
        for n in range(times):
            raw.execute("INSERT INTO t VALUES (?)", (n,))
        return (time.perf_counter() - began) / times


@contextmanager
def place(kind: str, folder: Path) -> Iterator[tuple[str, Server | None]]:
    """A storage of a kind, and the server behind it."""
    if kind == "sqlite":
        yield str(folder / "study.db"), None
    else:
        with Server() as server:
            yield server.url, server


def rate(fleet: Fleet) -> dict[str, float]:
    """Trials per second from the first value to the last, so that the start of interpreters does not count."""
    with closing(open_storage(fleet.storage)) as storage:
        told = sorted(p["at"] for _, p in storage.read(fleet.name) if p["type"] == "told")
    middle = told[len(told) // 10 : -len(told) // 10]
    return {
        "trials per second": round(len(told) / (told[-1] - told[0]), 1),
        "in the middle four fifths": round(len(middle) / (middle[-1] - middle[0]), 1),
    }


def throughput(options: argparse.Namespace) -> dict[str, Any]:
    result = {}
    for kind in options.storages:
        with tempfile.TemporaryDirectory() as name, place(kind, Path(name)) as (url, _):
            folder = Path(name)
            fleet = Fleet(url, folder, trials=options.trials)
            with fleet.at_work():
                fleet.hire(options.workers)
                fleet.wait(PATIENCE)
            floor = 1e3 * commit_seconds(folder)
            result[kind] = {"one commit on this disk, ms": round(floor, 2), **rate(fleet), **fleet.account()}
    return result


def kills(options: argparse.Namespace) -> dict[str, Any]:
    """Study after study of so many trials, until the time is up; one worker is killed and replaced every second."""
    result = {}
    chance = random.Random(options.seed)
    for kind in options.storages:
        with tempfile.TemporaryDirectory() as name, place(kind, Path(name)) as (url, _):
            studies, until = [], time.monotonic() + options.seconds
            while time.monotonic() < until:
                fleet = Fleet(url, Path(name), name=f"kills{len(studies)}", trials=options.trials)
                with fleet.at_work():
                    fleet.hire(options.workers)
                    while time.monotonic() < until and fleet.living:
                        time.sleep(1.0)
                        fleet.reap()
                        if fleet.living and fleet.kill(chance.choice(fleet.living)):
                            fleet.hire()
                    fleet.wait(PATIENCE)
                studies.append(fleet.account())
            result[kind] = studies
    return result


def restarts(options: argparse.Namespace) -> dict[str, Any]:
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name, Server() as server:
        fleet = Fleet(server.url, Path(name), trials=options.trials)
        modes = []
        with fleet.at_work():
            fleet.hire(options.workers)
            # A worker that cannot reach the database when it starts says so and ends: the address may be wrong.
            with closing(open_storage(server.url)) as storage:
                wait_until(
                    lambda: "fleet" in storage.studies() and len(storage.living("fleet")) == options.workers, 200, "all"
                )
            for _ in range(options.restarts):
                time.sleep(chance.uniform(1.0, 3.0))
                modes.append(chance.choice(["fast", "immediate"]))
                server.stop(modes[-1])
                time.sleep(chance.uniform(0.5, 4.0))
                server.start()
            fleet.wait(PATIENCE)
        waits = fleet.errors().count("is back after")
        return {"restarts": modes, "waits of more than two seconds": waits, **rate(fleet), **fleet.account()}


def partition(options: argparse.Namespace) -> dict[str, Any]:
    """PostgreSQL on one host, workers on three; one of those is cut off on the way and restored."""
    inside = ("ip", "netns", "exec")
    with (
        tempfile.TemporaryDirectory() as name,
        network() as cut,
        Server("10.77.0.1", (*inside, "presage0"), "10.77.0.0/24") as server,
    ):
        fleet = Fleet(server.url, Path(name), trials=options.trials, seconds=options.evaluation, lease=10.0)
        with fleet.at_work():
            for host in (1, 2, 3):
                fleet.hire(2, (*inside, f"presage{host}"))
            deadline = time.monotonic() + 120
            while len(fleet.evaluations()) < 20:
                assert time.monotonic() < deadline, fleet.errors()
                time.sleep(0.5)
            cut(True)
            before = len(fleet.evaluations())
            time.sleep(options.cut)
            during = len(fleet.evaluations()) - before
            cut(False)
            fleet.wait(PATIENCE)
        # From a host that can see the database.
        code = (
            "import json, sys; from pathlib import Path; from presage.testing.fleet import Fleet\n"
            "print(json.dumps(Fleet(sys.argv[1], Path(sys.argv[2]), trials=int(sys.argv[3])).account()))"
        )
        command = [*inside, "presage1", sys.executable, "-c", code, server.url, name, str(fleet.trials)]
        account = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        account["faults"]["workers that failed"] = sum(code != 0 for code in fleet.ended)
        said = [line for line in fleet.errors().splitlines() if "answer" in line or "back" in line]
        return {
            "cut off, seconds": options.cut, "evaluations meanwhile": during, "what the cut off said": said[:4],
            **account,
        }  # fmt: skip


@contextmanager
def network() -> Iterator[Callable[[bool], None]]:
    """Four hosts presage0..3 on one wire, 10.77.0.1 to .4; call with True to cut the last one off."""

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    ip("link", "add", "presage-br", "type", "bridge")
    ip("link", "set", "presage-br", "up")
    try:
        for host in range(4):
            ip("netns", "add", f"presage{host}")
            ip("link", "add", f"presage-v{host}", "type", "veth", "peer", "name", "eth0", "netns", f"presage{host}")
            ip("link", "set", f"presage-v{host}", "master", "presage-br", "up")
            ip("-n", f"presage{host}", "addr", "add", f"10.77.0.{host + 1}/24", "dev", "eth0")
            ip("-n", f"presage{host}", "link", "set", "eth0", "up")
            ip("-n", f"presage{host}", "link", "set", "lo", "up")
        yield lambda off: ip("link", "set", "presage-v3", "down" if off else "up")
    finally:
        for host in range(4):
            subprocess.run(["ip", "netns", "del", f"presage{host}"], capture_output=True)
            subprocess.run(["ip", "link", "del", f"presage-v{host}"], capture_output=True)
        subprocess.run(["ip", "link", "del", "presage-br"], capture_output=True)


ENGINE = """
import json, sys, time
from presage.study import Study
from presage.testing.fleet import SPACE, objective
if __name__ == "__main__":
    engine, trials, workers, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    study = Study(SPACE, surrogate="random", seed=0, storage=path, name="measured")
    began = time.monotonic()
    study.optimize(objective, trials, executor=engine, workers=workers)
    print("RESULT", json.dumps(time.monotonic() - began))
"""


def engines(options: argparse.Namespace) -> dict[str, Any]:
    """What a user sees: one call of optimize, the engine's start and end included; and where the time went."""
    result = {}
    for engine in options.engines:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "script.py").write_text(ENGINE)
            path = str(folder / "study.db")
            fleet = Fleet(path, folder, name="measured", trials=options.trials, seconds=options.evaluation)
            python = [sys.executable, "script.py"]
            if engine == "mpi":
                mpi = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", str(options.workers + 1)]
                python = [*mpi, sys.executable, "-m", "mpi4py.futures", "script.py"]
            command = [*python, engine, str(options.trials), str(options.workers), path]
            done = subprocess.run(
                command, cwd=folder, env=fleet._environment, capture_output=True, text=True, timeout=600
            )
            line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), None)
            if line is None:
                raise SystemExit(f"{engine}: {done.stdout}\n{done.stderr}")
            whole, serial = json.loads(line.removeprefix("RESULT")), options.trials * options.evaluation
            with closing(open_storage(path)) as storage:
                events = [payload for _, payload in storage.read("measured")]
            asked = {p["number"]: p["at"] for p in events if p["type"] == "suggested"}
            told = {p["number"]: p["at"] for p in events if p["type"] == "told"}
            running = max(told.values()) - min(asked.values())
            # The first trial of each worker waits for its process to start and to import the objective.
            there = {n: told[n] - asked[n] - options.evaluation for n in asked}
            first, later = sorted(there)[: options.workers], sorted(there)[options.workers :]
            warm = max(told.values()) - max(told[n] for n in first)
            result[engine] = {
                "workers": options.workers, "serial seconds": serial,
                "seconds, start and end of the engine included": round(whole, 2),
                "seconds from the first suggestion to the last value": round(running, 2),
                "speed-up, all included": round(serial / whole, 2), "speed-up": round(serial / running, 2),
                "speed-up, once every worker has had a trial": round(
                    sum(told[n] > max(told[m] for m in first) for n in later) * options.evaluation / warm, 2
                ),
                "way there and back, first trials, ms": round(1e3 * statistics.mean(there[n] for n in first), 1),
                "way there and back, later trials, median ms": round(
                    1e3 * statistics.median(there[n] for n in later), 1
                ),
                **fleet.account(),
            }  # fmt: skip
    return result


def many(options: argparse.Namespace) -> dict[str, Any]:
    """Each step in a process of its own, so that its memory is its own."""
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for step in ("fill", "open", "bulk", "open bulk"):
            command = [sys.executable, __file__, "step", step, str(folder), "--trials", str(options.trials)]
            done = subprocess.run([*command, "--values", str(options.values)], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            result |= json.loads(done.stdout)
        result["one commit on this disk, ms"] = round(1e3 * commit_seconds(folder), 2)
    return result | {"faults": {}}


def step(options: argparse.Namespace) -> None:
    import numpy as np

    import presage

    folder = Path(options.folder)
    space = presage.Space({
        "x": presage.Float(0, 1), "lr": presage.Float(1e-5, 1, log=True), "n": presage.Int(1, 1000),
        "c": presage.Choice(["a", "b", "c"]),
    })  # fmt: skip

    def timed(action: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
        wall, cpu = time.perf_counter(), time.process_time()
        value = action()
        return value, {
            "seconds": round(time.perf_counter() - wall, 2), "CPU seconds": round(time.process_time() - cpu, 2)
        }  # fmt: skip

    def memory() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    if options.step == "fill":  # as a study would have grown, but in few commits
        storage = open_storage(folder / "many.db")
        study = presage.Study(space, storage=storage, surrogate="random", seed=0, name="many")
        points = space.project(np.random.default_rng(0).random((options.trials, space.dim)))
        owner = "a-host-with-a-name/b00t1234-4026531836:12345:678901:loop-abcdef12"
        events = []
        for number, point in enumerate(points):
            at = time.time()
            events.append({
                "type": "suggested", "number": number, "params": space.decode(point), "source": "random",
                "seen": 1 + 2 * number, "owner": owner, "at": at, "latency": 0.000213,
            })  # fmt: skip
            events.append({"type": "told", "number": number, "values": [float(point[0])], "at": at})
        claims = [f"{what}:{number}" for number in range(options.trials) for what in ("number", "told")]
        _, spent = timed(lambda: storage.append("many", events, claims=claims))
        out = {f"{options.trials} trials written at once": spent}
    elif options.step == "open":
        study, spent = timed(lambda: presage.load_study(folder / "many.db"))
        first, second = timed(study.ask)
        study.tell(first, 0.5)
        times: dict[str, list[float]] = {"ask": [], "tell": []}
        cpu = time.process_time()
        for _ in range(100):
            began = time.perf_counter()
            trial = study.ask()
            times["ask"].append(time.perf_counter() - began)
            began = time.perf_counter()
            study.tell(trial, 0.5)
            times["tell"].append(time.perf_counter() - began)
        cpu = (time.process_time() - cpu) / 200
        out = {
            f"{options.trials} trials opened": spent | {"memory, MB": memory()}, "first ask": second,
            **{f"{what}, median ms": round(1e3 * float(np.median(t)), 2) for what, t in times.items()},
            "ask or tell, CPU ms": round(1e3 * cpu, 2),
        }  # fmt: skip
    elif options.step == "bulk":
        study = presage.Study(space, storage=folder / "bulk.db", surrogate="random", seed=0)
        points = space.project(np.random.default_rng(0).random((options.values, space.dim)))
        params = [space.decode(point) for point in points]
        values = [float(point[0]) for point in points]
        _, spent = timed(lambda: study.tell_many(params, values))
        out = {f"{options.values} values imported": spent | {"memory, MB": memory()}}
    else:
        study, spent = timed(lambda: presage.load_study(folder / "bulk.db"))
        assert len(study.trials) == options.values
        out = {f"{options.values} values opened": spent | {"memory, MB": memory()}}
    print(json.dumps(out))


def fuzz(options: argparse.Namespace) -> dict[str, Any]:
    from presage.testing.fuzz import fuzz_files, fuzz_payloads

    first = options.cases // 10  # a file takes ten times as long as a payload
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        files = fuzz_files(Path(folder), first, options.seed)
    payloads = fuzz_payloads(options.cases - first, options.seed)
    faults = {"crashes, hangs or anything executed": len(files.faults) + len(payloads.faults)}
    shown = [*files.faults, *payloads.faults][:10]
    return {
        "cases": files.cases + payloads.cases, "refused with an error": files.refused + payloads.refused,
        "read all the same": files.read + payloads.read,
        "slowest, seconds": round(max(files.slowest, payloads.slowest), 3),
        "seconds": round(time.monotonic() - began, 1), "faults": faults, "shown": shown,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("throughput", "kills", "restarts", "partition", "engines", "many", "fuzz", "step"):
        command = commands.add_parser(name)
        command.add_argument("--seed", type=int, default=0)
        if name in ("throughput", "kills"):
            command.add_argument("--storages", nargs="+", default=["sqlite", "postgres"])
        if name in ("throughput", "kills", "restarts"):
            command.add_argument("--workers", type=int, default=16)
            command.add_argument("--trials", type=int, default=5000)
        if name == "kills":
            command.add_argument("--seconds", type=float, default=120.0)
        if name == "restarts":
            command.add_argument("--restarts", type=int, default=10)
        if name == "partition":
            command.add_argument("--trials", type=int, default=150)
            command.add_argument("--evaluation", type=float, default=2.0)  # so that the cut hits trials under way
            command.add_argument("--cut", type=float, default=30.0)
        if name == "engines":
            command.add_argument("engines", nargs="+", choices=["dask", "ray", "mpi"])
            command.add_argument("--trials", type=int, default=40)
            command.add_argument("--workers", type=int, default=4)
            command.add_argument("--evaluation", type=float, default=1.0)
        if name in ("many", "step"):
            command.add_argument("--trials", type=int, default=100_000)
            command.add_argument("--values", type=int, default=1_000_000)
        if name == "fuzz":
            command.add_argument("--cases", type=int, default=100_000)
        if name == "step":
            command.add_argument("step")
            command.add_argument("folder")
    options = parser.parse_args()
    if options.command == "step":
        step(options)
        return
    if options.command == "partition" and (os.getuid() or not shutil.which("ip")):
        raise SystemExit("network namespaces need root and the program ip")
    about = {"command": " ".join(["python benchmarks/workers.py", *sys.argv[1:]]), "machine": machine()}
    found = globals()[options.command](options)
    accounts = (
        [found]
        if "faults" in found
        else [a for part in found.values() for a in (part if isinstance(part, list) else [part])]
    )
    result = about | {"result": found}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"workers_{options.command}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    faults = [broken(account) for account in accounts if broken(account)]
    if faults:
        raise SystemExit(f"broken: {faults}")


if __name__ == "__main__":
    main()
