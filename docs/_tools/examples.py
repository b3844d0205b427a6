"""Docstrings say "Example:", which the parser of the reference takes for a paragraph; it knows "Examples:" only."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Has examples shown as code."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
