"""Figures of what the surrogate believes."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from presage.acquisitions import Context
from presage.errors import StudyError
from presage.insight import Model, Record, grid_2d, marginal_effect, record_of, slice_1d
from presage.insight import importance as sobol_importance
from presage.plots import _style as style

FEW = 9  # values of a dimension up to which cells say more than contours drawn between them
MOST_PANELS = 12  # dimensions that are shown; of more, the most important ones


def posterior(
    study: Any, name: str | None = None, *, at: Mapping[str, Any] | None = None, samples: int = 3,
    count: int | None = None,
) -> Figure:  # fmt: skip
    """The surrogate along one dimension: mean, band, a few samples, the data, and the acquisition below.

    Args:
        study: a Study, Result or Record.
        name: the dimension; the first if left out.
        at: the other params; those of the best trial if left out.
        samples: functions drawn from the posterior.
        count: only the first so many values; all if left out.
    """
    record = record_of(study)
    with style.figure(2, 1, (6.0, 4.2), sharex=True, height_ratios=[3, 1]) as (made, axes):
        _posterior(record, axes[0, 0], axes[1, 0], name, at, samples, count)
        axes[0, 0].legend(loc="best", ncols=2)
        axes[0, 0].set_title(style.label(_title(record, at, name), 90))
    return made


def steps(study: Any, name: str | None = None, *, counts: Sequence[int] | None = None, samples: int = 0) -> Figure:
    """The surrogate and the acquisition after more and more values, one column each.

    Args:
        study: a Study, Result or Record.
        name: the dimension; the first if left out.
        counts: after how many values; by default four steps from the initial design on.
        samples: functions drawn from the posterior.
    """
    record = record_of(study)
    counts = _counts(record, 4) if counts is None else list(counts)
    size = (2.4 * len(counts) + 0.6, 3.6)
    with style.figure(2, len(counts), size, sharex=True, height_ratios=[2.5, 1]) as (made, axes):
        for column, count in enumerate(counts):
            _posterior(record, axes[0, column], axes[1, column], name, None, samples, count)
            axes[0, column].set_title(f"after {count} values")
            if column:  # values compare across columns; acquisitions, whose level falls, only within one
                axes[0, column].sharey(axes[0, 0])
                axes[0, column].tick_params(labelleft=False)
                axes[0, column].set_ylabel("")
                axes[1, column].set_ylabel("")
    return made


def animation(
    study: Any, path: str | os.PathLike[str], name: str | None = None, *, counts: Sequence[int] | None = None,
    seconds: float = 0.8,
) -> None:  # fmt: skip
    """Write the steps of a search as an animated GIF.

    Args:
        study: a Study, Result or Record.
        path: of the file.
        name: the dimension; the first if left out.
        counts: after how many values there is a picture; by default every one from the initial design on.
        seconds: per picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    record = record_of(study)
    first = min(len(record.complete), max(2, record.history.header["initial"]))
    counts = range(first, len(record.complete) + 1) if counts is None else counts
    pictures = []
    values = [t.values[0] for t in record.complete]
    room = 0.15 * (max(values) - min(values)) or 1.0
    for count in counts:
        made = posterior(record, name, count=count, samples=0)
        made.axes[0].set_ylim(min(values) - room, max(values) + room)  # or the picture would jump
        made.axes[0].set_title(f"after {count} values")
        canvas = FigureCanvasAgg(made)
        canvas.draw()
        pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(64))
    pictures[0].save(path, "GIF", save_all=True, append_images=pictures[1:], duration=int(1000 * seconds), loop=0)


def _counts(record: Record, panels: int) -> list[int]:
    have = len(record.complete)
    first = min(have, max(2, record.history.header["initial"]))
    return sorted({int(n) for n in np.linspace(first, have, panels).round()})


