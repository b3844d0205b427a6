"""A design as one HTML file: the design, curves and forecasts, score against size, calibration, what was done."""

import base64
import io
from typing import Any

import numpy as np

from presage.design.networks import NetworkObjective
from presage.design.run import Design
from presage.markup import text as _text
from presage.plots._style import BLUE, ORANGE, VERMILION, figure

__all__ = ["calibration", "curves", "html", "sizes"]

STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 960px; margin: 24px auto; padding: 0 16px; }
img { max-width: 100%; background: #fff; border-radius: 6px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
td, th { padding: 3px 10px; border-bottom: 1px solid var(--line); text-align: left; }
tr.best { font-weight: 700; }
.dim { color: var(--dim); }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def curves(design: Design) -> Any:
    """Training curves of all networks, and the model's forecast of every one that was not finished."""
    mean, stddev = design.forecast
    with figure() as (made, axes):
        ax = axes[0, 0]
        last = design.runs.steps[-1]
        for trial in design.history:
            steps, values = zip(*trial.reports, strict=True)
            chosen = trial.params == design.best
            ax.plot(
                steps,
                values,
                color=VERMILION if chosen else BLUE,
                alpha=1.0 if chosen else 0.5,
                marker=".",
                zorder=2 + chosen,
            )
            if trial.state == "paused":
                row = trial.number
                ax.plot([steps[-1], last], [values[-1], mean[row]], color=BLUE, alpha=0.25, linestyle=":")
                ax.errorbar(last, mean[row], 2.0 * stddev[row], color=ORANGE, alpha=0.5, fmt="o", markersize=3)
        ends = [value for trial in design.history for _, value in trial.reports[-1:]]
        low, high = min(ends), np.quantile(ends, 0.9)
        ax.set_ylim(low - 0.3 * (high - low + 1e-3), high + 1.5 * (high - low + 1e-3))
        ax.set_xscale("log")
        ax.set_xlabel("steps")
        ax.set_ylabel("negative log density of rows kept back")
        ax.set_title("red: the design chosen; orange: where others would end, two standard deviations")
    return made


def sizes(design: Design) -> Any:
    """Last values against the number of weights."""
    objective = design.runs.objective
    assert isinstance(objective, NetworkObjective)
    with figure() as (made, axes):
        ax = axes[0, 0]
        for state, color in (("paused", ORANGE), ("complete", BLUE)):
            some = [trial for trial in design.history if trial.state == state]
            ax.plot(
                [objective.weights(trial.params) for trial in some], [trial.reports[-1][1] for trial in some], "o",
                color=color, label=state,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlabel("weights")
        ax.set_ylabel("last negative log density")
        ax.legend()
    return made


def calibration(design: Design) -> Any:
    """How many of the rows kept back lay within central intervals of every probability."""
    level = np.linspace(0.0, 1.0, 41)
    inside = [(np.abs(design.shares - 0.5) <= 0.5 * p).mean() for p in level]
    with figure(size=(4.0, 4.0)) as (made, axes):
        ax = axes[0, 0]
        ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
        ax.plot(level, inside, color=BLUE)
        ax.set_xlabel("probability of the interval")
        ax.set_ylabel("share of rows kept back inside")
    return made


def html(design: Design, title: str) -> str:
    """The report."""
    parts = [f"<h1>{_text(title)}</h1>"]
    within = float((np.abs(design.shares - 0.5) <= 0.45).mean())
    parts.append(
        f"<p>{_text(_said(design.best))}</p><p>Mean log density of rows kept back: {design.score:.4f}. Within their "
        f"90 % intervals, after stretching spreads by {design.model.scale:.2f}: {within:.0%}.</p>"
    )
    for name, made in (("Curves and forecasts", curves), ("Score against size", sizes), ("Calibration", calibration)):
        parts.append(f"<h2>{name}</h2>{_picture(made(design), name)}")
    notes = design.notes or ("nothing had to be done: all columns are numbers without gaps",)
    parts.append("<h2>The table</h2><ul>" + "".join(f"<li>{_text(note)}</li>" for note in notes) + "</ul>")
    rows = []
    for trial in sorted(design.history, key=lambda t: t.reports[-1][1]):
        look = ' class="best"' if trial.params == design.best else ""
        step, value = trial.reports[-1]
        rows.append(
            f"<tr{look}><td>{trial.number}</td><td>{trial.state}</td><td>{step}</td><td>{value:.4f}</td>"
            f"<td>{_text(_said(trial.params))}</td></tr>"
        )
    parts.append(
        "<h2>Networks</h2><table><tr><th>number</th><th>state</th><th>step</th><th>negative log density</th>"
        f"<th>design</th></tr>{''.join(rows)}</table>"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _said(params: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in params.items()
    )


def _picture(made: Any, title: str) -> str:
    data = io.BytesIO()
    made.savefig(data, format="png", dpi=120)
    return f'<img alt="{title}" src="data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}">'
