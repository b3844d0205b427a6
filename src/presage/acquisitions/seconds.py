"""Worth per second, by what evaluations have taken so far."""

from dataclasses import dataclass, field

import numpy as np

from presage.acquisitions.base import Acquisition, Context, Unprepared, must_be_finite
from presage.acquisitions.improvement import LogExpectedImprovement
from presage.acquisitions.wrappers import PerCost
from presage.observations import Observations, observe
from presage.surrogates.base import Posterior
from presage.surrogates.gaussian_process import GaussianProcess

SHORT = 0.1  # seconds; that an evaluation takes less of it than another one does not count
FEWEST, MOST = 3, 500  # rows from which time is learned; of more, the latest


@dataclass(frozen=True)
class PerSecond(Unprepared):
    """Another acquisition divided by the time that an evaluation is expected to take (Snoek et al., 2012).

    Times are those of the study's trials, from being handed out to being told; their logarithm is modelled by a
    Gaussian process. Until three are known it is the other acquisition alone.

    Args:
        base: the acquisition.
        exponent: how much time counts; less than 1 cools the preference for quick points.
    """

    base: Acquisition = field(default_factory=LogExpectedImprovement)
    exponent: float = 1.0

    def __post_init__(self) -> None:
        must_be_finite(exponent=self.exponent)

    def informed(self, data: Observations) -> Acquisition:
        base = self.base.informed(data)
        rows = np.flatnonzero(data.mask & np.isfinite(data.seconds))[-MOST:]
        if len(rows) < FEWEST:
            return base
        times = observe(data.x[rows], np.log(SHORT + data.seconds[rows]), data.columns)
        found = GaussianProcess(warp=None).fit(times, rng=np.random.default_rng(0))
        return PerCost(base, found.posterior, self.exponent * times.scale)

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        return self.base.prepare(posterior, context, rng=rng)
