"""What docs/design.md shows is run as it stands."""

import re
from pathlib import Path

import pytest

BLOCKS = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parent.parent / "docs" / "design.md").read_text(), re.DOTALL
)


def run(block, capsys):
    exec(compile(block, "docs/design.md", "exec"), {"__name__": "docs"})
    return capsys.readouterr().out


@pytest.mark.slow
def test_a_network_is_designed(capsys):
    assert "town: 2 categories" in run(BLOCKS[0], capsys)


def test_anything_that_trains_in_steps_is_searched(capsys):
    """The best rate of the parabola's descent is 1/2; the largest candidates are best."""
    found = eval(run(BLOCKS[1], capsys))
    assert 0.2 < found["rate"] <= 0.4
