"""The network surrogate: the shipped suite, and what is particular to it."""

import math

import numpy as np
import pytest

from presage.surrogates import HMCNetwork
from presage.testing.surrogates import SurrogateSuite

pytestmark = pytest.mark.usefixtures("one_thread")

# Small enough for tests: what the suite asks of a posterior does not depend on how long its chains were.
SMALL = HMCNetwork(widths=(12, 12), warmup=80, rewarm=10, draws=16, networks=32, trust=math.inf)
FITS = {}


def fitted(model, data):
    """The fit with a new generator of seed 0, made once: that it is always the same has its own test."""
    key = (model, data.x.tobytes(), data.y.tobytes(), data.mask.tobytes(), data.noise.tobytes(), data.columns)
    if key not in FITS:
        FITS[key] = model.fit(data, rng=np.random.default_rng(0))
    return FITS[key]


class TestHMCNetwork(SurrogateSuite):
    def make(self):
        return SMALL

    def whole(self, data, previous=None, keep=False):
        return super().whole(data, previous, keep) if previous is not None else fitted(self.make(), data)
