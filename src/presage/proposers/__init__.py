"""How the next points are chosen."""

from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.maximise import Maximiser
from presage.proposers.model_based import ModelBased
from presage.proposers.random import RandomSearch

__all__ = ["Domain", "Maximiser", "ModelBased", "Proposal", "Proposer", "RandomSearch"]
