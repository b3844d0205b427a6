"""Networks as surrogates."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from presage.surrogates import NetworkEnsemble, VariationalNetwork
from presage.testing.surrogates import SurrogateSuite, plain_data


class TestVariationalNetwork(SurrogateSuite):
    def make(self):
        return VariationalNetwork(widths=(20,), steps=1000, more=200, samples=2, rate=2e-2)  # quick, not good


class TestNetworkEnsemble(SurrogateSuite):
    def make(self):
        usual = NetworkEnsemble()
        return NetworkEnsemble(replace(usual.design, width=20, steps=300))


@pytest.fixture
def compilations():
    """The durations of all compilations so far."""
    seen: list[float] = []

    def hear(event: str, seconds: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(hear)
    yield seen
    jax.monitoring.unregister_event_duration_listener(hear)


@pytest.mark.parametrize("suite", [TestVariationalNetwork(), TestNetworkEnsemble()], ids=lambda s: type(s).__name__)
def test_a_growing_study_compiles_once_per_size(suite, compilations):
    surrogate = suite.make()
    state = surrogate.fit(plain_data(5), rng=np.random.default_rng(0)).state
    state = surrogate.fit(plain_data(6), rng=np.random.default_rng(0), previous=state).state  # goes on from a state
    compilations.clear()
    for count in (7, 30, 64):  # all padded to 64 rows
        state = surrogate.fit(plain_data(count), rng=np.random.default_rng(count), previous=state).state
    assert not compilations
    surrogate.fit(plain_data(65), rng=np.random.default_rng(0), previous=state)
    assert compilations  # the listener hears: another size is another program
