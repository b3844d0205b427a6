"""Figures of plain arrays: regret, chains, calibration, learning curves, architectures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from presage.errors import StudyError
from presage.insight.calibration import reliability as coverage
from presage.insight.chains import rhat
from presage.insight.progress import regret_band
from presage.plots import _style as style


def regret(
    values: Mapping[str, np.ndarray], optimum: float = 0.0, *, direction: str = "minimize",
    quantiles: tuple[float, float] = (0.25, 0.75),
) -> Figure:  # fmt: skip
    """Distance from the optimum by evaluations: median over repeats as a line, quantiles as a band.

    Args:
        values: by method, objective values in order, [repeat, n].
        optimum: the best possible value.
        direction: minimize or maximize.
        quantiles: the ends of the band.
    """
    sign = 1.0 if direction == "minimize" else -1.0
    with style.figure() as (made, axes):
        ax = axes[0, 0]
        for i, (name, repeats) in enumerate(values.items()):
            low, middle, high = regret_band(repeats, optimum, sign, quantiles)
            color, dash = style.CYCLE[i % len(style.CYCLE)], style.DASHES[i % len(style.DASHES)]
            x = np.arange(1, len(middle) + 1)
            ax.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
            ax.plot(
                x, middle, color=color, linestyle=dash, label=f"{style.label(name)} ({len(np.atleast_2d(repeats))})"
            )
        if all((regret_band(v, optimum, sign, quantiles).low > 0).all() for v in values.values()):
            ax.set_yscale("log")
        share = "interquartile range" if quantiles == (0.25, 0.75) else f"{quantiles[0]:.0%} to {quantiles[1]:.0%}"
        ax.set(xlabel="evaluations", ylabel="regret of the best so far", title=f"median and {share} over repeats")
        ax.legend()
    return made


def reliability(pit: np.ndarray, *, title: str = "") -> Figure:
    """Calibration from probability integral transforms: reliability of central intervals, and their histogram.

    The grey bands hold 95 % of what a calibrated model would show with as many values.
    """
    from scipy.stats import binom

    pit = np.asarray(pit, dtype=float)
    levels, inside = coverage(pit)
    count = len(pit)
    with style.figure(1, 2, (7.0, 3.2)) as (made, axes):
        left, right = axes[0]
        low, high = (binom.ppf(q, count, levels) / count for q in (0.025, 0.975))
        left.fill_between(levels, low, high, color="0.85", linewidth=0, label="calibrated, 95 %")
        left.plot([0, 1], [0, 1], color="0.5", linestyle="--")
        left.plot(levels, inside, "o-", color=style.BLUE, markersize=3, label="model")
        left.set(xlabel="central interval", ylabel="share of values inside", xlim=(0, 1), ylim=(0, 1.02))
        left.legend(loc="upper left")
        bins = int(np.clip(count // 8, 4, 20))
        right.axhspan(*(binom.ppf(q, count, 1 / bins) for q in (0.025, 0.975)), color="0.85", linewidth=0)
        right.hist(pit, np.linspace(0, 1, bins + 1), color=style.SKY, edgecolor="0.25", linewidth=0.5)
        right.axhline(count / bins, color="0.5", linestyle="--")
        right.set(xlabel="predictive probability below the value (PIT)", ylabel="values", xlim=(0, 1))
        made.suptitle(style.label(title, 80), fontsize=9)
    return made


def traces(chains: np.ndarray, names: Sequence[str] | None = None) -> Figure:
    """Markov chains: each parameter's trace and histogram by chain, with its R-hat.

    Args:
        chains: draws, [chain, draw, parameter].
        names: of the parameters.
    """
    chains = np.asarray(chains, dtype=float)
    if chains.ndim != 3:
        raise StudyError(f"chains must be [chain, draw, parameter], but got shape {chains.shape}")
    count = chains.shape[2]
    names = [f"parameter {i}" for i in range(count)] if names is None else names
    worst = rhat(chains)
    with style.figure(count, 2, (7.0, 0.6 + 1.3 * count), width_ratios=[3, 1]) as (made, axes):
        for j, (left, right) in enumerate(axes):
            bins = np.linspace(chains[..., j].min(), chains[..., j].max() + 1e-12, 41)
            for c, chain in enumerate(chains[..., j]):
                color = style.CYCLE[c % len(style.CYCLE)]
                left.plot(chain, color=color, linewidth=0.6, alpha=0.8)
                right.hist(chain, bins, histtype="step", color=color, orientation="horizontal", density=True)
            warn = worst[j] > 1.01
            left.set_title(
                f"R-hat {worst[j]:.3f}" + (": chains disagree" if warn else ""),
                color=style.VERMILION if warn else "0.2",
                loc="right",
            )
            left.set_ylabel(style.label(names[j], 18))
            right.set(xticks=[], yticklabels=[])
        axes[-1, 0].set_xlabel("draw")
        axes[-1, 1].set_xlabel("density")
    return made


def curves(
    observed: Sequence[Sequence[tuple[float, float]]], forecasts: Sequence[Any] | None = None, *,
    decisions: Sequence[str | None] | None = None, names: Sequence[str] | None = None, quantity: str = "value",
) -> Figure:  # fmt: skip
    """Learning curves as far as they went, forecasts of the rest, and what was decided.

    Args:
        observed: per curve, (step, value) pairs.
        forecasts: per curve None or (steps [m], mean [m], stddev [m]).
        decisions: per curve None or what was decided at its last step: go, pause, stop.
        names: of the curves.
        quantity: what the values are.
    """
    ends = {"stop": ("X", style.VERMILION), "pause": ("s", style.ORANGE), "go": (">", style.GREEN)}
    with style.figure() as (made, axes):
        ax = axes[0, 0]
        for i, curve in enumerate(observed):
            color, dash = style.CYCLE[i % len(style.CYCLE)], style.DASHES[i % len(style.DASHES)]
            steps, values = np.array(curve, dtype=float).reshape(-1, 2).T
            name = style.label(names[i]) if names is not None else f"curve {i}"
            few = len(observed) <= len(style.CYCLE)
            ax.plot(steps, values, color=color, linestyle=dash if few else "-", label=name if few else None)
            ahead = forecasts[i] if forecasts is not None else None
            if ahead is not None:
                at, mean, stddev = (np.asarray(part, dtype=float) for part in ahead)
                ax.fill_between(at, mean - 2 * stddev, mean + 2 * stddev, color=color, alpha=0.15, linewidth=0)
                ax.plot(at, mean, color=color, linestyle=":", linewidth=1.0)
            decision = decisions[i] if decisions is not None else None
            if decision in ends and len(steps):
                marker, edge = ends[decision]
                ax.plot(steps[-1:], values[-1:], marker, color=edge, markersize=7, markeredgecolor="black")
        for decision, (marker, edge) in ends.items():
            if decisions is not None and decision in decisions:
                ax.plot([], [], marker, color=edge, markeredgecolor="black", linestyle="none", label=decision)
        ax.set(xlabel="step", ylabel=style.label(quantity), title="dotted: forecast, band: 2 standard deviations")
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
    return made


def architecture(
    depth: Sequence[int], width: Sequence[int], score: Sequence[float], *, quantity: str = "score",
    direction: str = "minimize",
) -> Figure:  # fmt: skip
    """Scores of networks by depth and width: one cell per architecture, the mean where one was tried repeatedly.

    Args:
        depth: hidden layers, [n].
        width: units per layer, [n].
        score: of each trial, [n].
        quantity: what the score is.
        direction: whether less or more of it is better; the best cell is framed.
    """
    depths, widths = np.unique(depth), np.unique(width)
    total, times = np.zeros((2, len(depths), len(widths)))
    at = np.searchsorted(depths, depth), np.searchsorted(widths, width)
    np.add.at(total, at, np.asarray(score, dtype=float))
    np.add.at(times, at, 1.0)
    mean = np.divide(total, times, out=np.full(total.shape, np.nan), where=times > 0)
    sign = 1.0 if direction == "minimize" else -1.0
    with style.figure(size=(1.6 + 0.75 * len(widths), 1.5 + 0.5 * len(depths))) as (made, axes):
        from matplotlib.patches import Rectangle

        ax = axes[0, 0]
        image = ax.imshow(mean, origin="lower", aspect="auto", cmap="cividis_r" if sign > 0 else "cividis")
        middle = 0.5 * (np.nanmin(mean) + np.nanmax(mean))
        for row, column in np.argwhere(times > 0):
            value = mean[row, column]
            bright = (value > middle) == (sign < 0)
            text = f"{value:.3g}" + (f"\n({times[row, column]:.0f})" if times[row, column] > 1 else "")
            ax.text(column, row, text, ha="center", va="center", fontsize=7, color="black" if bright else "white")
        row, column = np.unravel_index(np.nanargmin(sign * mean), mean.shape)
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=style.VERMILION, linewidth=2.5))
        ax.set_xticks(range(len(widths)), [str(w) for w in widths])
        ax.set_yticks(range(len(depths)), [str(d) for d in depths])
        ax.grid(False)
        ax.set(
            xlabel="width (units per layer)", ylabel="depth (hidden layers)", title="best framed, repeats in brackets"
        )
        made.colorbar(image, ax=ax, label=style.label(quantity))
    return made
