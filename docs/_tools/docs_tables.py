"""Tables made from the records in benchmarks/results, so that no figure on a page is typed by hand."""

import json
import re
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


def peers(name: str) -> str:
    """Ranks, and how many problems presage is ahead on, as `presage bench table` told them."""
    text = (RESULTS / "bench" / f"{name}.md").read_text()
    ranks = text[text.index("| method") : text.index("\n\nRanks are")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in ranks.splitlines()]
    columns = ("method", "mean rank (95 %)", "at half", "target reached", "s per run")
    wanted = [rows[0].index(column) for column in columns]
    verdict = next(line for line in text.splitlines() if line.startswith("presage against"))
    return table(columns, [[row[i] for i in wanted] for row in rows[2:]]) + f"\n\n{verdict}"


def reported() -> str:
    return peers("reported")


def reported_25() -> str:
    return peers("reported_25")


def reported_20() -> str:
    return peers("reported_20")


def two_by_two() -> str:
    """presage against one other method at a time, as `presage bench table --two-by-two` told it."""
    return (RESULTS / "bench" / "two_by_two.md").read_text().strip()


NAMES = {
    "ax": "Ax", "botorch": "BoTorch", "botorch-noisy": "BoTorch, noisy LogEI", "cmaes": "CMA-ES", "hebo": "HEBO",
    "nevergrad": "Nevergrad", "optuna-gp": "Optuna's process", "optuna-gp-exact": "Optuna's process, told of no noise",
    "optuna-tpe": "Optuna's TPE", "random": "random search", "skopt": "scikit-optimize", "smac": "SMAC3",
    "sobol": "Sobol points",
}  # fmt: skip


def duels() -> str:
    """presage against one other method at a time, in short; a table of the README."""
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in two_by_two().splitlines() if line.startswith("|")
    )  # fmt: skip
    short = (
        (NAMES[row["against"]], row["seeds"], three(row, "lower", "tied", "higher"), row["share (95 %)"],
         three(row, "ahead", "level", "behind"))
        for row in (dict(zip(head, row, strict=True)) for row in rows)
    )  # fmt: skip
    heads = ("against", "seeds", "runs lower, tied, higher", "share won (95 %)", "problems ahead, level, behind")
    return table(heads, short)


def three(row: dict[str, str], *names: str) -> str:
    """Some cells as one; nothing where there is no verdict."""
    cells = [row[name] for name in names]
    return "" if set(cells) == {"-"} else ", ".join(cells)


