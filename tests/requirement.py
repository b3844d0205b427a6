"""What tests need beyond Python packages. Where it is missing they skip, or fail if PRESAGE_REQUIRE=a,b names it."""

import os

import pytest


def require(name: str, found: bool, remedy: str) -> None:
    """Skip the test, or fail where the environment promised to have it."""
    if found:
        return
    if name in os.environ.get("PRESAGE_REQUIRE", "").split(","):
        pytest.fail(f"PRESAGE_REQUIRE has {name}, but it was not found; {remedy}", pytrace=False)
    pytest.skip(f"no {name}; {remedy}")
