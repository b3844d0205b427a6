"""Results as Markdown."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from presage.benchmarks.measures import (
    FEWEST,
    TOO_FEW,
    VERDICTS,
    Pair,
    Runs,
    area,
    average_regret,
    duel,
    evaluations_to,
    gather,
    mean_ranks,
    seconds_to,
    tail_probability,
)
from presage.errors import PresageError


def named(
    records: Sequence[Mapping[str, Any]], problems: Sequence[str], methods: Sequence[str]
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Records of some problems, and the methods asked for, all of them where none are named."""
    chosen = [r for r in records if not problems or r["problem"] in problems]
    there = list(dict.fromkeys(r["method"] for r in chosen))
    names = list(methods) or sorted(there, key=lambda m: (not m.startswith("presage"), m))
    absent = [name for name in names if name not in there]
    if absent or not names:
        raise PresageError(f"results must hold every method asked for, but have {there}, not {absent}")
    return chosen, names


def select(
    records: Sequence[Mapping[str, Any]], problems: Sequence[str], methods: Sequence[str]
) -> tuple[list[Runs], list[str], list[str]]:
    """Runs of some problems and methods (of all, where none are named), the methods, and problems left out."""
    chosen, names = named(records, problems, methods)
    runs = gather(chosen, names)
    if not runs:
        raise PresageError("no problem has a seed that every method was run on; name fewer methods")
    whole = list(problems) or list(dict.fromkeys(r["problem"] for r in chosen))
    return runs, names, [problem for problem in whole if problem not in {r.problem for r in runs}]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([_row(header), _row(["---"] * len(header)), *map(_row, rows)])