def _posterior(
    record: Record, above: Axes, below: Axes, name: str | None, at: Mapping[str, Any] | None, samples: int,
    count: int | None,
) -> None:  # fmt: skip
    name = record.space.columns[0] if name is None else name
    if not record.complete:
        raise StudyError("a surrogate needs at least one value, but none was told yet")
    model = record.model() if count is None else record.model_of(record.prefix(count))
    cut = slice_1d(model, name, record.best.params if at is None else at, num=201)
    dimension = record.space[name]
    x = style.positions(dimension, cut.values)
    style.band(above, dimension, x, cut.mean, cut.low, cut.high)
    if samples:
        drawn = model.sample(cut.x, samples, np.random.default_rng(0))
        for i, one in enumerate(drawn):
            above.plot(
                x, one, color=style.GREEN, linewidth=0.8, linestyle=style.DASHES[1 + i % 3],
                label="samples" if i == 0 else None,
            )  # fmt: skip
    shown = [t for t in record.complete[:count] if name in t.params]
    alone = record.space.dim == 1
    above.plot(
        style.positions(dimension, [t.params[name] for t in shown]), [t.values[0] for t in shown], "o",
        color=style.BLACK, markersize=4 if alone else 2.5, alpha=1.0 if alone else 0.35,
        label="values" if alone else "values (others differ)", linestyle="none",
    )  # fmt: skip
    above.set_ylabel("value")
    worth = _acquisition(record, model, cut.x)
    best = int(np.argmax(worth))
    below.plot(x, worth, color=style.VERMILION)
    below.plot(x[best], worth[best], "v", color=style.VERMILION, markersize=6)
    below.set_ylabel("log EI" if "LogExpected" in type(record.proposer.acquisition).__name__ else "acquisition")
    if "Log" in type(record.proposer.acquisition).__name__:  # far below the peak a logarithm tells nothing
        below.set_ylim(max(worth.min(), worth.max() - 20.0) - 1.0, worth.max() + 2.0)
    style.set_axis(below, "x", name, dimension)


def _acquisition(record: Record, model: Model, x: np.ndarray) -> np.ndarray:
    """What points are worth; acquisitions that look at points of their own look at random ones."""
    data = model.data

    def candidates(rng: np.random.Generator) -> np.ndarray:
        return record.space.project(rng.random((512, record.space.dim)))

    context = Context(Context.best_of(model.posterior), data.count, data.x[data.mask], candidates)
    acquisition = record.proposer.acquisition.informed(data)
    ready = acquisition.prepare(model.posterior, context, rng=np.random.default_rng(0))
    return ready.values(model.posterior, x, context)


def _title(record: Record, at: Mapping[str, Any] | None, name: str | None) -> str:
    if record.space.dim == 1:
        return record.name
    return f"{record.name}: others as in {'the best trial' if at is None else 'the given params'}"


def _shown(record: Record, model: Model, names: Sequence[str] | None) -> list[str]:
    if names is not None:
        return list(names)
    columns = list(record.space.columns)
    if len(columns) <= MOST_PANELS:
        return columns
    kept = {row[0] for row in sobol_importance(model).summary()[:MOST_PANELS]}
    return [name for name in columns if name in kept]


def slices(study: Any, names: Sequence[str] | None = None, *, at: Mapping[str, Any] | None = None) -> Figure:
    """The surrogate along each dimension through the best trial, or through given params, with its 95 % band."""
    record = record_of(study)
    model = record.model()
    through = "the best trial" if at is None else "the given params"
    at = record.best.params if at is None else at
    cuts = [slice_1d(model, name, at) for name in _shown(record, model, names)]
    return _panels(record, cuts, at, f"{record.name}: through {through}")


def effects(study: Any, names: Sequence[str] | None = None) -> Figure:
    """The effect of each dimension averaged over all the others, with 95 % of the posterior."""
    record = record_of(study)
    model = record.model()
    cuts = [marginal_effect(model, name) for name in _shown(record, model, names)]
    return _panels(record, cuts, None, f"{record.name}: averaged over the other dimensions")


def _panels(record: Record, cuts: Sequence[Any], at: Mapping[str, Any] | None, title: str) -> Figure:
    rows, columns = style.wrapped(len(cuts))
    with style.figure(rows, columns, (2.4 * columns + 0.6, 2.1 * rows + 0.3), sharey=True) as (made, axes):
        for ax, cut in zip(axes.flat, cuts, strict=False):
            dimension = record.space[cut.name]
            style.band(ax, dimension, style.positions(dimension, cut.values), cut.mean, cut.low, cut.high)
            if at is not None and cut.name in at:
                ax.axvline(
                    style.positions(dimension, [at[cut.name]])[0], color=style.VERMILION, linestyle="--", linewidth=1
                )
            style.set_axis(ax, "x", cut.name, dimension)
        for ax in list(axes.flat)[len(cuts) :]:
            ax.set_visible(False)
        for ax in axes[:, 0]:
            ax.set_ylabel("value")
        made.suptitle(style.label(title, 80), fontsize=9)
    return made


