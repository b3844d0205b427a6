"""S4's studies of variational networks: width, prior width, first noise, amount of data, and units that go silent.

5.1: two hidden layers, fixed prior: hidden width, prior width (a standard deviation), first noise variance. 5.2: two
layers of 20 on 0.1 to 10 times the rows, drawn without replacement or repeated. 5.3: two layers, hyperprior: units that
stay active, and what is lost when the others are cut off. All networks of 5.1 and 5.2 on a set are one program.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.experiments.base import Found, Told
from presage.networks.datasets import DataSet, load, standard_splits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 1000  # for validation, and for test
SETS = ("boston_housing", "concrete", "energy", "wine_quality_red")
BUNDLED = "diabetes"  # of scikit-learn, where no folder of the UCI sets is given


@dataclass(frozen=True)
class Plan:
    """What is trained, and how long."""

    seeds: int = 5
    batch: int = 256
    samples: int = 10
    test_samples: int = 100
    checkpoints: tuple[int, ...] = (250, 500, 1000, 2000, 4000, 8000, 12_000)
    widths: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    priors_of_widths: tuple[float, ...] = (0.3, 1.0, 3.0)
    priors: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    widths_of_priors: tuple[int, ...] = (8, 32)
    noises: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0)
    factors: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
    pruned: tuple[int, ...] = (4, 8, 16, 32, 64, 100)

    def designs(self) -> list[dict[str, Any]]:
        """The networks of 5.1 and 5.2."""
        usual = {"width": 20, "prior": 1.0, "noise": 0.1, "factor": 1.0}
        found = [
            {**usual, "study": "width", "width": w, "prior": p} for p in self.priors_of_widths for w in self.widths
        ]
        found += [
            {**usual, "study": "prior", "width": w, "prior": p} for w in self.widths_of_priors for p in self.priors
        ]
        found += [{**usual, "study": "noise", "noise": n} for n in self.noises]
        return found + [{**usual, "study": "data", "factor": f} for f in self.factors]


PLANS = {
    "full": Plan(),
    "quick": Plan(
        seeds=2, batch=128, samples=3, test_samples=20, checkpoints=(250, 500, 1000, 2000), widths=(1, 4, 16, 40),
        priors_of_widths=(1.0,), priors=(0.03, 0.3, 1.0, 10.0), widths_of_priors=(8,), factors=(0.1, 1.0, 10.0),
        pruned=(4, 16, 40),
    ),
}  # fmt: skip


def data_set(name: str, folder: str | None) -> DataSet:
    """A UCI set from a folder, or scikit-learn's diabetes data."""
    if name != BUNDLED:
        return load(name, folder)
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return DataSet(name, x, y, standard_splits(len(y), 1))