def methods_table(runs: Sequence[Runs], methods: Sequence[str]) -> str:
    """Per method: mean rank at half and at the end of the budget, area, seconds, targets reached."""
    half = np.mean([r.ranks(r.regret.shape[2] // 2).mean(axis=1) for r in runs], axis=0)
    ends = mean_ranks(runs)
    rows = []
    for i in np.argsort([end.mean for end in ends]):
        areas = np.median([area(r.regret[i], r.scale).mean() for r in runs])
        average = np.median([average_regret(r.regret[i])[:, -1].mean() / r.scale for r in runs])
        tail = np.mean([tail_probability(r.regret[i], r.scale / 2)[-1] for r in runs])
        seconds = np.concatenate([r.seconds[i][np.isfinite(r.seconds[i])] for r in runs])
        total = np.mean([np.nansum(r.seconds[i], axis=1).mean() for r in runs])
        counts, spent = [], []
        for r in runs:
            target = float(np.median(r.best()))
            counts.append(evaluations_to(r.regret[i], target) / r.regret.shape[2])
            spent.append(seconds_to(r.regret[i], np.nan_to_num(r.seconds[i]), target))
        reached = np.concatenate(counts)
        rows.append([
            methods[i], str(ends[i]), f"{half[i]:.2f}", f"{areas:.3g}", f"{average:.3g}", f"{tail:.0%}",
            f"{np.isfinite(reached).mean():.0%}", _median(reached, "{:.0%}"), _median(np.concatenate(spent), "{:.3g}"),
            f"{np.median(seconds):.3g}", f"{total:.3g}",
        ])  # fmt: skip
    header = [
        "method", "mean rank (95 %)", "at half", "area", "R_n/n", "P[R_n/n > 1/2]", "target reached",
        "after (of budget)", "seconds to it", "s per suggestion", "s per run",
    ]  # fmt: skip
    return _table(header, rows)


def _median(values: np.ndarray, form: str) -> str:
    """The median where more than half of the runs have a finite one."""
    middle = np.median(values)
    return form.format(middle) if np.isfinite(middle) else "-"


def problems_table(runs: Sequence[Runs], methods: Sequence[str], *, picked: bool = False) -> str:
    """Per problem: the median of the final regret of every method, or of what it would pick; the least in bold."""
    rows = []
    for r in runs:
        medians = np.median(r.picked() if picked else r.best(), axis=1)
        cells = [f"**{m:.3g}**" if m <= medians.min() else f"{m:.3g}" for m in medians]
        rows.append([r.problem, str(r.regret.shape[2]), str(len(r.seeds)), *cells])
    return _table(["problem", "trials", "seeds", *methods], rows)


def duels_table(runs: Sequence[Runs], methods: Sequence[str], ours: str) -> str:
    """A method against the best other one on every problem, and a count of the verdicts; its variants do not count."""
    family = re.split("[:@]", ours)[0]
    others = [m for m in methods if re.split("[:@]", m)[0] != family] or [m for m in methods if m != ours]
    found = [duel(r, methods, ours, among=others) for r in runs]
    rows = [[d.problem, d.rival, str(d.won), d.verdict] for d in found]
    said = f"{ours} against the best other method of each problem: "
    judged = [d.verdict for d in found if d.verdict != TOO_FEW]
    if not judged:
        said += f"lower on {np.mean([d.won.mean for d in found]):.0%} of the seeds; verdicts need {FEWEST}."
    else:
        told = ", ".join(f"{verdict} on {judged.count(verdict)}" for verdict in VERDICTS)
        said += f"{told}; level or ahead on {1 - judged.count('behind') / len(judged):.0%}"
        said += f" of those with {FEWEST} seeds or more." if len(judged) < len(found) else "."
    return f"{said}\n\n" + _table(["problem", "best other", "seeds won (95 %)", "verdict"], rows)


def two_by_two(pairs: Sequence[Pair], ours: str) -> str:
    """One method against each other one, on whatever seeds the two have in common."""
    header = ["against", "problems", "seeds", "runs", "lower", "tied", "higher", "share (95 %)", *VERDICTS]
    rows = []
    for p in pairs:
        low, high = p.seeds
        runs = map(str, (p.lower + p.tied + p.higher, p.lower, p.tied, p.higher))
        verdicts = [str(p.verdicts[word]) if p.verdicts.total() else "-" for word in VERDICTS]
        seeds = f"{low}" if low == high else f"{low} to {high}"
        rows.append([p.other, str(p.problems), seeds, *runs, str(p.share), *verdicts])
    said = (
        f"{ours} against one other method at a time, on the seeds that both have, by the least regret at the end. The "
        "share is of runs won, ties half, its interval from drawing problems and seeds within them; ahead, level and "
        f"behind count problems with {FEWEST} seeds or more."
    )
    return f"{_table(header, rows)}\n\n{said}\n"


def markdown(
    records: Sequence[Mapping[str, Any]], problems: Sequence[str] = (), methods: Sequence[str] = (),
    ours: str | None = None,
) -> str:  # fmt: skip
    """Everything as Markdown: methods, problems, and one method against the best other of each problem."""
    runs, names, missing = select(records, problems, methods)
    seeds = sorted({len(r.seeds) for r in runs})
    counted = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    parts = [f"{len(runs)} problems, {counted} {'seed' if counted == '1' else 'seeds'} each, {len(names)} methods."]
    if missing:
        parts.append(f"Left out, since not every method has been run on them: {', '.join(missing)}.")
    used: dict[str, set[str]] = {}
    told = {(r.problem, seed) for r in runs for seed in r.seeds}
    for r in records:
        if r["method"] in names and (r["problem"], r["seed"]) in told and "code" in r.get("versions", {}):
            used.setdefault(r["method"], set()).add(r["versions"]["code"])
    parts += [
        f"Note: the runs of {name} were made by {len(codes)} different versions of presage."
        for name, codes in used.items()
        if len(codes) > 1
    ]
    for i, name in enumerate(names):
        same = [r.problem for r in runs if len(r.seeds) > 1 and (r.regret[i] == r.regret[i, :1]).all()]
        if same:
            parts.append(f"Note: {name} is one run for all seeds on {', '.join(same)}: it does not depend on them.")
    parts.append(methods_table(runs, names))
    parts.append(
        "Ranks are among these methods by the least regret at the end, averaged over seeds and then problems. Area "
        "(of the best-so-far curve) and R_n/n (mean regret of all evaluations) are in units of the median regret of a "
        "first evaluation, and medians over problems, of which some have heavy tails. The target is the "
        "median of all final regrets of a problem."
    )
    parts.append("Median regret at the end:\n\n" + problems_table(runs, names))
    noisy = [r for r in runs if r.observed is not None]
    if noisy:
        parts.append(
            "Where values have noise, the least regret of all evaluations is not known to a user. Median regret of the "
            "evaluation with the least value seen:\n\n" + problems_table(noisy, names, picked=True)
        )
    if ours is not None and len(names) > 1:
        if ours not in names:
            raise PresageError(f"--ours must be one of {', '.join(names)}, but got {ours!r}")
        parts.append(duels_table(runs, names, ours))
    return "\n\n".join(parts) + "\n"


__all__ = ["markdown", "named", "select", "two_by_two"]
