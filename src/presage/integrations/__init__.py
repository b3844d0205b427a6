"""presage inside other libraries, and their studies inside presage. Each module is imported when it is used."""

from importlib import import_module
from typing import Any

from presage.errors import PresageError

__all__ = ["MissingPackage", "require"]


class MissingPackage(PresageError, ImportError):
    """A library that an integration is for is not installed."""


def require(module: str, extra: str) -> Any:
    """The module of another library, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackage(
            f"presage.integrations needs {module}, which could not be imported ({error}); "
            f"install it: pip install 'presage[{extra}]'"
        ) from error
