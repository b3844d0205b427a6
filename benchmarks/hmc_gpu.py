"""Networks sampled on one accelerator: transitions and leapfrogs per second, and how well the chains agree.

    PYTHONPATH=src python benchmarks/hmc_gpu.py --out FOLDER

Two cases on sin(7x) + cos(17x), 200 values with noise 0.1: 64 chains of a 3x50 network, and 4 and 64 chains of a 3x512
network (528,000 weights each), float32 throughout, output layers integrated out. Needs presage's source and JAX.
"""

import argparse
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from presage.inference.chains import run
from presage.inference.diagnostics import ess, r_hat
from presage.inference.laws import LogNormal
from presage.inference.network import Data, Network, Weights
from presage.inference.samplers import HMC

NOISE = 0.01


def problem(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and noisy values of S1's function."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (count, 1))
    return x, np.sin(7 * x[:, 0]) + np.cos(17 * x[:, 0]) + 0.1 * rng.standard_normal(count)


def functions(network: Network, positions: jax.Array, data: Data, grid: jax.Array, key: jax.Array) -> jax.Array:
    """Function values of drawn networks at the grid, [t, c, g], a draw of each output layer included."""

    def one(position: jax.Array, key: jax.Array) -> jax.Array:
        weights: Weights = network.weights(position, jnp)
        basis = network.basis(weights, data.x, jnp)
        K = basis @ basis.T + NOISE * jnp.eye(len(basis))
        # Matheron's rule: a draw from the prior of the output layer, corrected by what the data say of its errors.
        first, second = jax.random.split(key)
        prior = jax.random.normal(first, (basis.shape[1],))
        error = data.y - basis @ prior - jnp.sqrt(NOISE) * jax.random.normal(second, (len(basis),))
        output = prior + basis.T @ jax.scipy.linalg.solve(K, error, assume_a="pos")
        return network.basis(weights, grid, jnp) @ output

    keys = jax.random.split(key, positions.shape[:2])
    return jax.lax.map(lambda args: jax.vmap(one)(*args), (positions, keys))


def measure(widths: tuple[int, ...], chains: int, count: int, warmup: int, draws: int, leapfrogs: int) -> dict:
    """Times of one run, and the function-space diagnostics of its draws."""
    x, y = problem(count)
    scales = (LogNormal(4.0), *(LogNormal(1.0),) * len(widths))
    network = Network(1, widths, weight=scales, bias=(4.0, *(1.0,) * len(widths)), noise=LogNormal(NOISE))
    data = Data(*(jnp.asarray(a, jnp.float32) for a in (x, y, np.zeros(count))), jnp.ones(count, bool))
    start = jnp.asarray(network.draw(chains, np.random.default_rng(1)), jnp.float32)
    sampler, mass, key = HMC(most=leapfrogs), jnp.ones(network.size), jax.random.key(0)
    began = time.perf_counter()
    program = run.lower(sampler, network, data, start, 0.02, mass, key, warmup, 1, draws=draws).compile()
    compiled = time.perf_counter()
    found = jax.block_until_ready(program(data, start, 0.02, mass, key, warmup, 1))
    ended = time.perf_counter()
    grid = jnp.linspace(-1.0, 1.0, 100)[:, None]
    values = np.asarray(jax.jit(functions, static_argnums=0)(network, found.positions, data, grid, jax.random.key(1)))
    effective, seconds = ess(values), ended - compiled
    mean, stddev = values.mean(axis=(0, 1)), values.std(axis=(0, 1))
    truth = np.sin(7 * np.asarray(grid)[:, 0]) + np.cos(17 * np.asarray(grid)[:, 0])
    return {
        "widths": widths, "chains": chains, "values": count, "weights": network.size, "compile_s": compiled - began,
        "run_s": seconds, "transitions": warmup + draws, "gradients_per_chain": int(found.gradients),
        "leapfrogs_per_s": int(found.gradients) / seconds,
        "chain_leapfrogs_per_s": chains * int(found.gradients) / seconds,
        "step": float(found.step), "acceptance": float(found.acceptance), "divergent": int(found.divergent),
        "ess_min": float(effective.min()), "ess_median": float(np.median(effective)),
        "ess_per_s": float(effective.min() / seconds), "r_hat": float(r_hat(values).max()),
        "coverage_two_sigma": float((np.abs(truth - mean) < 2 * stddev).mean()),
    }  # fmt: skip


CASES = {
    "64 chains, 3x50, n = 200": ((50, 50, 50), 64, 200, 150, 100, 256),
    "64 chains, 3x50, n = 20": ((50, 50, 50), 64, 20, 150, 100, 256),
    "4 chains, 3x512, n = 200": ((512, 512, 512), 4, 200, 100, 50, 256),
    "64 chains, 3x512, n = 200": ((512, 512, 512), 64, 200, 40, 20, 128),
}


def main() -> None:
    """Measure and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = {}
    cases = {"quick": ((8, 8), 4, 20, 20, 20, 16)} if arguments.quick else CASES
    for name, case in cases.items():
        rows[name] = measure(*case)
        print(name, json.dumps(rows[name]), flush=True)
        record = {
            "command": "PYTHONPATH=src python benchmarks/hmc_gpu.py", "device": str(jax.devices()[0].device_kind),
            "versions": {"python": platform.python_version(), **{n: version(n) for n in ("jax", "jaxlib", "numpy")}},
            "cases": rows,
        }  # fmt: skip
        (arguments.out / "hmc_gpu.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
