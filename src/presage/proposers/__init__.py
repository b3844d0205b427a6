"""How the next points are chosen."""

from typing import TYPE_CHECKING

from presage.lazy import later
from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.random import RandomSearch

if TYPE_CHECKING:
    from presage.proposers.batch import Batch, Believe, Fantasise, Independent, JointImprovement, Penalise
    from presage.proposers.embedding import Embedding
    from presage.proposers.learned_code import LearnedCode
    from presage.proposers.maximise import Maximiser
    from presage.proposers.model_based import ModelBased
    from presage.proposers.portfolio import Portfolio
    from presage.proposers.trust_region import TrustRegion

__all__ = [
    "Batch", "Believe", "Domain", "Embedding", "Fantasise", "Independent", "JointImprovement", "LearnedCode",
    "Maximiser", "ModelBased", "Penalise", "Portfolio", "Proposal", "Proposer", "RandomSearch", "TrustRegion",
]  # fmt: skip

# They import SciPy, which random search does without.
_HOME = {
    "Batch": "batch", "Believe": "batch", "Embedding": "embedding", "Fantasise": "batch", "Independent": "batch",
    "JointImprovement": "batch", "LearnedCode": "learned_code", "Maximiser": "maximise", "ModelBased": "model_based",
    "Penalise": "batch", "Portfolio": "portfolio", "TrustRegion": "trust_region",
}  # fmt: skip


__getattr__ = later(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
