"""How the next points are chosen."""

from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.batch import Batch, Believe, Fantasise, Independent, JointImprovement, Penalise
from presage.proposers.maximise import Maximiser
from presage.proposers.model_based import ModelBased
from presage.proposers.random import RandomSearch

__all__ = [
    "Batch", "Believe", "Domain", "Fantasise", "Independent", "JointImprovement", "Maximiser", "ModelBased", "Penalise",
    "Proposal", "Proposer", "RandomSearch",
]  # fmt: skip
