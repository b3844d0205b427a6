"""Figures of what happened: values, params, workers, and whether predictions came true."""

import time
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from presage.errors import StudyError
from presage.insight import best_so_far, foretell, record_of
from presage.insight import timeline as timeline_rows
from presage.insight.record import Record
from presage.plots import _style as style
from presage.plots.arrays import reliability


def history(study: Any, *, log: bool | None = None) -> Figure:
    """Values by trial, the best so far as a line, failures as crosses below.

    Args:
        study: a Study, Result or Record.
        log: a logarithmic axis of values; by default where they are positive and span several decades.
    """
    record = record_of(study)
    with style.figure() as (made, axes):
        ax = axes[0, 0]
        values = np.array([t.values[0] for t in record.trials if t.values])
        positive = len(values) > 0 and values.min() > 0
        if log or (log is None and positive and values.max() / values.min() > style.SEVERAL_DECADES):
            ax.set_yscale("log")
        for color, (source, marker) in zip(style.CYCLE[1:], style.MARKERS.items(), strict=False):
            shown = [t for t in record.trials if t.values and t.source == source]
            if shown:
                ax.plot(
                    [t.number for t in shown], [t.values[0] for t in shown], marker, color=color, markersize=4,
                    alpha=0.7, label=source, linestyle="none",
                )  # fmt: skip
        ax.step(*best_so_far(record.trials, record.sign), where="post", color=style.BLUE, label="best so far")
        failed = [t.number for t in record.trials if t.failure]
        if failed:
            ax.plot(
                failed, np.full(len(failed), 0.02), "x", color=style.BLACK, transform=ax.get_xaxis_transform(),
                clip_on=False, label=f"failed ({len(failed)})",
            )  # fmt: skip
        ax.set(
            xlabel="trial", ylabel="value", title=style.label(f"{record.name} ({record.history.header['direction']})")
        )
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="best")
    return made


def parallel(study: Any, *, most: int = 500) -> Figure:
    """Every trial as a line through its params, coloured by rank of its value; the best ones on top.

    Args:
        study: a Study, Result or Record.
        most: trials that are drawn, the best ones.
    """
    record = record_of(study)
    ranked = sorted(record.complete, key=lambda t: -record.sign * t.values[0])[-most:]
    names = record.space.columns
    with style.figure(size=(max(5.0, 1.3 * len(names) + 2.0), 3.6)) as (made, axes):
        ax = axes[0, 0]
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        colors = colormaps["cividis_r"]
        for rank, t in enumerate(ranked):
            quality = rank / max(1, len(ranked) - 1)  # 0 the worst, 1 the best
            best = rank == len(ranked) - 1
            ax.plot(
                range(len(names)), record.history.points[t.number], color=style.VERMILION if best else colors(quality),
                alpha=1.0 if best else 0.35 + 0.5 * quality, linewidth=2.2 if best else 0.8,
                marker="o", markersize=4 if best else 1.5,  # a line shows nothing where a neighbour is absent
            )  # fmt: skip
        for column, name in enumerate(names):
            dimension = record.space[name]
            ends = [dimension.decode(0.0), dimension.decode(1.0)]
            texts = [style.label(f"{end:.3g}" if isinstance(end, float) else end, 12) for end in ends]
            ax.text(column, -0.03, texts[0], ha="center", va="top", fontsize=7)
            ax.text(column, 1.03, texts[1], ha="center", va="bottom", fontsize=7)
            ax.axvline(column, color="0.6", linewidth=0.8, zorder=0)
        ax.set_xticks(range(len(names)), [style.label(name, 16) for name in names])
        ax.tick_params(axis="x", pad=14, length=0)
        ax.set(yticks=[], ylim=(0, 1), xlim=(-0.3, len(names) - 0.7))
        ax.grid(False)
        ax.spines[["left", "bottom"]].set_visible(False)
        bar = made.colorbar(ScalarMappable(Normalize(0, 1), colors), ax=ax, ticks=[0, 1], shrink=0.7)
        bar.ax.set_yticklabels(["worst", "good"])
        ax.set_title(style.label(f"{record.name}: the best trial in red", 80), pad=16)
    return made


def timeline(study: Any) -> Figure:
    """Which worker ran which trial when; one row per worker of each process."""
    record = record_of(study)
    rows = timeline_rows(record.history, time.time())
    if not rows:
        raise StudyError("a timeline needs a trial that was handed out, but there is none")
    lanes = list(dict.fromkeys((row["worker"], row["lane"]) for row in rows))
    begin = min(row["start"] for row in rows)
    looks = {
        "complete": (style.SKY, "", "complete"), "failed": (style.VERMILION, "//", "failed"),
        "running": (style.YELLOW, "..", "running"), "waiting": ("0.8", "", "given back"),
    }  # fmt: skip
    with style.figure(size=(6.0, 1.2 + 0.3 * len(lanes))) as (made, axes):
        ax = axes[0, 0]
        for state, (color, hatch, text) in looks.items():
            mine = [row for row in rows if row["state"] == state]
            if mine:
                ax.barh(
                    [lanes.index((row["worker"], row["lane"])) for row in mine],
                    [max(row["end"] - row["start"], 1e-9) for row in mine],
                    left=[row["start"] - begin for row in mine],
                    color=color, edgecolor="0.25", linewidth=0.5, hatch=hatch, height=0.7, label=text,
                )  # fmt: skip
        ax.set_yticks(range(len(lanes)), [style.label(_short(worker, lane), 24) for worker, lane in lanes])
        ax.invert_yaxis()
        ax.set(xlabel="seconds since the first trial", title=style.label(record.name))
        ax.grid(axis="y", visible=False)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return made


def _short(worker: str, lane: int) -> str:
    """host:process of an owner, without the start time that tells processes apart."""
    name = worker.rpartition(":")[0] or worker or "unknown"
    return f"{name} #{lane + 1}"


def calibration(study: Any, *, start: int | None = None) -> Figure:
    """Whether predictions came true: intervals against the share of values inside, and the histogram of the PIT.

    Each value is foretold by a surrogate that was fitted to earlier values only.
    """
    record: Record = record_of(study)
    found = foretell(record, start)
    if not len(found.pit):
        raise StudyError("calibration needs values after the initial design, but there are none yet")
    return reliability(found.pit, title=f"{record.name}: {len(found.pit)} values foretold")
