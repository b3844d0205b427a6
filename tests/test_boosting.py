"""Boosting: the shipped suite."""

import pytest

from presage.surrogates import GradientBoosting
from presage.testing.surrogates import SurrogateSuite

pytestmark = pytest.mark.usefixtures("one_thread")


class TestGradientBoosting(SurrogateSuite):
    def make(self):
        return GradientBoosting()
