"""Regret after a fixed number of evaluations, presage against BoTorch, from the same starting points.

    python benchmarks/regret.py run presage --seeds 20
    python benchmarks/regret.py run botorch --seeds 20
    python benchmarks/regret.py table

Traces are kept in benchmarks/results/regret_<method>.json, so that a method is run once and compared often.
"""

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"


def presage_trace(problem: str, seed: int) -> list[float]:
    """Values in the order of evaluation."""
    from problems import PROBLEMS

    import presage

    p = PROBLEMS[problem]
    f = p.make(seed)
    start = p.start(seed)
    study = presage.Study(f.space, seed=seed, initial=len(start))
    for point in start:
        study.enqueue(f.space.decode(point))
    return [t.value for t in study.optimize(f, trials=p.trials).trials]


def botorch_trace(problem: str, seed: int) -> list[float]:
    """Values in the order of evaluation."""
    import torch
    from peer_botorch import suggest
    from problems import PROBLEMS

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    p = PROBLEMS[problem]
    f = p.make(seed)
    x = p.start(seed)
    y = np.array([f(f.space.decode(point)) for point in x])
    while len(y) < p.trials:
        x = np.vstack([x, suggest(x, y)])
        y = np.append(y, f(f.space.decode(x[-1])))
    return y.tolist()


TRACES = {"presage": presage_trace, "botorch": botorch_trace}


def _one(job: tuple[str, str, int]) -> tuple[str, int, list[float], float]:
    method, problem, seed = job
    began = time.perf_counter()
    values = TRACES[method](problem, seed)
    return problem, seed, values, time.perf_counter() - began


def run(method: str, problems: list[str], seeds: int, jobs: int, output: Path) -> None:
    """Run what is missing of a method and write it down after every trace."""
    done = json.loads(output.read_text()) if output.exists() else {"traces": {}}
    done |= {"method": method, "versions": versions(method), "cores": os.cpu_count(), "threads": 1}
    done["command"] = f"python benchmarks/regret.py run {method} --seeds {seeds}"
    missing = [(method, p, s) for s in range(seeds) for p in problems if str(s) not in done["traces"].get(p, {})]
    with ProcessPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(_one, job) for job in missing]):
            problem, seed, values, seconds = future.result()
            row = {"values": [float(f"{v:.10g}") for v in values], "seconds": round(seconds, 3)}
            done["traces"].setdefault(problem, {})[str(seed)] = row
            output.write_text(json.dumps(done) + "\n")
            print(f"{method} {problem} seed {seed}: best {min(values):.5g} in {seconds:.1f} s", flush=True)


def versions(method: str) -> dict[str, str]:
    """What was measured."""
    import platform
    from importlib.metadata import version

    names = ["presage", "numpy", "scipy"] if method == "presage" else ["botorch", "gpytorch", "torch"]
    found = {"python": platform.python_version(), **{name: version(name) for name in names}}
    if method == "presage":
        from presage.benchmarks.methods import code

        found["code"] = code()
    return found


def table(output: Path | None = None) -> None:
    """Median regrets side by side, and a paired sign count."""
    from problems import PROBLEMS

    ours, theirs = (
        json.loads((path).read_text())
        for path in (output or RESULTS / "regret_presage.json", RESULTS / "regret_botorch.json")
    )
    print(
        "| problem | trials | seeds | presage median (quartiles) | BoTorch median (quartiles) | ours better | seconds |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, p in PROBLEMS.items():
        a, b = ours["traces"].get(name, {}), theirs["traces"].get(name, {})
        common = sorted(set(a) & set(b), key=int)
        if not common:
            continue
        regret = np.array([[min(t[s]["values"]) - p.make(int(s)).minimum for s in common] for t in (a, b)])
        cells = [f"{np.median(r):.3g} ({np.quantile(r, 0.25):.2g} to {np.quantile(r, 0.75):.2g})" for r in regret]
        wins = int((regret[0] < regret[1]).sum())
        seconds = " : ".join(f"{np.median([t[s]['seconds'] for s in common]):.1f}" for t in (a, b))
        print(
            f"| {name} | {p.trials} | {len(common)} | {cells[0]} | {cells[1]} | {wins} of {len(common)} | {seconds} |"
        )


def main() -> None:
    """The command line."""
    from problems import PROBLEMS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("method", nargs="?", choices=list(TRACES), default="presage")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if arguments.action == "table":
        return table(arguments.output)
    output = arguments.output or RESULTS / f"regret_{arguments.method}.json"
    return run(arguments.method, arguments.problems, arguments.seeds, arguments.jobs, output)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    main()
