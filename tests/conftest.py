"""Hypothesis draws the same examples in every run; HYPOTHESIS_PROFILE=search draws many new ones."""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
