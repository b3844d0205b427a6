"""The view of a run on the terminal or in a notebook; nothing elsewhere."""

import io
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from presage.trial import Trial

if TYPE_CHECKING:
    from rich.console import RenderableType

    from presage.study import Study

BLOCKS = "▁▂▃▄▅▆▇█"
RUNNING = 8  # running trials that are listed
PAUSE = 0.25  # seconds between two pictures in a notebook
SHARE = 0.05  # of the time, at most, that goes into foretelling what remains


class View:
    """Shows nothing."""

    def update(self, study: "Study", trial: Trial) -> None:
        """A trial has ended."""


def sparkline(values: Sequence[float], width: int = 32) -> str:
    """Values as a row of blocks, the least lowest, by the logarithm of the distance from it; late ones on the right.

    Example:
        >>> sparkline([100.0, 10.0, 1.0, 0.0])
        '█▆▃▁'
    """
    if not values:
        return ""
    step = max(1.0, len(values) / width)
    some = [values[min(len(values) - 1, int((i + 1) * step) - 1)] for i in range(min(width, len(values)))]
    low, high = min(some), max(some)
    if high == low:
        return BLOCKS[0] * len(some)
    # Three decades are told apart; what is nearer to the least value than a thousandth of the range is at the bottom.
    heights = (math.log10(max((value - low) / (high - low), 1e-3)) / 3.0 + 1.0 for value in some)
    return "".join(BLOCKS[min(len(BLOCKS) - 1, int(height * len(BLOCKS)))] for height in heights)


class Live(View):
    """Trials done, the best so far and its course, what remains to be gained, and the trials that run."""

    def __init__(self, study: "Study", total: int | None):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.study, self.began, self.spent = study, time.monotonic(), 0.0
        self.outlook = ""
        self.bar = Progress(
            TextColumn("[bold]{task.description}", markup=True), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.fields[said]}", markup=False), TimeElapsedColumn(),
        )  # fmt: skip
        self.task = self.bar.add_task(study.direction, total=total, completed=study._history.finished, said="")

    def update(self, study: "Study", trial: Trial) -> None:
        complete = sum(bool(t.values) for t in study._history.trials)
        elapsed = time.monotonic() - self.began
        if complete < 8 or self.spent > SHARE * elapsed:
            return
        from presage.advice import remaining

        began = time.monotonic()
        left = remaining(study)
        self.spent += time.monotonic() - began
        chance = f"{left.probability:.0%} chance of more than {left.worth:.2g} better"
        self.outlook = f"after {complete} values: {chance}, {left.expected:.2g} expected"

    def __rich__(self) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        history = self.study._history
        trials, sign = list(history.trials), history.sign
        self.bar.update(self.task, completed=history.finished, said=self._said(trials, sign))
        parts: list[Any] = [self.bar]
        values = [sign * t.values[0] for t in trials if t.values]
        if values:
            best = list(accumulate(values, min))
            parts.append(Text.assemble("best ", (sparkline(best), "cyan"), "  ", (self.outlook, "dim")))
        running = [t for t in trials if t.state == "running"]
        if running:
            parts.append(_table(running))
        if history.paused:
            parts.append(Text("paused: nothing new starts until somebody resumes the study", style="yellow"))
        return Group(*parts)

    def _said(self, trials: list[Trial], sign: float) -> str:
        values = [sign * t.values[0] for t in trials if t.values]
        suggested = [t.latency for t in trials[-20:] if t.latency]
        failed = sum(t.state == "failed" for t in trials)
        return " · ".join([
            f"best {sign * min(values):.6g}" if values else "no value yet", *([f"{failed} failed"] if failed else []),
            *([f"suggestion {1e3 * sum(suggested) / len(suggested):.0f} ms"] if suggested else []),
        ])  # fmt: skip


def _table(running: list[Trial]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    made.add_column("running", justify="right")
    made.add_column("for", justify="right")
    made.add_column("params", overflow="ellipsis", no_wrap=True)
    now = time.time()
    for t in running[:RUNNING]:
        shown = " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in t.params.items())
        plain = "".join(c if c.isprintable() else "?" for c in shown)  # a name must not move the cursor
        made.add_row(str(t.number), f"{max(0.0, now - (t.suggested or now)):.0f} s", Text(plain))
    if len(running) > RUNNING:
        made.add_row("…", "", f"and {len(running) - RUNNING} more")
    return made


class InNotebook(Live):
    """The same in the output of a notebook's cell, drawn anew as trials end; needs no widgets."""

    def __init__(self, study: "Study", total: int | None):
        super().__init__(study, total)
        from IPython.display import display

        self.drawn = time.monotonic()
        self.handle = display(self._bundle(), raw=True, display_id=True)

    def update(self, study: "Study", trial: Trial) -> None:
        super().update(study, trial)
        if time.monotonic() - self.drawn >= PAUSE:
            self.draw()

    def draw(self) -> None:
        """Show what is so now."""
        self.drawn = time.monotonic()
        self.handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        from rich.console import Console

        console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True, force_jupyter=False)
        console.print(self)
        style = "white-space: pre; line-height: normal; font-family: monospace; overflow-x: auto"
        html = console.export_html(inline_styles=True, code_format=f'<pre style="{style}">{{code}}</pre>', clear=False)
        return {"text/html": html, "text/plain": console.export_text()}


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, whose output is not a terminal."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


@contextmanager
def show(study: "Study", trials: int | None, wanted: bool) -> Iterator[View]:
    """A live view while the block runs, where somebody can see it."""
    if wanted and in_notebook():
        drawn = InNotebook(study, trials)
        try:
            yield drawn
        finally:
            drawn.draw()
        return
    if not wanted or not sys.stderr.isatty():
        yield View()
        return
    from rich.console import Console
    from rich.live import Live as Screen

    view = Live(study, trials)
    with Screen(view, console=Console(stderr=True), refresh_per_second=4):
        yield view