def contour(
    study: Any, first: str | None = None, second: str | None = None, *, at: Mapping[str, Any] | None = None
) -> Figure:
    """The surrogate over two dimensions: its mean and its standard deviation, with the trials on them.

    Args:
        study: a Study, Result or Record.
        first: the horizontal dimension; the most important one if left out.
        second: the vertical one; the next in importance.
        at: the other params; those of the best trial if left out.
    """
    record = record_of(study)
    if record.space.dim < 2:
        raise StudyError("a contour needs two dimensions, but the space has one; use posterior")
    model = record.model()
    at = record.best.params if at is None else at
    if first is None or second is None:
        order = record.space.columns if record.space.dim == 2 else [row[0] for row in sobol_importance(model).summary()]
        free = [name for name in order if name not in (first, second)]
        first = first if first is not None else free.pop(0)
        second = second if second is not None else free.pop(0)
    grid = grid_2d(model, first, second, at)
    x, y = (style.positions(record.space[n], v) for n, v in zip(grid.names, grid.values, strict=True))
    with style.figure(1, 2, (7.6, 3.3), sharex=True, sharey=True) as (made, axes):
        for ax, values, title, colors in (
            (axes[0, 0], grid.mean, "mean", "cividis" if record.sign < 0 else "cividis_r"),
            (axes[0, 1], grid.stddev, "standard deviation", "Purples"),
        ):
            if min(len(x), len(y)) > FEW and not np.isnan(values).any() and not _has_options(record, grid.names):
                image = ax.contourf(x, y, values, 14, cmap=colors)
                ax.contour(x, y, values, 14, colors="black", linewidths=0.2)
            else:
                image = ax.pcolormesh(x, y, values, cmap=colors, shading="nearest")
            shown = [t for t in record.complete if first in t.params and second in t.params]
            ax.plot(
                style.positions(record.space[first], [t.params[first] for t in shown]),
                style.positions(record.space[second], [t.params[second] for t in shown]),
                "o", color="white", markeredgecolor="black", markersize=3.5, markeredgewidth=0.6, linestyle="none",
                clip_on=False,
            )  # fmt: skip
            failed = [t for t in record.trials if t.failure and first in t.params and second in t.params]
            ax.plot(
                style.positions(record.space[first], [t.params[first] for t in failed]),
                style.positions(record.space[second], [t.params[second] for t in failed]),
                "x", color="black", markersize=5,
            )  # fmt: skip
            best = record.best.params
            if first in best and second in best:
                ax.plot(
                    style.positions(record.space[first], [best[first]]),
                    style.positions(record.space[second], [best[second]]),
                    "*", color=style.ORANGE, markeredgecolor="black", markersize=12,
                )  # fmt: skip
            style.set_axis(ax, "x", first, record.space[first])
            style.set_axis(ax, "y", second, record.space[second])
            ax.set_title(title)
            ax.grid(False)
            made.colorbar(image, ax=ax)
        axes[0, 1].set_ylabel("")
        rest = "" if record.space.dim == 2 else ", others as in the best trial"
        made.suptitle(style.label(f"{record.name}{rest} (star: best, cross: failed)", 90), fontsize=9)
    return made


def _has_options(record: Record, names: Sequence[str]) -> bool:
    return any(record.space[name].kind == "categorical" for name in names)


def importance(study: Any) -> Figure:
    """How much of the surrogate's variation each dimension explains, alone and with interactions.

    Bars are means over functions drawn from the posterior, whiskers hold 90 % of the draws.
    """
    record = record_of(study)
    rows = sobol_importance(record.model()).summary()[::-1]
    names, first, total, low, high = (np.array(column) for column in zip(*rows, strict=True))
    with style.figure(size=(5.6, 1.2 + 0.32 * len(rows))) as (made, axes):
        ax = axes[0, 0]
        y = np.arange(len(rows))
        error = np.abs([total - np.minimum(low, total), np.maximum(high, total) - total])
        ax.barh(
            y,
            total,
            0.7,
            color=style.SKY,
            edgecolor="0.25",
            linewidth=0.5,
            xerr=error,
            capsize=3,
            label="with interactions",
        )
        ax.barh(y, np.maximum(first, 0.0), 0.35, color=style.BLUE, label="alone")
        ax.set_yticks(y, [style.label(name, 24) for name in names])
        ax.set(xlabel="share of variance (Sobol index), whiskers 90 %", xlim=(0, max(1.0, float(high.max()) * 1.02)))
        ax.grid(axis="y", visible=False)
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return made
