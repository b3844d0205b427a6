"""Hypothesis draws the same examples in every run; HYPOTHESIS_PROFILE=search draws many new ones."""

import os

import pytest
from hypothesis import settings

from presage.threads import few_threads

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="module")
def one_thread():
    """Linear algebra on one thread, as studies do it; on a busy machine the default threads wait for each other."""
    with few_threads():
        yield
