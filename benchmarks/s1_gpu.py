"""The optimisation experiments of the first seed, all repeats at once: one batched sampler serves every study.

    PYTHONPATH=src python benchmarks/s1_gpu.py --out FOLDER --seeds 50        # on one accelerator
    PYTHONPATH=src python benchmarks/s1_gpu.py --out FOLDER --seeds 1 --trials 8 --workers 2   # a trial run anywhere

Studies run as in benchmarks/s1.py, in processes of their own, several to a process. Where a fit would run its chains it
sends the request to the parent, which waits until every study that is not finished has sent one, and answers all of
them by one program: chains of every study side by side, padded to one number of rows. Writes s1_<method>.json.
"""

import argparse
import json
import os
import platform
import queue
import threading
import time
import warnings
from importlib.metadata import version
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

import numpy as np

METHODS = {
    "hmc": ("forrester", "rosenbrock", "mccormick", "six_hump_camel", "cliff"),
    "cauchy": ("cliff",),
}
ROWS = 48  # that every request is padded to


def worker(pipe: Any, jobs: list[tuple[str, str, int]], trials: int | None) -> None:
    """Run studies in threads; their requests and results go through one pipe."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    warnings.simplefilter("ignore")
    from s1 import BUDGETS, problem, start, surrogate

    import presage
    from presage.surrogates import HMCNetwork

    answers: dict[int, queue.Queue] = {i: queue.Queue() for i in range(len(jobs))}
    lock, mine = threading.Lock(), threading.local()

    def send(message: tuple) -> None:
        with lock:
            pipe.send(message)

    def elsewhere(self: Any, network: Any, data: Any, begin: Any, step: float, mass: Any, *more: Any) -> Any:
        rng, *counts = more
        kind = (network, self.sampler, self.draws, self.dtype)
        send(("run", mine.index, kind, data, begin, step, mass, int(rng.integers(2**31)), *counts))
        return answers[mine.index].get()

    sample = HMCNetwork._sample

    def counted(self: Any, *arguments: Any) -> Any:
        found = sample(self, *arguments)
        mine.fits += 1
        mine.fallbacks += "fallback" in found.diagnostics
        return found

    HMCNetwork._run = elsewhere  # type: ignore[method-assign]
    HMCNetwork._sample = counted  # type: ignore[method-assign]

    def one(index: int) -> None:
        method, name, seed = jobs[index]
        mine.index, mine.fits, mine.fallbacks = index, 0, 0
        try:
            space, f, _ = problem(name)
            given = start(name, seed)
            study = presage.Study(space, seed=seed, initial=len(given), surrogate=surrogate(method))
            for point in given:
                study.enqueue(space.decode(point))
            values = []
            for _ in range(min(trials or 10**9, BUDGETS[name][1])):
                trial = study.ask()
                values.append(f(trial.params))
                study.tell(trial, values[-1])
            send(("done", index, values, mine.fits, mine.fallbacks))
        except BaseException as error:
            send(("failed", index, repr(error)))
            raise

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            if pipe.poll(0.5):
                index, found = pipe.recv()
                answers[index].put(found)
        except EOFError:  # the parent has all it waited for
            return
    pipe.close()


def answer(requests: list[tuple], size: int) -> list[Any]:
    """Run the chains of requests of one kind together; `size` is the number of places in the program."""
    import jax
    import jax.numpy as jnp

    from presage.inference.chains import run_apart

    network, sampler, draws, dtype = requests[0][2]
    chosen = requests + [requests[0]] * (size - len(requests))
    with jax.enable_x64(dtype == "float64"):
        rows = [tuple(_padded(np.asarray(part)) for part in r[3]) for r in chosen]
        data = type(requests[0][3])(*(jnp.asarray(np.stack(parts)) for parts in zip(*rows, strict=True)))
        arrays = [jnp.asarray(np.stack([np.asarray(r[i], dtype) for r in chosen])) for i in (4, 5, 6)]
        keys = jax.vmap(jax.random.key)(jnp.asarray([r[7] for r in chosen]))
        counts = [jnp.asarray([r[i] for r in chosen]) for i in (8, 9, 10)]

        def program(data: Any, begin: Any, step: Any, mass: Any, key: Any, warmup: Any, thin: Any, learned: Any) -> Any:
            of = (sampler, network, data, begin, step, mass, key, warmup, thin)
            return run_apart(*of, draws=draws, learned=learned, spread=lambda run, *each: jax.vmap(run)(*each))

        found = jax.tree.map(np.asarray, _batched(program, requests[0][2], size)(data, *arrays, keys, *counts))
    return [jax.tree.map(lambda a, i=i: a[i], found) for i in range(len(requests))]


_programs: dict[Any, Any] = {}


def _batched(program: Any, kind: Any, size: int) -> Any:
    import jax

    return _programs.setdefault((kind, size), jax.jit(jax.vmap(program)))


def _padded(part: np.ndarray) -> np.ndarray:
    """Rows up to ROWS; those that are added do not count."""
    part = part[:ROWS]
    return np.pad(part, ((0, ROWS - len(part)), *((0, 0),) * (part.ndim - 1)))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--trials", type=int, help="at most, for a trial run")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--limit", type=float, default=540.0, help="seconds after which what is finished is written")
    options = parser.parse_args()
    import jax

    began = time.perf_counter()
    context = get_context("spawn")
    jobs = [(m, name, seed) for m, names in METHODS.items() for name in names for seed in range(options.seeds)]
    shares = [jobs[i :: options.workers] for i in range(options.workers)]
    pipes, place = [], {}
    for share in shares:
        ours, theirs = context.Pipe()
        context.Process(target=worker, args=(theirs, share, options.trials), daemon=True).start()
        theirs.close()
        place[ours] = share
        pipes.append(ours)
    traces: dict[str, dict[str, dict[str, Any]]] = {m: {} for m in METHODS}
    alive, waiting, sizes, rounds = len(jobs), [], {}, 0
    while alive and time.perf_counter() - began < options.limit:
        for pipe in connection.wait(pipes, timeout=5.0):
            try:
                message = pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                pipes.remove(pipe)  # type: ignore[arg-type]
                continue
            if message[0] == "run":
                waiting.append((pipe, message))
                continue
            alive -= 1
            if message[0] == "failed":
                print("failed", place[pipe][message[1]], message[2], flush=True)  # type: ignore[index]
                continue
            method, name, seed = place[pipe][message[1]]  # type: ignore[index]
            row = {"values": [float(f"{v:.10g}") for v in message[2]], "fits": message[3], "fallbacks": message[4]}
            traces[method].setdefault(name, {})[str(seed)] = row
        if not waiting or len(waiting) < alive:
            continue
        kinds: dict[Any, list[tuple]] = {}
        for pipe, message in waiting:
            kinds.setdefault(message[2], []).append((pipe, message))
        waiting, at = [], time.perf_counter()
        for kind, group in kinds.items():
            size = sizes.setdefault(kind, len(group))
            size = sizes[kind] = max(size, len(group))
            for (pipe, message), found in zip(group, answer([m for _, m in group], size), strict=True):
                pipe.send((message[1], found))
        rounds += 1
        print(f"round {rounds}: {sum(map(len, kinds.values()))} fits of {alive} studies in "
              f"{time.perf_counter() - at:.1f} s, {time.perf_counter() - began:.0f} s in all", flush=True)  # fmt: skip
    versions = {name: version(name) for name in ("jax", "numpy", "scipy")} | {"python": platform.python_version()}
    options.out.mkdir(parents=True, exist_ok=True)
    for method, by_name in traces.items():
        record = {
            "command": f"PYTHONPATH=src python benchmarks/s1_gpu.py --out FOLDER --seeds {options.seeds}",
            "versions": versions, "device": str(jax.devices()[0].device_kind), "cores": os.cpu_count(),
            "seconds": round(time.perf_counter() - began, 1), "traces": by_name,
        }  # fmt: skip
        (options.out / f"s1_{method}.json").write_text(json.dumps(record) + "\n")
        print(method, {name: len(rows) for name, rows in by_name.items()})


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    main()
