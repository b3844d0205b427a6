"""The best expected improvement among a million random points, over trees and sampled networks, on an accelerator.

    PYTHONPATH=src:benchmarks python benchmarks/maximiser_points.py FOLDER points.json

FOLDER holds the posteriors that benchmarks/maximiser.py kept. They are written once more here, in JAX, and compared
with what presage itself says of the first thousand points.
"""

import argparse
import json
import lzma
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from maximiser import domain_of

CHUNK = 50_000


def leaves_of(trees: Any) -> Callable[[jax.Array], jax.Array]:
    """From features [n, D] to leaves [trees, n]."""
    depth = int(trees.ancestry()[1].max())
    feature, threshold, child, root = (jnp.asarray(array) for array in trees)

    def descend(x: jax.Array) -> jax.Array:
        rows = jnp.arange(len(x))
        node = jnp.broadcast_to(root[:, None], (len(root), len(x)))
        step = lambda _, node: child[2 * node + (x[rows, feature[node]] > threshold[node])]  # noqa: E731
        return jax.lax.fori_loop(0, depth, step, node)

    return descend


def forest(posterior: Any) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Mean and variance of one Gaussian."""
    of, descend = posterior.leaves, leaves_of(posterior.leaves.trees)
    means, centers, variances, reach, weight = (
        jnp.asarray(array) for array in (of.mean, of.center, of.variance, of.reach, of.weight)
    )

    def law(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        leaves = descend(x)
        square = sum((x[:, j] - centers[j][leaves]) ** 2 for j in range(x.shape[1]))
        spread = variances[leaves] * square / (square + reach[leaves])
        within = jnp.maximum(posterior.inflation * spread + posterior.observation_noise / weight[leaves], 1e-12)
        mean = means[leaves].mean(axis=0)
        return mean, within.mean(axis=0) + ((means[leaves] - mean) ** 2).mean(axis=0)

    return law


def boosted(posterior: Any) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Means and variances of the models, [models, n]."""
    prior, descend = posterior.prior, leaves_of(posterior.prior.trees)
    value, first, score, seen = (jnp.asarray(a) for a in (prior.value, prior.first, prior.score, prior.seen))

    def law(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        leaves = descend(x).reshape(len(first), -1, len(x))
        total = jax.lax.fori_loop(
            0, leaves.shape[1], lambda i, sofar: sofar + value[leaves[:, i]],
            jnp.zeros((len(first), len(x), value.shape[1])),
        )  # fmt: skip
        quantiles = jnp.sort(total + first[:, None], axis=2)
        variance = jnp.maximum((quantiles @ score / (score @ score)) ** 2, 1.0 / seen[:, None] ** 2)
        return quantiles.mean(axis=2), jnp.maximum(posterior.inflation * variance, 1e-12)

    return law


def networks(posterior: Any) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Mean and variance of one Gaussian."""
    hidden = jax.tree.map(jnp.asarray, posterior.hidden)
    mean, root, weight = (
        jnp.asarray(a) for a in (posterior.regression.mean, posterior.regression.root, posterior.weight)
    )

    def law(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        basis = posterior.table.network.basis(hidden, x, jnp)
        means = jnp.einsum("smp,sp->sm", basis, mean)
        white = jnp.einsum("smp,sqp->smq", basis, root)
        variances = (white**2).sum(axis=2)
        middle = weight @ means
        return middle, weight @ (variances + (means - middle) ** 2)

    return law


def best_of(
    kind: str, d: int, posterior: Any, best: float, points: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The largest value, and how far the first thousand are from presage's own."""
    from presage.acquisitions import Context, LogExpectedImprovement
    from presage.acquisitions.improvement import log_improvement
    from presage.kernels import features
    from presage.surrogates.trees import inputs

    name, domain = type(posterior).__name__, domain_of(kind, d)
    law = {"ForestPosterior": forest, "BoostedPosterior": boosted, "NetworkPosterior": networks}[name](posterior)
    to = features if name == "NetworkPosterior" else inputs

    compiled = jax.jit(law)

    def values(x: np.ndarray) -> np.ndarray:
        mean, variance = (np.atleast_2d(part) for part in compiled(jnp.asarray(x, dtype=jnp.float64)))
        stddev = np.sqrt(variance)
        worth = np.log(stddev) + log_improvement((best - mean) / stddev)[0]
        return np.logaddexp.reduce(worth, axis=0) - np.log(len(worth))

    most, error = -np.inf, np.nan
    for done in range(0, points, CHUNK):
        x = domain.random(CHUNK, rng)
        found = values(to(x, domain.columns))
        if not done:
            own = LogExpectedImprovement().values(posterior, x[:1000], Context(best))
            error = float(np.abs(np.exp(found[:1000] - own.max()) - np.exp(own - own.max())).max())
        most = max(most, float(found.max()))
    return most, error


def main() -> None:
    """Run, print, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--points", type=int, default=1_000_000)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    told = {}
    for path in sorted(arguments.folder.glob("*.pickle"), key=lambda path: int(path.stem)):
        began = time.perf_counter()
        kept = pickle.loads(lzma.decompress(path.read_bytes()))  # noqa: S301, written by maximiser.py
        most, error = best_of(*kept, arguments.points, np.random.default_rng([3, int(path.stem)]))
        told[path.stem] = {"random": most, "points": arguments.points, "error": error}
        arguments.out.write_text(json.dumps(told))
        print(path.stem, type(kept[2]).__name__, kept[:2], told[path.stem], f"{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
