"""Networks as surrogates."""

from dataclasses import replace

from presage.surrogates import NetworkEnsemble, VariationalNetwork
from presage.testing.surrogates import SurrogateSuite


class TestVariationalNetwork(SurrogateSuite):
    def make(self):
        return VariationalNetwork(widths=(20,), steps=1000, more=200, samples=2, rate=2e-2)  # quick, not good


class TestNetworkEnsemble(SurrogateSuite):
    def make(self):
        usual = NetworkEnsemble()
        return NetworkEnsemble(replace(usual.design, width=20, steps=300))