def split(data: DataSet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows for training, validation and test, of standard split 0."""
    order = np.random.default_rng(0).permutation(data.splits[0][0])
    cut = len(order) // 5
    return order[cut:], order[:cut][:MOST_ROWS], data.splits[0][1][:MOST_ROWS]


def study(kind: str, name: str, plan: str, folder: str | None = None) -> list[dict[str, Any]]:
    """Networks of 5.1 and 5.2 ("designs") or of 5.3 ("pruning") on one set."""
    import jax

    found = (fixed_prior if kind == "designs" else pruning)(data_set(name, folder), PLANS[plan])
    jax.clear_caches()  # the programs of one set are of no use to the next
    return found


def amount(rows: np.ndarray, factor: float, rng: np.random.Generator) -> np.ndarray:
    """Fewer rows, or rows repeated."""
    if factor < 1.0:
        return rng.choice(rows, max(2, round(factor * len(rows))), replace=False)
    return np.tile(rows, round(factor))


def fixed_prior(data: DataSet, plan: Plan) -> list[dict[str, Any]]:
    """Curves of all designs of 5.1 and 5.2."""
    from presage.networks.training import Cohort, Table, Training, describe
    from presage.networks.variational import Variational

    train, validation, _ = split(data)
    each = [{**design, "seed": seed} for design in plan.designs() for seed in range(plan.seeds)]
    family = Variational(hyperprior=None, samples=plan.samples)
    rows = [amount(train, one["factor"], np.random.default_rng(one["seed"])) for one in each]
    table = Table(data.x, data.y)
    networks = describe(
        family, [(one["width"],) * 2 for one in each], table, rows, seeds=[one["seed"] for one in each],
        prior_variance=[one["prior"] ** 2 for one in each], initial_noise=[one["noise"] for one in each],
    )  # fmt: skip
    cohort = Cohort.new(family, Training(batch=plan.batch, chunk=plan.checkpoints[0]), networks, table)
    both = np.append(validation, train[:MOST_ROWS])
    seen = np.broadcast_to(both, (len(each), len(both)))
    for one in each:
        one |= {"steps": list(plan.checkpoints), "validation": [], "train": [], "rmse": []}
    for step in plan.checkpoints:
        log_density, error = cohort.advance(step).foretell(seen, samples=plan.test_samples)
        cut = len(validation)
        for i, one in enumerate(each):
            one["validation"].append(round(float(log_density[i, :cut].mean()), 4))
            one["train"].append(round(float(log_density[i, cut:].mean()), 4))
            one["rmse"].append(round(float(np.sqrt((error[i, :cut] ** 2).mean())), 4))
    return each


def pruning(data: DataSet, plan: Plan) -> list[dict[str, Any]]:
    """5.3: active units, and validation log-likelihood before and after the others are cut off."""
    from presage.networks.pruning import active_units, pruned, unit_activity
    from presage.networks.training import Cohort, Table, Training, describe
    from presage.networks.variational import Variational

    train, validation, _ = split(data)
    each = [(width, seed) for width in plan.pruned for seed in range(plan.seeds)]
    family, table = Variational(samples=plan.samples), Table(data.x, data.y)
    networks = describe(
        family, [(width,) * 2 for width, _ in each], table, [train] * len(each), seeds=[seed for _, seed in each]
    )
    training = Training(batch=plan.batch, chunk=plan.checkpoints[0])
    cohort = Cohort.new(family, training, networks, table).advance(plan.checkpoints[-1])
    rows = [validation] * len(each)
    before, rmse = cohort.evaluate(rows)
    small = pruned(cohort)
    after, rmse_after = small.evaluate(rows)
    active, kept = active_units(cohort), np.asarray(small.networks.widths)
    activity = np.asarray(unit_activity(family, cohort.shape, cohort.networks, cohort.state.params))
    return [
        {
            "width": width, "seed": seed, "active": active[i].tolist(), "kept": kept[i].tolist(),
            "log_likelihood": [round(float(before[i]), 4), round(float(after[i]), 4)],
            "rmse": [round(float(rmse[i]), 4), round(float(rmse_after[i]), 4)],
            "activity": [[round(float(a), 4) for a in layer[:width]] for layer in activity[i]] if seed == 0 else None,
        }
        for i, (width, seed) in enumerate(each)
    ]  # fmt: skip


def by_set(found: Found) -> dict[str, Any]:
    """What was trained, by set."""
    sets: dict[str, Any] = {}
    for (kind, name, _), result in found.items():
        sets.setdefault(str(name), {})[str(kind)] = result
    return {"sets": sets}


def series(designs: list[dict[str, Any]], study: str, key: str, measure: str = "validation", **fixed: float) -> tuple:
    """Values of a setting, and mean and standard error over seeds of the last value of a measure."""
    mine = [d for d in designs if d["study"] == study and all(d[name] == value for name, value in fixed.items())]
    at = sorted({d[key] for d in mine})
    ends = [np.array([d[measure][-1] for d in mine if d[key] == value]) for value in at]
    return at, [e.mean() for e in ends], [e.std(ddof=1) / np.sqrt(len(e)) if len(e) > 1 else 0.0 for e in ends]


def tell(summary: dict[str, Any]) -> Told:
    """The document's sentences, and for every set the numbers that speak to them."""
    sets, rows = summary["sets"], []

    def said(line: Any) -> str:
        return "; ".join(f"{name}: {line(found)}" for name, found in sets.items())

    def width(found: dict[str, Any]) -> str:
        at, mean, _ = series(found["designs"], "width", "width", prior=1.0)
        best = int(np.argmax(mean))
        return f"best at {at[best]}, at {at[-1]} lower by {mean[best] - mean[-1]:.2f}"

    def prior(found: dict[str, Any]) -> str:
        at, mean, _ = series(found["designs"], "prior", "prior", width=8)
        return f"{at[0]:g} lower by {max(mean) - mean[0]:.2f}, {at[-1]:g} by {max(mean) - mean[-1]:.2f}"

    def noise(found: dict[str, Any]) -> str:
        at, mean, _ = series(found["designs"], "noise", "noise")
        usual = [m for a, m in zip(at, mean, strict=True) if a >= 0.01]
        return f"from 0.01 to 1 within {max(usual) - min(usual):.2f}, 0.001 lower by {max(usual) - mean[0]:.2f}"

    def data(found: dict[str, Any]) -> str:
        at, mean, _ = series(found["designs"], "data", "factor")
        _, train, _ = series(found["designs"], "data", "factor", "train")
        once = at.index(1.0)
        few, many = mean[0] - mean[once], mean[-1] - mean[once]
        fits = train[-1] - train[once]
        return f"{at[0]:g} times {few:+.2f}, {at[-1]:g} times {many:+.2f} (train {fits:+.2f})"

    def units(found: dict[str, Any]) -> str:
        widths = sorted({p["width"] for p in found["pruning"]})
        first, second = (
            [np.mean([p["active"][layer] for p in found["pruning"] if p["width"] == w]) for w in widths]
            for layer in (0, 1)
        )
        shown = ", ".join(f"{a:.1f}+{b:.1f} of {w}" for w, a, b in zip(widths, first, second, strict=True))
        lost = np.mean([p["log_likelihood"][0] - p["log_likelihood"][1] for p in found["pruning"]])
        return f"{shown}; {lost:.3f} lost"

    rows = [
        ("5.1 hidden width", "better up to a width, then flat or worse", said(width)),
        ("5.1 prior width", "too small harms greatly, too large little", said(prior)),
        ("5.1 first noise variance", "little effect in the end", said(noise)),
        ("5.2 amount of data", "too little: slightly lower; repeated: train rises, validation drops", said(data)),
        ("5.3 active units (first + second layer), and loss when the others are cut", "rise with width, then fall; "
         "most in the first layer; the rest says nothing", said(units)),
    ]  # fmt: skip
    seeds = 1 + max(d["seed"] for d in next(iter(sets.values()))["designs"])
    steps = next(iter(sets.values()))["designs"][0]["steps"][-1]
    data_note = (
        " scikit-learn's diabetes data stand for the UCI sets (--data names a folder)." if BUNDLED in sets else ""
    )
    differs = (
        f"The document has one seed and curves only; here {seeds} seeds and {steps:,} steps, differences of mean "
        f"validation log-likelihood.{data_note}"
    )
    return Told(tuple(rows), differs)


def draw(summary: dict[str, Any]) -> "dict[str, Figure]":
    """Figures 5.1, 5.2, the first noise, 5.3, and active units of 5.5 and 5.6."""
    from presage.plots._style import figure as frame

    sets = summary["sets"]
    some = next(iter(sets.values()))["designs"]

    def panels(paint: Any, label: str, what: str = "validation log-likelihood") -> "Figure":
        with frame(1, len(sets), size=(3.2 * len(sets), 2.8)) as (made, axes):
            for axis, (name, found) in zip(axes[0], sets.items(), strict=True):
                paint(axis, found)
                axis.set(title=name, xlabel=label)
                if "likelihood" in what:  # what fails altogether would flatten the rest
                    best = max(np.max(line.get_ydata()) for line in axis.lines)
                    axis.set_ylim(max(axis.get_ylim()[0], best - 3.0))
                axis.legend(fontsize=6)
            axes[0, 0].set_ylabel(what)
        return made

    def by(study: str, key: str, other: str) -> Any:
        def paint(axis: Any, found: dict[str, Any]) -> None:
            for value in sorted({d[other] for d in some if d["study"] == study}):
                drawn = series(found["designs"], study, key, **{other: value})
                axis.errorbar(*drawn, marker=".", label=f"{other} {value:g}")
            axis.set_xscale("log")

        return paint

    def amounts(axis: Any, found: dict[str, Any]) -> None:
        for measure in ("validation", "train"):
            axis.errorbar(*series(found["designs"], "data", "factor", measure), marker=".", label=measure)
        axis.set_xscale("log")

    def noise(axis: Any, found: dict[str, Any]) -> None:
        for value in sorted({d["noise"] for d in some if d["study"] == "noise"}):
            mine = [d for d in found["designs"] if d["study"] == "noise" and d["noise"] == value]
            axis.plot(mine[0]["steps"], np.mean([d["validation"] for d in mine], axis=0), marker=".", label=f"{value}")
        axis.set_xscale("log")

    def units(axis: Any, found: dict[str, Any]) -> None:
        widths = sorted({p["width"] for p in found["pruning"]})
        for layer in range(2):
            counts = [[p["active"][layer] for p in found["pruning"] if p["width"] == w] for w in widths]
            axis.errorbar(widths, np.mean(counts, 1), np.std(counts, 1), marker=".", label=f"active, layer {layer + 1}")
        axis.plot(widths, widths, color="grey", linewidth=0.5, label="available")
        axis.set_ylim(0, 20)

    return {
        "s4_width": panels(by("width", "width", "prior"), "hidden width"),
        "s4_prior": panels(by("prior", "prior", "width"), "prior width"),
        "s4_noise": panels(noise, "steps, by first noise variance"),
        "s4_data": panels(amounts, "amount of data", "log-likelihood"),
        "s4_pruning": panels(units, "hidden width", "units"),
    }
