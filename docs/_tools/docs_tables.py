"""Tables made from the records in benchmarks/results, so that no figure on a page is typed by hand."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def importable() -> None:
    """Have presage and the benchmarks found; mkdocs forgets what a hook did to the path when it was loaded."""
    sys.path += [str(ROOT / "src"), str(ROOT / "benchmarks")]


def record(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *(list(map(str, row)) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def median(values: Iterable[float]) -> str:
    low, middle, high = np.quantile(list(values), [0.25, 0.5, 0.75])
    return f"{middle:.2g} ({low:.2g} to {high:.2g})"


def commands() -> str:
    """Every command with the first sentence of its help."""
    import typer

    importable()
    from presage.cli._app import app

    group = typer.main.get_command(app)
    rows = [
        (f"`presage {name}`", " ".join((command.help or "").split("\n\n")[0].split()))
        for name, command in group.commands.items()  # type: ignore[attr-defined]
    ]
    return table(("command", "what it does"), rows)


def regrets() -> dict[str, tuple[int, np.ndarray]]:
    """By problem, the number of evaluations and the regrets of presage and BoTorch on common seeds, [2, seeds]."""
    importable()
    from problems import PROBLEMS

    traces = [record(f"regret_{who}")["traces"] for who in ("presage", "botorch")]
    found = {}
    for name, problem in PROBLEMS.items():
        seeds = sorted(set(traces[0].get(name, {})) & set(traces[1].get(name, {})), key=int)
        least = [[min(by[name][s]["values"]) - problem.make(int(s)).minimum for s in seeds] for by in traces]
        if seeds:
            found[name] = problem.trials, np.array(least)
    return found


def regret() -> str:
    """presage and BoTorch from the same starting points."""
    rows = [
        (name, trials, median(ours), median(theirs), f"{int((ours < theirs).sum())} of {len(ours)}")
        for name, (trials, (ours, theirs)) in regrets().items()
    ]
    return table(("problem", "evaluations", "presage", "BoTorch", "ours better in"), rows)


def latency() -> str:
    """Seconds of presage and BoTorch, means of one run, refits included."""
    rows = []
    for what, by in record("latency")["seconds"].items():
        if by["presage"] and by["botorch"]:
            ours, theirs = (float(np.mean(by[who])) for who in ("presage", "botorch"))
            rows.append((what, f"{ours:.3g}", f"{theirs:.3g}", f"{theirs / ours:.1f}"))
    return table(("what", "presage, s", "BoTorch, s", "ratio"), rows)


def surrogates() -> str:
    """The table of surrogates as its script wrote it."""
    text = (RESULTS / "surrogates.md").read_text()
    return text[text.index("Means over") :]


def surrogate_regret() -> str:
    found = record("surrogates_regret")
    result = found.get("result", found.get("regret"))
    problems = list(result)
    names = list(result[problems[0]])
    rows = [(name, *(f"{np.median(result[p][name]):.2g}" for p in problems)) for name in names]
    return table(("surrogate", *problems), rows)


def acquisitions() -> str:
    """Regret of what is recommended in the end, every surrogate with every acquisition."""
    result = record("matrix")["result"]
    by, names = (sorted({pair.split()[i] for pair in result}) for i in (0, 1))
    rows = [
        (name, *(f"{np.median(result[f'{one} {name}']['recommended']):.1g}" for one in by if f"{one} {name}" in result))
        for name in names
    ]
    return table(("", *by), (row for row in rows if len(row) == len(by) + 1))


def robustness() -> str:
    """What was done to studies, and what was lost."""
    kills, fuzz = record("kills"), record("workers_fuzz")["result"]
    what = f"{kills['kills']} times kill -9 under four writers, SQLite"
    rows = [(what, f"{kills['told']} values", sum(kills["faults"].values()))]
    for name, storages in record("workers_kills")["result"].items():
        one = storages[0] if isinstance(storages, list) else storages
        rows.append((f"16 workers, one killed each second, {name}", f"{one['trials']} trials", _faults(one)))
    for name, what in (
        ("workers_restarts", "PostgreSQL stopped ten times"),
        ("workers_partition", "a host cut off for 30 s"),
    ):
        one = record(name)["result"]
        rows.append((what, f"{one['trials']} trials", _faults(one)))
    rows.append(("damaged files and hostile payloads", f"{fuzz['cases']} cases", sum(fuzz["faults"].values())))
    return table(("what happened", "how much", "faults"), rows)


def _faults(one: dict[str, Any]) -> int:
    return sum(one["faults"].values())


def engines() -> str:
    rows = [
        (name, one["workers"], one["speed-up"], one["speed-up, all included"])
        for name, one in record("workers_engines")["result"].items()
    ]
    return table(("engine", "workers", "speed-up", "start and end included"), rows)


def many() -> str:
    result = record("workers_many")["result"]
    rows = []
    for what, value in result.items():
        if what != "faults":
            text = ", ".join(f"{key} {number}" for key, number in value.items()) if isinstance(value, dict) else value
            rows.append((what, text))
    return table(("a study of 100,000 trials", ""), rows)


def architecture_search() -> str:
    """Both tables of the search over training curves."""
    text = (RESULTS / "architecture_search.md").read_text()
    return text[text.index("Budget") :].replace("## ", "#### ")


def gpar() -> str:
    """S4's tables 5.1 to 5.4."""
    return (RESULTS / "gpar.md").read_text()


