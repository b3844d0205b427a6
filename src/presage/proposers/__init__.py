"""How the next points are chosen."""

import importlib
from typing import TYPE_CHECKING, Any

from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.random import RandomSearch

if TYPE_CHECKING:
    from presage.proposers.maximise import Maximiser
    from presage.proposers.model_based import ModelBased

__all__ = ["Domain", "Maximiser", "ModelBased", "Proposal", "Proposer", "RandomSearch"]

# They import SciPy, which random search does without.
_HOME = {"Maximiser": "maximise", "ModelBased": "model_based"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
