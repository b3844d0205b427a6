"""A progress bar on the terminal or in a notebook; nothing elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from presage.trial import Trial

if TYPE_CHECKING:
    from presage.study import Study


class View:
    """Shows nothing."""

    def update(self, study: "Study", trial: Trial) -> None:
        """A trial has ended."""


class Bar(View):
    """Trials done, the best so far, and how long a suggestion takes."""

    def __init__(self, bar: Any, task: Any):
        self.bar, self.task = bar, task

    def update(self, study: "Study", trial: Trial) -> None:
        history = study._history
        sign = 1.0 if study.direction == "minimize" else -1.0
        values = [sign * t.values[0] for t in history.trials if t.values]
        suggested = [t.latency for t in history.trials if t.latency]
        self.bar.update(
            self.task, completed=history.finished, best=f"{sign * min(values):.6g}" if values else "none yet",
            failed=f" · {failed} failed" if (failed := sum(t.state == "failed" for t in history.trials)) else "",
            pace=f"{1e3 * sum(suggested[-20:]) / len(suggested[-20:]):.0f} ms" if suggested else "-",
        )  # fmt: skip


@contextmanager
def show(study: "Study", trials: int | None, wanted: bool) -> Iterator[View]:
    """A bar while the block runs, where somebody can see it."""
    if not wanted or not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        yield View()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("[bold]{task.description}", markup=True), BarColumn(), MofNCompleteColumn(),
        TextColumn("best {task.fields[best]}{task.fields[failed]} · suggestion {task.fields[pace]}", markup=False),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        done = study._history.finished
        yield Bar(
            bar, bar.add_task(study.direction, total=trials, completed=done, best="none yet", failed="", pace="-")
        )
