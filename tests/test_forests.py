"""Forests: the shipped suite."""

import pytest

from presage.surrogates import ExtraTrees, RandomForest
from presage.testing.surrogates import SurrogateSuite

pytestmark = pytest.mark.usefixtures("one_thread")


class TestRandomForest(SurrogateSuite):
    def make(self):
        return RandomForest()


class TestExtraTrees(SurrogateSuite):
    def make(self):
        return ExtraTrees()
