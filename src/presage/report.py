"""A study as one HTML file that can be mailed: figures, tables, settings, diagnostics; nothing comes from elsewhere."""

import base64
import io
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from presage import advice, plots
from presage.errors import PresageError, StudyError
from presage.insight import Record, foretell, record_of, reliability
from presage.markup import text as _text
from presage.table import summary

FIGURES = {
    "history": "Values by trial, and the best so far",
    "importance": "How much of the variation each parameter explains",
    "slices": "What the model expects around the best trial",
    "effects": "The effect of each parameter, averaged over the others",
    "contour": "The two most important parameters",
    "parallel": "All trials",
    "calibration": "Whether predictions came true",
    "timeline": "Who ran which trial when",
}
ROWS = 1000  # trials in the table, the best and the failed ones first to stay
STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 960px; margin: 24px auto; padding: 0 16px; }
h1, td, li, dd, pre { overflow-wrap: anywhere; }
h2 { margin-top: 32px; border-bottom: 1px solid var(--line); }
img { max-width: 100%; background: #fff; border-radius: 6px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
td, th { padding: 3px 10px; border-bottom: 1px solid var(--line); text-align: left; }
td.n, th.n { text-align: right; }
.scroll { overflow-x: auto; }
.dim { color: var(--dim); }
.warning { font-weight: 600; }
pre { white-space: pre-wrap; border: 1px solid var(--line); border-radius: 6px; padding: 8px; font-size: 12px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; }
dd { margin: 0; }
dt { color: var(--dim); }
tr.best { font-weight: 700; }
@media print { h2 { break-after: avoid; } img { break-inside: avoid; } }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def html(study: Any) -> str:
    """The report of a Study, Result or Record."""
    record = record_of(study)
    facts = summary(record.name, record.history, record.storage.living(record.name))
    body = [
        f"<h1>{_text(record.name)}</h1>",
        f'<p class="dim">presage report, {_when(time.time())}; study of {_when(facts["created"])}</p>',
        _numbers(facts), _best(record), _outlook(record),
        *(_figure(record, name, title) for name, title in FIGURES.items()),
        _settings(record), _diagnostics(record), _failures(record), _notes(record), _trials(record),
    ]  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(record.name)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body></html>\n"
    )


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _pairs(pairs: Iterable[tuple[Any, Any]]) -> str:
    return "<dl>" + "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in pairs) + "</dl>"


def _numbers(facts: dict[str, Any]) -> str:
    states = ", ".join(
        f"{facts[state]} {state}" for state in ("complete", "failed", "running", "waiting") if facts[state]
    )
    return f"<p>{_text(facts['direction'])}, {facts['trials']} trials{': ' if states else ''}{states}.</p>"


def _best(record: Record) -> str:
    if not record.complete:
        return "<p>No trial has a value yet.</p>"
    best = record.best
    full = [(name, value if isinstance(value, str) else repr(value)) for name, value in best.params.items()]
    return f"<h2>Best</h2><p><b>{_text(repr(best.value))}</b> at trial {best.number}</p>{_pairs(full)}"


def _outlook(record: Record) -> str:
    parts = ["<h2>Outlook</h2>"]
    try:
        left = advice.remaining(record)
        parts.append(
            f"<p>Expected improvement still to be found: {_text(left.expected)}. An improvement of more than "
            f"{_text(left.worth)} remains with probability {left.probability:.0%}.</p>"
        )
    except PresageError as error:
        parts.append(f'<p class="dim">{_text(error)}</p>')
    found = advice.advise(record)
    parts.append("".join(f'<p class="{a.level}">{_text(a.text)}. <span>{_text(a.remedy)}.</span></p>' for a in found))
    return "".join(parts)


def _figure(record: Record, name: str, title: str) -> str:
    try:
        made = plots.OF_STUDY[name](record)
    except StudyError as error:
        return f'<h2>{_text(title)}</h2><p class="dim">Left out: {_text(error)}.</p>'
    picture = io.BytesIO()
    made.savefig(picture, format="png", dpi=120)
    data = base64.b64encode(picture.getvalue()).decode()
    return f'<h2>{_text(title)}</h2><img alt="{_text(title)}" src="data:image/png;base64,{data}">'


def _settings(record: Record) -> str:
    header = record.history.header
    settings = {
        what: value if isinstance(value, str) else value["object"] for what, value in record.history.settings.items()
    }
    more = {what: header[what] for what in ("initial", "seed", "replicates")}
    versions = ", ".join(f"{name} {version}" for name, version in header.get("versions", {}).items())
    axes = _pairs((name, repr(axis)) for name, axis in record.space.items())
    return f"<h2>Settings</h2>{_pairs([*settings.items(), *more.items(), ('versions', versions)])}<h3>Space</h3>{axes}"


def _diagnostics(record: Record) -> str:
    found = foretell(record)
    if len(found.pit) < 4:
        return ""
    inside = reliability(found.pit, np.array([0.5, 0.9]))[1]
    error = float(np.sqrt(np.mean((found.mean - found.value) ** 2)))
    rows = [
        ("values foretold before they were seen", len(found.pit)),
        ("inside their 50 % interval", f"{inside[0]:.0%}"), ("inside their 90 % interval", f"{inside[1]:.0%}"),
        ("mean log density", float(found.log_density.mean())), ("root mean squared error", error),
    ]  # fmt: skip
    return f"<h2>Diagnostics</h2>{_pairs(rows)}"


def _failures(record: Record) -> str:
    failed = [t for t in record.trials if t.failure][-20:]
    if not failed:
        return ""
    parts = [f"<h2>Failures</h2><p>{sum(bool(t.failure) for t in record.trials)} trials failed.</p>"]
    for t in reversed(failed):
        assert t.failure is not None
        parts.append(
            f"<details><summary>trial {t.number}: {_text(t.failure.kind)}: {_text(t.failure.message[:300])}</summary>"
            f"<pre>{_text(t.failure.traceback or 'no traceback')}</pre></details>"
        )
    return "".join(parts)


def _notes(record: Record) -> str:
    if not record.history.notes:
        return ""
    rows = []
    for note in record.history.notes:
        where = "" if note["number"] is None else f"trial {note['number']}, "
        rows.append(f"<li>{_text(note['text'])} <span class=dim>{where}{_when(note['at'])}</span></li>")
    return f"<h2>Notes</h2><ul>{''.join(rows)}</ul>"


def _trials(record: Record) -> str:
    best = record.best.number if record.complete else None
    ranked = sorted(record.trials, key=lambda t: record.sign * t.values[0] if t.values else -np.inf)[:ROWS]
    names = list(record.space)
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    rows = []
    for t in sorted(ranked, key=lambda t: t.number):
        cells = "".join(f"<td>{_text(t.params[name]) if name in t.params else ''}</td>" for name in names)
        value = "" if t.value is None else _text(t.value)
        look = ' class="best"' if t.number == best else ""
        rows.append(f"<tr{look}><td class=n>{t.number}</td><td>{t.state}</td><td class=n>{value}</td>{cells}</tr>")
    left = f'<p class="dim">The {ROWS} best of {len(record.trials)}.</p>' if len(record.trials) > ROWS else ""
    return (
        f"<h2>Trials</h2>{left}<div class=scroll><table><thead><tr><th class=n>trial</th><th>state</th>"
        f"<th class=n>value</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
