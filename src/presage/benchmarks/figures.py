"""Figures of results: best-so-far curves of every problem, and ranks against the share of the budget spent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from presage.benchmarks.measures import Pair, Runs, minimum_regret

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 4
SHARES = np.linspace(0.1, 1.0, 19)


def curves(runs: Sequence[Runs], methods: Sequence[str]) -> "Figure":
    """Median least regret against evaluations, quartiles shaded, one panel per problem."""
    from matplotlib.figure import Figure

    rows = -(-len(runs) // COLUMNS)
    figure = Figure(figsize=(3.2 * COLUMNS, 2.4 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, COLUMNS, squeeze=False)).ravel()
    for axis, r in zip(axes, runs, strict=False):
        best = np.maximum(minimum_regret(r.regret), 1e-9 * r.scale)
        x = np.arange(1, best.shape[2] + 1)
        for i, name in enumerate(methods):
            low, middle, high = np.quantile(best[i], [0.25, 0.5, 0.75], axis=0)
            axis.plot(x, middle, color=f"C{i % 10}", linestyle="-" if i < 10 else "--", linewidth=1.2, label=name)
            axis.fill_between(x, low, high, color=f"C{i % 10}", alpha=0.12, linewidth=0)
        axis.set_yscale("log")
        axis.set_title(f"{r.problem} ({len(r.seeds)})", fontsize=9)
        axis.tick_params(labelsize=7)
    for axis in axes[len(runs) :]:
        axis.set_axis_off()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    figure.supylabel("regret", fontsize=9)
    figure.supxlabel("evaluations", fontsize=9)
    return figure


def rank_curves(runs: Sequence[Runs], methods: Sequence[str]) -> "Figure":
    """Mean rank against the share of the budget, and at the end against seconds per suggestion."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    means = np.array([
        np.mean([r.ranks(max(1, round(share * r.regret.shape[2]))).mean(axis=1) for r in runs], axis=0)
        for share in SHARES
    ])  # fmt: skip
    for i, name in enumerate(methods):
        style = {"color": f"C{i % 10}", "linestyle": "-" if i < 10 else "--"}
        left.plot(SHARES, means[:, i], label=name, **style)
        seconds = float(np.mean([np.nanmean(r.seconds[i]) for r in runs]))
        right.plot(max(seconds, 1e-5), means[-1, i], "o", color=f"C{i % 10}")
        right.annotate(name, (max(seconds, 1e-5), means[-1, i]), fontsize=7, xytext=(4, 3), textcoords="offset points")
    left.set(xlabel="share of the budget", ylabel="mean rank")
    left.legend(fontsize=7)
    right.set(xlabel="seconds per suggestion", ylabel="mean rank at the end", xscale="log")
    return figure


def shares(pairs: Sequence[Pair], ours: str) -> "Figure":
    """The share of runs that a method wins from each other one, with its interval."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 0.9 + 0.3 * len(pairs)), layout="constrained")
    axis = figure.subplots()
    for row, pair in enumerate(reversed(pairs)):
        share = pair.share
        axis.plot([share.low, share.high], [row, row], color="C0", linewidth=4, alpha=0.35, solid_capstyle="butt")
        axis.plot(share.mean, row, "o", color="C0")
    axis.axvline(0.5, color="0.6", linewidth=1)
    labels = [f"{pair.other} ({pair.lower + pair.tied + pair.higher} runs)" for pair in reversed(pairs)]
    axis.set_yticks(range(len(pairs)), labels, fontsize=8)
    axis.set(xlim=(0.0, 1.0), xlabel=f"share of runs in which {ours} ends lower, ties half, 95 %")
    axis.spines[["top", "right"]].set_visible(False)
    return figure