def curve_models() -> str:
    text = (RESULTS / "curve_models.md").read_text()
    return text[text.index("| set") :]


def s1_regret() -> str:
    """S1's benchmark, 50 repeats."""
    importable()
    from s1 import problem

    methods = {"hmc": "sampled networks", "cauchy": "with Cauchy weights", "gp": "Gaussian process"}
    traces = {method: record(f"s1_{method}")["traces"] for method in methods}
    rows = []
    for name in traces["gp"]:
        least = problem(name)[2]
        cells: list[str] = []
        for method in methods:
            found = traces[method].get(name, {})
            values = [max(min(row["values"]) - least, 0.0) for row in found.values()]
            cells.append(f"{median(values)}, {len(values)} repeats" if values else "-")
        rows.append((name, *cells))
    return table(("function", *methods.values()), rows)


def s1_time() -> str:
    rows = []
    for what, one in record("hmc_time")["found"].items():
        rows.append((what, f"{one['processor_seconds']:.0f}", f"{one['ess']:.0f}", "yes" if one["reached"] else "no"))
    return table(("", "processor seconds", "effective draws", "reached what was asked"), rows)


def s2_variance() -> str:
    found = record("s2_variance")
    rows = [
        (n, f"{seen:.2f} +- {error:.2f}", f"{law:.2f}")
        for n, seen, error, law in zip(found["members"], found["measured"], found["stderr"], found["law"], strict=True)
    ]
    return table(("members", "variance measured", "the law"), rows)


def s3_tail() -> str:
    found = record("neural_tail")
    rows = [
        (name, one["repeats"], f"{1000 * one['rate']:.1f}")
        for name, one in found.items()
        if isinstance(one, dict) and "rate" in one
    ]
    return table(("problem", "repeats", "slope of log P[R/n > 0.7] per 1,000 queries"), rows)


def s3_seed() -> str:
    found = record("neural_seed")
    rows = [
        (name, one["seeds"], f"{one['median_seconds']:.1f}", f"{one['median_least']:.2g}")
        for name, one in found.items()
        if isinstance(one, dict) and "median_seconds" in one
    ]
    return table(("problem", "seeds", "seconds for 100 queries", "median least regret"), rows)


def uci() -> str:
    """Test log-likelihoods on the UCI sets, from the page on networks."""
    text = (ROOT / "docs" / "networks.md").read_text()
    start = text.index("| set | mean field")
    return text[start : text.index("\n\n", start)]
