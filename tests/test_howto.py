"""What the how-to guides on scikit-learn and on training loops show is run as it stands."""

import re
from pathlib import Path

import pytest

HOWTO = Path(__file__).parent.parent / "docs" / "howto"


@pytest.mark.parametrize("page", ["sklearn.md", "training.md"])
def test_a_guide_prints_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", (HOWTO / page).read_text(), re.DOTALL)
    assert len(found) >= 6
    namespace = {"__name__": "guide"}
    for code, wanted in found:
        exec(compile(code, page, "exec"), namespace)
        assert capsys.readouterr().out == wanted
