"""Figure 12 of the first seed with other libraries beside it; everything else of that seed is `presage reproduce s1`.

    python benchmarks/s1.py run hmc --seeds 10        # also gp, cauchy and skopt (needs scikit-optimize)
    python benchmarks/s1.py table

Traces are kept in benchmarks/results/s1_<method>.json; what is there is not run again.
"""

import argparse
import json
import math
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from presage.experiments.s1 import BUDGETS, problem, start, surrogate, trace  # noqa: F401  some for s1_gpu.py

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def skopt(method: str, name: str, seed: int) -> dict:
    """A trace by scikit-optimize at its defaults."""
    from skopt import gp_minimize

    space, f, _ = problem(name)
    given, trials = start(name, seed), BUDGETS[name][1]
    wall, processor = time.perf_counter(), time.process_time()
    found = gp_minimize(
        lambda x: f(space.decode(np.array(x))), [(0.0, 1.0)] * space.dim, x0=given.tolist(), n_initial_points=0,
        n_calls=trials, random_state=seed,
    )  # fmt: skip
    return {
        "values": [float(f"{v:.10g}") for v in found.func_vals], "seconds": round(time.perf_counter() - wall, 2),
        "processor": round(time.process_time() - processor, 2),
    }  # fmt: skip


def run(method: str, names: list[str], seeds: int, limit: float) -> None:
    """Run what is missing, as far as time allows, and write it down after every trace."""
    import warnings

    warnings.simplefilter("ignore")
    output = RESULTS / f"s1_{method}.json"
    done = json.loads(output.read_text()) if output.exists() else {"traces": {}}
    packages = ["scikit-optimize"] if method == "skopt" else ["presage", "numpy", "jax"]
    done |= {
        "command": f"python benchmarks/s1.py run {method}", "cores": os.cpu_count(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }  # fmt: skip
    began = time.perf_counter()
    for seed in range(seeds):
        for name in names:
            if str(seed) in done["traces"].get(name, {}) or time.perf_counter() - began > limit:
                continue
            row = (skopt if method == "skopt" else trace)(method, name, seed)
            done["traces"].setdefault(name, {})[str(seed)] = row
            output.write_text(json.dumps(done) + "\n")
            regret = min(row["values"]) - problem(name)[2]
            print(method, name, seed, f"regret {regret:.3g}", row["processor"], flush=True)


def table() -> None:
    """Medians and quartiles of the regret."""
    for name in BUDGETS:
        for path in sorted(RESULTS.glob("s1_*.json")):
            traces = json.loads(path.read_text()).get("traces", {}).get(name, {})
            if traces:
                regret = [min(row["values"]) - problem(name)[2] for row in traces.values()]
                low, middle, high = np.quantile(regret, [0.25, 0.5, 0.75])
                good = sum(r < 0.01 for r in regret)
                spread = f"median {middle:.3g} ({low:.2g} to {high:.2g}), {good} within 0.01"
                print(f"{name:15s} {path.stem[3:]:7s} {len(regret):3d} repeats: {spread}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("method", nargs="?", choices=["hmc", "gp", "auto", "cauchy", "skopt"], default="hmc")
    parser.add_argument("--problems", nargs="*", default=list(BUDGETS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no trace is begun")
    arguments = parser.parse_args()
    if arguments.action == "run":
        run(arguments.method, arguments.problems, arguments.seeds, arguments.limit)
    else:
        table()


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
