"""A Python callable as the objective: `module:function`, and where its space is found."""

import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from presage.errors import StudyError

if TYPE_CHECKING:
    from presage.space import Space

TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def load_objective(target: str) -> tuple[Callable[..., Any], ModuleType]:
    """The callable that `module:function` names, and its module; the current folder is importable.

    Example:
        >>> load_objective("math:sqrt")[0](9)
        3.0
    """
    module_name, _, path = target.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise StudyError(_while_importing(module_name, error)) from error
        where = f"the current folder ({os.getcwd()}) or installed"
        raise StudyError(f"the module of {target!r} must be in {where}, but there is no {error.name!r}") from None
    except Exception as error:
        raise StudyError(_while_importing(module_name, error)) from error
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            has = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
            offer = f"it has {', '.join(has)}" if has else "it has no function"
            raise StudyError(f"{target!r} must name a function, but {module_name} has no {path!r}; {offer}")
        found = getattr(found, name)
    if not callable(found):
        raise StudyError(f"an objective must be callable with params, but {target!r} is a {type(found).__name__}")
    return found, module


def _while_importing(module: str, error: BaseException) -> str:
    """The traceback from the user's own first line on."""
    frames = error.__traceback__
    while frames and ("importlib" in (file := frames.tb_frame.f_code.co_filename) or file == __file__):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    return f"module {module!r} must be importable, but importing it raised:\n{text.rstrip()}"


def own_space(objective: Callable[..., Any], module: ModuleType) -> "Space | None":
    """The space that belongs to an objective: its own `space`, else its module's `SPACE` or `space`."""
    from presage.space import Space

    for owner, name in ((objective, "space"), (module, "SPACE"), (module, "space")):
        found = getattr(owner, name, None)
        if isinstance(found, Space):
            return found
        if isinstance(found, Mapping):
            return Space(found)
    return None


def find_space(objective: Callable[..., Any], module: ModuleType, target: str, or_else: str = "") -> "Space":
    """As `own_space`, or an error that tells to write one; `or_else` is what else can be done."""
    space = own_space(objective, module)
    if space is None:
        raise StudyError(
            f"a search space is needed, but {target!r} has none; {or_else}in its module, write "
            "SPACE = presage.Space({...})"
        )
    return space
