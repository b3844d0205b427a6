"""S2's design task: an ensemble's (L, D, N, p) by Bayesian optimisation with an integrated acquisition.

    PYTHONPATH=src python benchmarks/s2_design.py --experiment 1      # or 2; results/s2_design_1.json and a figure

As in the document: a Gaussian process with Matern 5/2, mean halfway between the least and the average loss,
half-Cauchy priors on all hyperparameters, slice sampling, expected improvement averaged over the samples. The loss
is the Euclidean distance of predictions from fresh test values. Unlike there, the acquisition is climbed instead of
taken at random candidates, members are trained by Adam with a rate of 0.01 (the same stopping rule), and there are
fewer samples of the hyperparameters. What noise alone would cost is told beside: the loss of the true function.
"""

import argparse
import time
from typing import Any

import numpy as np
import record

from presage import Float, Int, Space, Study
from presage.kernels import Matern
from presage.means import HalfwayMean
from presage.networks.ensemble import EnsembleDesign
from presage.priors import HalfCauchy
from presage.surrogates import GaussianProcess
from presage.surrogates.hyperparameters import Slice

NOISE = 5.0
DOCUMENT = {1: {"L": 5, "D": 15, "N": 23, "p": 0.949}, 2: {"L": 7, "D": 7, "N": 30, "p": 0.73}}


def first(x: np.ndarray) -> np.ndarray:
    """Five pieces, two of them jumping."""
    pieces = [x, -x, x, (x + 5.0) ** 2 - 7.0, x**2 * np.sin(2.0 * x)]
    return np.select([x < -10.0, x < -8.0, x < -6.0, x < 2.0, x >= 2.0], pieces)


def second(x: np.ndarray) -> np.ndarray:
    return 10.0 - 140.0 * x + 400.0 * x**2 - 250.0 * x**3


EXPERIMENTS: dict[int, dict[str, Any]] = {
    1: {"f": first, "bounds": (-14.0, 11.0), "n": 150, "steps": 5000, "layers": 5, "width": 15},
    2: {"f": second, "bounds": (0.0, 1.0), "n": 100, "steps": 2000, "layers": 10, "width": 10},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiment", type=int, choices=(1, 2), required=True)
    parser.add_argument("--trials", type=int, default=15)
    parser.add_argument("--samples", type=int, default=100, help="of the hyperparameters")
    parser.add_argument("--penalty", type=float, default=0.0, help="loss added for every factor e in the weights")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    setting = EXPERIMENTS[args.experiment]
    rng = np.random.default_rng([args.seed, args.experiment])
    x, at = (rng.uniform(*setting["bounds"], setting["n"]) for _ in range(2))
    y, test = (setting["f"](points) + NOISE * rng.standard_normal(len(points)) for points in (x, at))
    space = Space({
        "L": Int(1, setting["layers"]), "D": Int(1, setting["width"]), "N": Int(1, 30), "p": Float(0.01, 1.0),
    })  # fmt: skip
    surrogate = GaussianProcess(
        Matern(lengthscale=HalfCauchy(), variance=HalfCauchy()), HalfwayMean(), noise=HalfCauchy(), warp=None,
        hyperparameters=Slice(args.samples),
    )  # fmt: skip
    study = Study(space, surrogate=surrogate, acquisition="ei", initial=2, seed=args.seed)

    def loss(params: dict[str, Any]) -> float:
        design = EnsembleDesign(params["L"], params["D"], params["N"], params["p"], steps=setting["steps"])
        found = float(np.linalg.norm(design.fit(x[:, None], y, seed=args.seed).predict(at[:, None])[0] - test))
        layers = params["L"] * params["D"] ** 2
        return found + args.penalty * float(np.log(params["N"] * params["p"] * layers))

    trials = []
    for _ in range(args.trials):
        began = time.perf_counter()
        trial = study.ask()
        study.tell(trial, loss(trial.params))
        trials.append({**trial.params, "loss": study.trials[-1].value, "seconds": time.perf_counter() - began})
        print(trials[-1], flush=True)
    best = min(trials, key=lambda one: one["loss"])
    told = {
        "experiment": args.experiment, "best": best, "iteration": trials.index(best), "trials": trials,
        "document": {**DOCUMENT[args.experiment], "loss": loss(DOCUMENT[args.experiment])},
        "true function": float(np.linalg.norm(setting["f"](at) - test)),
        "constant": float(np.linalg.norm(y.mean() - test)),
    }  # fmt: skip
    print({name: told[name] for name in ("best", "iteration", "document", "true function", "constant")})
    record.write(f"s2_design_{args.experiment}", told, ("presage", "numpy", "jax"))
    figure(args.experiment, trials)


def figure(experiment: int, trials: list[dict[str, Any]]) -> None:
    """What was tried, in order, and its loss."""
    from presage.plots._style import BLUE, VERMILION
    from presage.plots._style import figure as frame

    with frame(1, 5, size=(10.0, 2.2), sharex=True) as (made, axes):
        for ax, name in zip(axes[0], ("L", "D", "N", "p", "loss"), strict=True):
            values = [one[name] for one in trials]
            ax.plot(values, "o-", color=BLUE, markersize=3, linewidth=0.8)
            best = int(np.argmin([one["loss"] for one in trials]))
            ax.plot(best, values[best], "o", color=VERMILION)
            ax.set_title(name)
            ax.set_xlabel("iteration")
        made.savefig(record.FIGURES / f"s2_design_{experiment}.png", dpi=80)


if __name__ == "__main__":
    main()
