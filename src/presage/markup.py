"""Pieces of HTML for notebooks and reports. Names and values are data: whatever they hold is shown, never obeyed."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["fragment", "table", "text"]

LONGEST = 400  # characters of one cell


def text(value: Any) -> str:
    """Any value as harmless text; a float as one reads it.

    Example:
        >>> text("<b>"), text(0.1 + 0.2)
        ('&lt;b&gt;', '0.3')
    """
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    return escape("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in shown))


def table(rows: Iterable[Sequence[Any]], head: Sequence[Any] = ()) -> str:
    """Rows of cells, with a row of titles or without."""
    titles = "<thead><tr>" + "".join(f"<th>{text(title)}</th>" for title in head) + "</tr></thead>" if head else ""
    cells = ("".join(f'<td style="text-align: left">{_short(cell)}</td>' for cell in row) for row in rows)
    return f"<table>{titles}<tbody>{''.join(f'<tr>{row}</tr>' for row in cells)}</tbody></table>"


def fragment(title: str, said: Any, *parts: str, folded: Iterable[tuple[str, str]] = ()) -> str:
    """A piece of a page: a title with a sentence, parts, and parts that open on a click."""
    more = "".join(f"<details><summary>{text(name)}</summary>{part}</details>" for name, part in folded)
    return f"<div><b>{text(title)}</b> {text(said)}{''.join(parts)}{more}</div>"


def _short(value: Any) -> str:
    if isinstance(value, float) or len(shown := str(value)) <= LONGEST:
        return text(value)
    return text(shown[: LONGEST - 1] + "…")
