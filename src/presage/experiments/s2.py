"""S2: ensembles of sparse networks, how their variance falls with their number, and their design by a search."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.experiments.base import Experiment, Found, Told, table
from presage.space import Float, Int, Space

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from presage.study import Study

NOISE = 5.0
ROWS, PROBES = 100, np.linspace(0.05, 0.95, 19)
DOCUMENT = {1: {"L": 5, "D": 15, "N": 23, "p": 0.949}, 2: {"L": 7, "D": 7, "N": 30, "p": 0.73}}
ITERATION = {1: 13, 2: 3}  # at which the document found its best


def first(x: np.ndarray) -> np.ndarray:
    """Experiment 1: five pieces, two of them jumping."""
    pieces = [x, -x, x, (x + 5.0) ** 2 - 7.0, x**2 * np.sin(2.0 * x)]
    return np.select([x < -10.0, x < -8.0, x < -6.0, x < 2.0, x >= 2.0], pieces)


def second(x: np.ndarray) -> np.ndarray:
    """Experiment 2: a cubic."""
    return 10.0 - 140.0 * x + 400.0 * x**2 - 250.0 * x**3


SETTINGS: dict[int, dict[str, Any]] = {
    1: {"f": first, "bounds": (-14.0, 11.0), "n": 150, "steps": 5000, "layers": 5, "width": 15},
    2: {"f": second, "bounds": (0.0, 1.0), "n": 100, "steps": 2000, "layers": 10, "width": 10},
}


def experiments(quick: bool, seeds: int | None = None) -> list[Experiment]:
    """Theorem 3.3.1 and both design experiments."""
    law = (60, 8, 300, 0.73) if quick else (160, 16, 600, 0.73)
    search = (6, 40, 10) if quick else (15, 100, 1)
    law_of = Experiment(
        "s2_variance", "Theorem 3.3.1: the variance of an ensemble's mean is rho s^2 + s^2 (1 - rho) / N", (law,),
        variance, _only, tell_variance, draw_variance,
    )  # fmt: skip
    designs = [
        Experiment(
            f"s2_design_{number}", f"Design experiment {number}",
            tuple((number, *search, seed) for seed in range(seeds or 1)), design, _first, tell_design, draw_design,
        )
        for number in DOCUMENT
    ]  # fmt: skip
    return [law_of, *designs]


def _only(found: Found) -> Any:
    (result,) = found.values()
    return result


def _first(found: Found) -> Any:
    """The first seed's search, and what the best of every other seed was."""
    runs = list(found.values())
    return {**runs[0], "seeds": [run["best"] for run in runs]}


# The law.
def variance(sets: int, members: int, steps: int, keep: float) -> dict[str, Any]:
    """Variance of the mean of N members, measured on one half of the data sets and foretold from the other half.

    Over data sets and networks a member's prediction has variance s^2, and two members of one data set have
    correlation rho.
    """
    found = predictions(sets, members, steps, keep)
    half = sets // 2
    each, shared = moments(found[:half])
    sizes = [n for n in (1, 2, 4, 8, 16) if n <= members]
    measured, error, expected = [], [], []
    for n in sizes:
        apart = members // n  # ensembles of n members that have none in common
        means = found[half:, : apart * n].reshape(sets - half, apart, n, -1).mean(axis=2)
        square = ((means - found[half:].mean(axis=(0, 1))) ** 2).mean(axis=(1, 2))
        measured.append(float(square.mean()))
        error.append(float(square.std(ddof=1) / np.sqrt(len(square))))
        expected.append(float((shared + (each - shared) / n).mean()))
    return {
        "sets": sets, "members": sizes, "measured": measured, "stderr": error, "law": expected,
        "variance": float(each.mean()), "correlation": float((shared / each).mean()),
        "shared": float(shared.mean()),
    }  # fmt: skip