def overhead() -> str:
    """Seconds of all suggestions of whole searches, on the problems that both were run on."""
    seconds: dict[str, dict[tuple[str, int], float]] = {}
    for path in sorted((RESULTS / "overhead").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            run = json.loads(line)
            seconds.setdefault(run["method"], {})[run["problem"], run["seed"]] = sum(run["seconds"])
    ours, rows = seconds.pop("presage"), []
    for method, theirs in seconds.items():
        common = sorted(set(ours) & set(theirs))
        mine, other = (sum(by[run] for run in common) for by in (ours, theirs))
        rows.append((method, len(common), f"{mine:.1f}", f"{other:.1f}", f"{other / mine:.1f}"))
    return table(("peer", "searches", "presage, s", "peer, s", "ratio"), rows)


def ablations() -> str:
    """What `presage bench ablate` told."""
    return (RESULTS / "ablations" / "two_seeds.md").read_text().strip()


def ablations_choices() -> str:
    """Ten choices of the default as it is, on ten seeds."""
    return (RESULTS / "ablations" / "choices.md").read_text().strip()


def ablations_noise() -> str:
    """The default on noisy functions against other acquisitions."""
    return (RESULTS / "ablations" / "noise.md").read_text().strip()


def ablations_reported() -> str:
    """The default against two of its changes on the reported list."""
    return (RESULTS / "ablations" / "reported.md").read_text().strip()


def ablations_ten() -> str:
    """The same of the two changes that looked best, on ten seeds."""
    return (RESULTS / "ablations" / "ten_seeds.md").read_text().strip()


def latency_by_n() -> str:
    """What `presage bench latency` wrote."""
    return (RESULTS / "latency" / "latency.md").read_text().strip()


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


def dimensions() -> str:
    """Regret in many dimensions, every method on every problem; the evaluations of peers are fewer."""
    result = record("highdim")["result"]
    problems = ("branin50", "branin100", "ackley20", "levy20", "ackley100", "levy100", "surface")
    names = dict.fromkeys(pair.split()[1] for pair in result)
    rows = []
    for name in names:
        cells = [name]
        for problem in problems:
            found = result.get(f"{problem} {name}")
            if found is None:
                cells.append("-")
                continue
            last, count = [row[-1] for row in found["regret every 10"]], len(found["seeds"])
            short = min(10 * len(row) for row in found["regret every 10"])
            cells.append(f"{np.median(last):.3g} [{count}{'' if short == 100 else f', {short} evaluations'}]")
        rows.append(cells)
    return table(("", *problems), rows)


def maximiser() -> str:
    """Cases in which the default search reached 0.99 of the best known expected improvement."""
    rows = record("maximiser")["result"]["rows"]
    lines = []
    for name in dict.fromkeys(row["surrogate"] for row in rows):
        mine = [row for row in rows if row["surrogate"] == name]
        share = [row["share"] for row in mine]
        reached = sum(one >= 0.99 for one in share)
        lines.append((name, f"{reached} of {len(mine)}", f"{min(share):.3f}"))
    reached = sum(row["share"] >= 0.99 for row in rows)
    lines.append(("all", f"{reached} of {len(rows)}", f"{min(row['share'] for row in rows):.3f}"))
    return table(("posterior", "0.99 reached", "least share"), lines)


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


def reproduced(name: str) -> Any:
    """What `presage reproduce` recorded; of experiments that were not run anew, what an earlier script did."""
    path = RESULTS / "reproduce" / f"{name}.json"
    if path.exists():
        return json.loads(path.read_text())["result"]
    if name == "s1_benchmark":
        return {method: record(f"s1_{method}")["traces"] for method in ("hmc", "cauchy", "gp", "skopt")}
    found = record({"s1_posterior": "s1_figures"}.get(name, name))
    return found.get("result", found)


def told(seed: str, *names: str) -> str:
    """Experiments of a seed in the words of `presage reproduce`."""
    importable()
    from importlib import import_module

    known = {e.name: e for e in import_module(f"presage.experiments.{seed}").experiments(True)}
    return "\n\n".join(f"**{known[name].title}**\n\n{known[name].tell(reproduced(name)).markdown()}" for name in names)


def s1() -> str:
    return told("s1", "s1_posterior", "s1_benchmark")


def s2() -> str:
    return told("s2", "s2_variance", "s2_design_1", "s2_design_2")


def s3() -> str:
    return told("s3", "s3_regret", "s3_tail", "s3_workers", "s3_iteration")


def s4_studies() -> str:
    return told("s4", "s4_studies")


def s4_search() -> str:
    return told("s4", "s4_search")


def tuning(group: dict[str, str]) -> tuple[list[Any], list[str]]:
    """Runs of S5's twenty problems and the methods of a group that were run on them."""
    importable()
    from presage.benchmarks.records import read
    from presage.benchmarks.summary import select
    from presage.experiments import s5

    found = read(RESULTS / "bench")
    methods = [name for name in group if any(r["method"] == name for r in found)]
    runs, shown, _ = select(found, s5.problems(False), methods)
    return runs, shown


def s5() -> str:
    """Mean ranks on the twenty tuning problems, from the runs on record."""
    importable()
    from presage.experiments import s5

    return "\n\n".join(f"**{title}**\n\n{s5.tell(*tuning(group)).markdown()}" for _, title, group in s5.TABLES)


def seeds() -> str:
    """What each seed claims, what is on record here, and the command; the table of the README."""
    importable()
    from presage.experiments import s1, s2, s3, s4, s5

    functions = ("forrester", "rosenbrock", "mccormick", "six_hump_camel")
    traces = reproduced("s1_benchmark")
    within = {n: s1.regrets(traces, "hmc", n) for n in functions}
    found = ", ".join(f"{sum(r < s1.GOOD for r in values)} of {len(values)}" for values in within.values())
    designs = [reproduced(f"s2_design_{number}") for number in (1, 2)]
    losses = [f"{one['best']['loss']:.1f} against {one['document']['loss']:.1f}" for one in designs]
    regret, tail = reproduced("s3_regret"), reproduced("s3_tail")
    seconds = " and ".join(f"{regret[name]['median_seconds']:.1f} s" for name in s3.SECONDS)
    slopes = " and ".join(f"{1000 * tail[name]['rate']:.0f}" for name in s3.SLOPES)
    plays = reproduced("s4_search")
    ahead = {other: s4.against(plays, "default", other) for other in ("final", "random", "gpar ei 50")}
    counts = ", ".join(
        f"{label} {len(ahead[other]['ahead'])}/{len(ahead[other]['level'])}/{len(ahead[other]['behind'])}"
        for other, label in (("final", "final values only"), ("random", "random"), ("gpar ei 50", "GPAR"))
    )
    runs, methods = tuning(s5.PACKAGE)
    ranks = {method: ranked.mean for method, ranked in zip(methods, s5.ranks(runs)[53], strict=True)}
    named = {"presage": "our default", "pygpgo": "pyGPGO's EI", "optuna-tpe": "Optuna's TPE", "random": "random"}
    rank = ", ".join(f"{named[m]} {ranks[m]:.2f}" for m in sorted(ranks, key=lambda m: ranks[m]) if m in named)
    theirs = f"{s2.written(s2.DOCUMENT[1])} and {s2.written(s2.DOCUMENT[2])}"
    rows = [
        (
            "[S1](docs/seeds/s1.md), networks by HMC",
            "level with a Gaussian process on Forrester, ahead on Rosenbrock, stuck on McCormick and the camel",
            f"within {s1.GOOD:g} of these four minima in {found} repeats", "s1",
        ),
        (
            "[S2](docs/seeds/s2.md), designed ensembles", f"{theirs} are the best designs",
            f"losses {losses[0]} and {losses[1]} of theirs, trained here", "s2",
        ),
        (
            "[S3](docs/seeds/s3.md), adaptive representations",
            "100 queries in 104.0 s and 288.4 s; log P[R/n > 0.7] falls by 84 and 12 per 1,000 queries",
            f"{seconds} (another machine); slopes {slopes}", "s3",
        ),
        (
            "[S4](docs/seeds/s4.md), architecture search",
            "GPAR ahead of a process on final values on 2 sets, level on 3, behind on 3",
            f"our search ahead/level/behind of {counts}", "s4 --data FOLDER",
        ),
        (
            "[S5](docs/seeds/s5.md), pyGPGO", "curves of EI and UCB against random search",
            f"mean rank of {len(methods)} after 53 evaluations: {rank}", "s5",
        ),
    ]  # fmt: skip
    return table(
        ("seed", "what it reports", "here", "command"),
        ((*row[:3], f"`presage reproduce {row[3]}`") for row in rows),
    )


def s1_time() -> str:
    rows = []
    for what, one in record("hmc_time")["found"].items():
        seconds = (f"{one[name]:.0f}" for name in ("seconds", "processor_seconds"))
        rows.append((what, *seconds, f"{one['ess']:.0f}", "yes" if one["reached"] else "no"))
    return table(("", "seconds", "processor seconds", "effective draws", "reached what was asked"), rows)


def uci() -> str:
    """Test log-likelihoods on the UCI sets, from the page on networks."""
    text = (ROOT / "docs" / "networks.md").read_text()
    start = text.index("| set | mean field")
    return text[start : text.index("\n\n", start)]


MADE = re.compile("(<!-- (\\w+): docs/_tools/docs_tables.py -->\\n).*?(\\n<!-- end -->)", re.DOTALL)


def readme() -> str:
    """The README with its tables made anew, each by the function that it names."""
    return MADE.sub(lambda match: match[1] + globals()[match[2]]() + match[3], (ROOT / "README.md").read_text())


if __name__ == "__main__":
    (ROOT / "README.md").write_text(readme())
