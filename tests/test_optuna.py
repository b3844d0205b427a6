"""presage in Optuna: Optuna's own suite for samplers, and what presage promises beyond it."""

import optuna
import pytest
from optuna.testing import pytest_samplers as suite

from presage.integrations.optuna import PresageSampler

optuna.logging.set_verbosity(optuna.logging.WARNING)


class _Ours:
    @pytest.fixture
    def sampler(self):
        return PresageSampler


class TestBasic(_Ours, suite.BasicSamplerTestCase):
    pass


class TestRelative(_Ours, suite.RelativeSamplerTestCase):
    pass


class TestSingleOnly(_Ours, suite.SingleOnlySamplerTestCase):
    pass
