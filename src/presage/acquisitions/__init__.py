"""What a point is worth."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from presage.acquisitions.base import Acquisition, Context, Logarithm, OfJoint, OfMarginal, Unprepared
from presage.acquisitions.confidence import ConfidenceBound, Exploration, ExploreWhenFlat, SometimesGreedy, gp_ucb
from presage.acquisitions.feasibility import Feasible
from presage.acquisitions.improvement import (
    CappedImprovement,
    ExpectedImprovement,
    LogExpectedImprovement,
    ProbabilityOfImprovement,
)
from presage.acquisitions.sampled import NoisyExpectedImprovement, ThompsonSampling, UnderSampled
from presage.acquisitions.wrappers import Adjusted, Constrained, Penalised, PerCost
from presage.lazy import later

if TYPE_CHECKING:
    from presage.acquisitions.entropy import EntropySearch, PredictiveEntropySearch
    from presage.acquisitions.knowledge import KnowledgeGradient
    from presage.acquisitions.max_value import JointEntropySearch, MaxValueEntropySearch
    from presage.acquisitions.seconds import PerSecond

# Imported when first used: they need scipy.special, which takes 0.2 s, or are needed seldom.
_HOME = {
    "EntropySearch": "entropy", "PredictiveEntropySearch": "entropy", "KnowledgeGradient": "knowledge",
    "JointEntropySearch": "max_value", "MaxValueEntropySearch": "max_value", "PerSecond": "seconds",
}  # fmt: skip

__all__ = [
    "Acquisition", "Adjusted", "BY_NAME", "CappedImprovement", "ConfidenceBound", "Constrained", "Context",
    "EntropySearch", "ExpectedImprovement", "Exploration", "ExploreWhenFlat", "Feasible", "JointEntropySearch",
    "KnowledgeGradient", "LogExpectedImprovement", "Logarithm", "MaxValueEntropySearch", "NoisyExpectedImprovement",
    "OfJoint", "OfMarginal", "Penalised", "PerCost", "PerSecond", "PredictiveEntropySearch",
    "ProbabilityOfImprovement", "SometimesGreedy", "ThompsonSampling", "UnderSampled", "Unprepared", "automatic",
    "gp_ucb",
]  # fmt: skip


__getattr__ = later(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)


def _later(name: str) -> Callable[[], Acquisition]:
    return lambda: __getattr__(name)()


NOISY = 0.05  # noise, in standard deviations of the values, from which on nobody knows which point is the best


def automatic() -> NoisyExpectedImprovement:
    """What "auto" stands for: the logarithm of expected improvement, of its noisy form where there is noise.

    Where values have noise, plain improvement looks again and again beside the point that seems best. The noise is that
    of the model, which may take roughness for it.
    """
    return NoisyExpectedImprovement(least=NOISY)


BY_NAME: dict[str, Callable[[], Acquisition]] = {
    "auto": automatic,
    "capped": CappedImprovement,
    "ei": ExpectedImprovement,
    "logei": LogExpectedImprovement,
    "eips": _later("PerSecond"),
    "nei": NoisyExpectedImprovement,
    "pi": ProbabilityOfImprovement,
    "lcb": ConfidenceBound,
    "ucb": lambda: ConfidenceBound(gp_ucb),  # the same bound, its width growing with the number of values
    "es": _later("EntropySearch"),
    "pes": _later("PredictiveEntropySearch"),
    "mes": _later("MaxValueEntropySearch"),
    "jes": _later("JointEntropySearch"),
    "kg": _later("KnowledgeGradient"),
    "ts": ThompsonSampling,
    "explore": Exploration,
}
