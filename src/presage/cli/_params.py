"""Search spaces and starting points written as text."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from presage.errors import SpaceError

if TYPE_CHECKING:
    from presage.dimensions import Dimension
    from presage.space import Space

FORMS = {
    "float": "float:LOW:HIGH", "log": "log:LOW:HIGH", "step": "step:LOW:HIGH:STEP", "int": "int:LOW:HIGH",
    "intstep": "intstep:LOW:HIGH:STEP", "logint": "logint:LOW:HIGH", "choice": "choice:A,B,...", "const": "const:VALUE",
}  # fmt: skip
WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")  # also .5 and 1., which JSON does not know
NAME = re.compile(r"[^\s={},:]+")  # can be told from its value, in --start too, and stand between braces

Texts = Mapping[str, Mapping[str, str]]


class Written(NamedTuple):
    """A space, and how its options were written: by name, by the value's JSON."""

    space: "Space"
    texts: Texts


def parse_params(arguments: Iterable[str]) -> Written:
    """The space that `name=kind:...` arguments stand for.

    Example:
        >>> parse_params(["lr=log:1e-5:1e-1", "act=choice:relu,tanh"]).space["act"].options
        ('relu', 'tanh')
    """
    from presage.space import Space

    dimensions: dict[str, Dimension] = {}
    texts: dict[str, dict[str, str]] = {}
    for argument in arguments:
        name, equals, form = argument.partition("=")
        if not equals or not NAME.fullmatch(name):
            raise SpaceError(f"a parameter must read NAME=KIND:..., such as lr=log:1e-5:1e-1, but got {argument!r}")
        if name in dimensions:
            raise SpaceError(f"a parameter is given once, but {name!r} came twice")
        try:
            dimensions[name], texts[name] = _dimension(form)
        except SpaceError as error:
            raise SpaceError(f"{argument!r}: {error}") from None
    return Written(Space(dimensions), texts)


def _dimension(form: str) -> "tuple[Dimension, dict[str, str]]":
    from presage.dimensions import Choice, Constant, Float, Int

    kind, _, rest = form.partition(":")
    if kind not in FORMS:
        raise SpaceError(f"its kind must be one of {', '.join(FORMS.values())}, but got {kind!r}")
    if kind == "const":
        value = literal(rest)
        return Constant(value), {json.dumps(value): rest}
    if kind == "choice":
        options = _options(rest)
        return Choice([value for _, value in options]), {json.dumps(value): text for text, value in options}
    try:
        numbers = [float(text) for text in rest.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) != FORMS[kind].count(":"):
        raise SpaceError(f"it must read {FORMS[kind]} with numbers, but got {form!r}")
    low, high, *step = numbers
    if kind in ("int", "logint"):
        return Int(low, high, log=kind == "logint"), {}  # type: ignore[arg-type]  # takes 1.0 for 1, and rejects 1.5
    if kind == "intstep":
        return Int(low, high, step=step[0]), {}  # type: ignore[arg-type]
    return Float(low, high, log=kind == "log", step=step[0] if step else None), {}


def describe(dimension: "Dimension") -> str:
    """A dimension in the form in which it can be given.

    Example:
        >>> from presage import Int
        >>> describe(Int(8, 64, log=True, when={"layers": [2, 3]}))
        'logint:8:64 when layers is 2 or 3'
    """
    from presage.dimensions import Choice, Constant, Float, Int

    when = " and ".join(
        f"{name} is {' or '.join(map(render, values))}" for name, values in (dimension.when or {}).items()
    )
    match dimension:
        case Float(low=low, high=high, step=None, log=log):
            text = f"{'log' if log else 'float'}:{low:.12g}:{high:.12g}"
        case Float(low=low, high=high, step=step):
            text = f"step:{low:.12g}:{high:.12g}:{step:.12g}"
        case Int(low=low, high=high, step=step) if step > 1:
            text = f"intstep:{low}:{high}:{step}"
        case Int(low=low, high=high, log=log):
            text = f"{'logint' if log else 'int'}:{low}:{high}"
        case Choice(options=options):
            text = f"choice:{','.join(map(render, options))}"
        case Constant(value=value):
            text = f"const:{render(value)}"
        case _:
            text = repr(dimension)
    return f"{text} when {when}" if when else text


def _options(text: str) -> list[tuple[str, Any]]:
    """Options and how they are written: after commas or, where they hold commas themselves, as a JSON list."""
    if text.startswith("["):
        try:
            return [(render(value), value) for value in json.loads(text)]
        except ValueError as error:
            raise SpaceError(f"options in brackets must be a JSON list, but got {text!r} ({error})") from None
    options = text.split(",")
    if "" in options:
        raise SpaceError(f"options must have one comma between them, but got {text!r}")
    return [(option, literal(option)) for option in options]


def literal(text: str) -> Any:
    """The number, truth value or None that a text is written like; else the text itself.

    Example:
        >>> [literal(text) for text in ("16", "1e-3", ".5", "true", "relu", "007")]
        [16, 0.001, 0.5, True, 'relu', '007']
    """
    if text in WORDS:
        return WORDS[text]
    try:
        value = json.loads(text)
    except ValueError:
        return float(text) if DECIMAL.fullmatch(text) else text
    return value if type(value) in (int, float) and value - value == 0 else text


def render(value: Any) -> str:
    """A value as a command gets it: text as it is, numbers in full precision, lists as JSON."""
    if isinstance(value, list | tuple | dict):
        return json.dumps(value)
    return str(value)


def parse_start(argument: str, space: "Space") -> dict[str, Any]:
    """The params that `lr=0.01,layers=2`, or a JSON object, stand for.

    Example:
        >>> from presage import Choice, Float, Space
        >>> parse_start("lr=0.01,act=1", Space({"lr": Float(0, 1), "act": Choice(["1", "2"])}))
        {'lr': 0.01, 'act': '1'}
    """
    if argument.lstrip().startswith("{"):
        try:
            return space.check(json.loads(argument))
        except json.JSONDecodeError as error:
            raise SpaceError(f"a starting point in braces must be JSON, but got {argument!r} ({error})") from None
    params: dict[str, Any] = {}
    for part in argument.split(","):
        name, equals, text = part.strip().partition("=")
        if not equals or name in params:
            raise SpaceError(f"a starting point must read NAME=VALUE,..., each name once, but got {argument!r}")
        params[name] = _legal(space.get(name), text)
    return space.check(params)


def _legal(dimension: "Dimension | None", text: str) -> Any:
    """What the text means to the dimension: usually a literal, but an option may be a text that looks like one."""
    for value in (literal(text), text):
        with suppress(SpaceError):
            if dimension is not None:
                return dimension.check(value)
    return literal(text)  # the space says what is wrong with it
