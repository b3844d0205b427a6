"""How things look on the screen. Names and values are data: markup and control characters in them do nothing."""

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO
from unicodedata import category

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from presage.trial import Trial

ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)", re.DOTALL
)  # ECMA-48: CSI, OSC, others
UNLIMITED = 100_000  # columns, where no terminal limits them: what is read by programs must not be wrapped


def out() -> "Console":
    """Where results go."""
    return _console(sys.stdout, False)


def err() -> "Console":
    """Where everything else goes."""
    return _console(sys.stderr, True)


def _console(stream: TextIO, stderr: bool) -> "Console":
    from rich.console import Console

    width = None if stream.isatty() else UNLIMITED
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=width)


def table(*columns: str, right: tuple[str, ...] = ()) -> "Table":
    """An empty table; the columns named in `right` hold numbers."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def clean(text: str) -> str:
    """Text that cannot move the cursor or change colours, however it came into a study.

    Example:
        >>> clean("[red]" + chr(27) + "[31mx" + chr(7))
        '[red]x\\\\x07'
    """
    plain = ESCAPES.sub("", text)
    return "".join(c if c in "\n\t" or category(c) not in ("Cc", "Cs") else repr(c)[1:-1] for c in plain)


def line(text: str, most: int = 200) -> str:
    """Clean text on one line, not too long."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= most else flat[: most - 3] + "..."


def brief(value: Any) -> str:
    """A value as one reads it; floats rounded."""
    return f"{value:.6g}" if isinstance(value, float) else line(str(value), 60)


def several(count: int, what: str) -> str:
    """So many of something.

    Example:
        >>> several(1, "trial"), several(2, "trial")
        ('1 trial', '2 trials')
    """
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def pairs(params: Mapping[str, Any]) -> str:
    """Params on one line.

    Example:
        >>> pairs({"lr": 0.1 + 0.2, "act": "relu"})
        'lr=0.3 act=relu'
    """
    return " ".join(f"{line(name)}={brief(value)}" for name, value in params.items())


def best_lines(trial: "Trial") -> list[str]:
    """The best trial in full precision, to be copied."""
    params = {
        line(name): clean(value) if isinstance(value, str) else repr(value) for name, value in trial.params.items()
    }
    width = max(map(len, params))
    return [f"best value {trial.value!r} at trial {trial.number}", *(f"  {n:{width}}  {v}" for n, v in params.items())]


def duration(trial: "Trial") -> str:
    """How long a trial took."""
    return "" if trial.seconds is None else f"{trial.seconds:.3g} s"