def predictions(sets: int, members: int, steps: int, keep: float) -> np.ndarray:
    """Of each member of each data set at the probes, [sets, members, probes]; all are trained in one program."""
    from presage.networks.ensemble import Sparse, member_functions
    from presage.networks.training import Cohort, Table, Training, describe

    rng = np.random.default_rng(0)
    x = rng.random(sets * ROWS)
    y = second(x) + NOISE * rng.standard_normal(len(x))
    rows = [np.arange(s * ROWS, (s + 1) * ROWS) for s in range(sets) for _ in range(members)]
    family, data = Sparse(), Table(x[:, None], y)
    networks = describe(family, [(7, 7)] * len(rows), data, rows, seeds=range(len(rows)), keep=[keep] * len(rows))
    cohort = Cohort.new(family, Training(rate=1e-2, tolerance=1e-4), networks, data).advance(steps)
    return member_functions(cohort).values(PROBES[:, None])[..., 0].reshape(sets, members, len(PROBES))


def moments(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """s^2 and rho s^2 at each probe from [sets, members, probes], by the moments of exchangeable variables."""
    centered = found - found.mean(axis=(0, 1))
    members = found.shape[1]
    each = (centered**2).mean(axis=(0, 1))
    whole = (centered.mean(axis=1) ** 2).mean(axis=0)  # rho s^2 + (1 - rho) s^2 / members
    return each, (members * whole - each) / (members - 1)


def tell_variance(found: dict[str, Any]) -> Told:
    measured = zip(found["members"], found["measured"], found["stderr"], found["law"], strict=True)
    rows = tuple(
        (f"variance of the mean of {n} members", f"{law:.2f} by the law", f"{seen:.2f} +- {error:.2f}")
        for n, seen, error, law in measured
    )
    differs = (
        f"The document proves the law and measures nothing; here s^2 and rho ({found['correlation']:.2f}) come "
        f"from one half of {found['sets']} data sets and the measured variances from the other half, one standard "
        "error given."
    )
    return Told(rows, differs)


def draw_variance(found: dict[str, Any]) -> "dict[str, Figure]":
    from presage.plots._style import BLUE, VERMILION
    from presage.plots._style import figure as frame

    sizes, law = found["members"], found["law"]
    shared = found["shared"] if "shared" in found else law[-1] - (law[0] - law[-1]) / (sizes[-1] - 1)
    with frame(size=(4.5, 3.2)) as (made, ((axis,),)):
        axis.errorbar(sizes, found["measured"], found["stderr"], fmt="o", color=BLUE, label="measured on one half")
        axis.plot(sizes, law, color=VERMILION, label="law, from the other half")
        axis.axhline(shared, color="grey", linewidth=0.5, label="shared part")
        axis.set(xlabel="members N", ylabel="variance of the mean", ylim=(0, None))
        axis.legend()
    return {"s2_variance": made}


# The design.
def design(number: int, trials: int, samples: int, hurry: int, seed: int, penalty: float = 0.0) -> dict[str, Any]:
    """An ensemble's (L, D, N, p) by a Gaussian process with slice-sampled hyperparameters and integrated improvement.

    Args:
        number: of the experiment.
        trials: ensembles to train.
        samples: of the hyperparameters.
        hurry: networks are trained for so many times fewer steps.
        seed: of the search; the data are drawn from it too.
        penalty: loss added for every factor e in the weights.
    """
    from presage.networks.ensemble import EnsembleDesign

    setting = SETTINGS[number]
    rng = np.random.default_rng([seed, number])
    low, high = setting["bounds"]
    x, at = (rng.uniform(low, high, setting["n"]) for _ in range(2))
    y, test = (setting["f"](points) + NOISE * rng.standard_normal(len(points)) for points in (x, at))

    def loss(params: dict[str, Any]) -> float:
        ensemble = EnsembleDesign(params["L"], params["D"], params["N"], params["p"], steps=setting["steps"] // hurry)
        miss = float(np.linalg.norm(ensemble.fit(x[:, None], y, seed=seed).predict(at[:, None])[0] - test))
        layers = params["L"] * params["D"] ** 2
        return miss + penalty * float(np.log(params["N"] * params["p"] * layers))

    study, tried = _study(number, samples, seed), []
    for _ in range(trials):
        began = time.perf_counter()
        trial = study.ask()
        study.tell(trial, loss(trial.params))
        tried.append({**trial.params, "loss": study.trials[-1].value, "seconds": time.perf_counter() - began})
    best = min(tried, key=lambda one: one["loss"])
    return {
        "experiment": number, "best": best, "iteration": tried.index(best), "trials": tried,
        "document": {**DOCUMENT[number], "loss": loss(DOCUMENT[number])},
        "true function": float(np.linalg.norm(setting["f"](at) - test)),
        "constant": float(np.linalg.norm(y.mean() - test)),
    }  # fmt: skip


def _study(number: int, samples: int, seed: int) -> "Study":
    """The document's search: Matern 5/2, mean halfway between least and average, half-Cauchy priors, slice sampling."""
    from presage.kernels import Matern
    from presage.means import HalfwayMean
    from presage.priors import HalfCauchy
    from presage.study import Study
    from presage.surrogates import GaussianProcess
    from presage.surrogates.hyperparameters import Slice

    setting = SETTINGS[number]
    space = Space({
        "L": Int(1, setting["layers"]), "D": Int(1, setting["width"]), "N": Int(1, 30), "p": Float(0.01, 1.0),
    })  # fmt: skip
    surrogate = GaussianProcess(
        Matern(lengthscale=HalfCauchy(), variance=HalfCauchy()), HalfwayMean(), noise=HalfCauchy(), warp=None,
        hyperparameters=Slice(samples),
    )  # fmt: skip
    return Study(space, surrogate=surrogate, acquisition="ei", initial=2, seed=seed)


def written(one: dict[str, Any]) -> str:
    """A design as one reads it."""
    return f"({one['L']}, {one['D']}, {one['N']}, {one['p']:.3g})"


def tell_design(found: dict[str, Any]) -> Told:
    number, best, theirs = found["experiment"], found["best"], found["document"]
    rows = (
        ("best (L, D, N, p)", written(theirs), written(best)),
        ("found at iteration", str(ITERATION[number]), f"{found['iteration'] + 1} of {len(found['trials'])}"),
        ("its loss, both trained here", f"{theirs['loss']:.1f}", f"{best['loss']:.1f}"),
    )
    scale = f"The true function would lose {found['true function']:.1f}, a constant {found['constant']:.1f}."
    others = found.get("seeds", [])[1:]
    more = table(("another seed's best", "loss"), [(written(one), f"{one['loss']:.1f}") for one in others])
    differs = (
        "Members are trained by Adam and the acquisition is climbed, not by Adadelta and taken at random "
        f"candidates; larger networks win here and thinning them out does not help. {scale}"
    )
    return Told(rows, differs, more if others else "")


def draw_design(found: dict[str, Any]) -> "dict[str, Figure]":
    """What was tried, in order, and its loss."""
    from presage.plots._style import BLUE, VERMILION
    from presage.plots._style import figure as frame

    trials = found["trials"]
    with frame(1, 5, size=(10.0, 2.2), sharex=True) as (made, axes):
        for axis, name in zip(axes[0], ("L", "D", "N", "p", "loss"), strict=True):
            values = [one[name] for one in trials]
            best = int(np.argmin([one["loss"] for one in trials]))
            axis.plot(range(1, len(values) + 1), values, "o-", color=BLUE, markersize=3, linewidth=0.8)
            axis.plot(best + 1, values[best], "o", color=VERMILION)
            axis.set(title=name, xlabel="iteration")
    return {f"s2_design_{found['experiment']}": made}
