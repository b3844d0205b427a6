"""How the next points are chosen."""

from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.batch import Batch, Believe, Fantasise, Independent, JointImprovement, Penalise
from presage.proposers.embedding import Embedding
from presage.proposers.maximise import Maximiser
from presage.proposers.model_based import ModelBased
from presage.proposers.portfolio import Portfolio
from presage.proposers.random import RandomSearch
from presage.proposers.trust_region import TrustRegion

__all__ = [
    "Batch", "Believe", "Domain", "Embedding", "Fantasise", "Independent", "JointImprovement", "Maximiser",
    "ModelBased", "Penalise", "Portfolio", "Proposal", "Proposer", "RandomSearch", "TrustRegion",
]  # fmt: skip
