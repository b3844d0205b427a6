"""What the README shows is run as it stands."""

import re
from pathlib import Path

import presage

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_tour_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tour,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert 15 <= len(tour.splitlines()) <= 25
    exec(compile(tour, "README.md", "exec"), {"__name__": "tour"})
    best, prediction = capsys.readouterr().out.splitlines()
    assert best.startswith("{'lr': ")
    assert prediction.startswith("Prediction(mean=")
    study = presage.load_study("tour.db")
    assert len(study.trials) == 31
    assert study.best.value < 0.3


def test_every_public_name_is_there():
    for name in presage.__all__:
        assert getattr(presage, name) is not None
