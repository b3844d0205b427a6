"""Every page of the documentation runs, shows the figures that it makes, and links to what is there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pages
import presage

PAGES = [page for page in pages.pages() if pages.runs(page)]


def marked(page: Path):
    """The page as a parameter, with what it says of itself."""
    of = [
        pytest.mark.slow if mark == "slow" else pytest.mark.needs(*mark.removeprefix("needs ").split())
        for mark in pages.marks(page)
    ]
    return pytest.param(page, marks=of, id=str(page.relative_to(pages.ROOT)))


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_a_page_runs(page, tmp_path):
    namespace = pages.run(page, tmp_path)
    for name in pages.figures(page):
        made, shown = ((folder / name).read_bytes() for folder in (tmp_path, pages.FIGURES))
        assert made[:24] == shown[:24], f"{name} has other measures now; run python tests/pages.py"  # PNG's header
        assert len(shown) < 100_000
    if page.name == "README.md":
        assert len(namespace["study"].trials) == 31
        assert namespace["study"].best.value < 0.3


def test_a_page_that_is_wrong_fails(tmp_path):
    """Or the test above could not fail."""
    page = pages.DOCS / "wrong.md"  # is not written
    block = "```{}\n{}\n```\n".format
    for text in (block("console", "$ false"), block("console", "$ echo a\nb"), block("python", "assert 1 > 2")):
        with pytest.raises(AssertionError):
            pages.run(page, tmp_path, text)
    printing = block("python", "print(1.25)") + "\n"
    pages.run(page, tmp_path, printing + block("text", "1..."))
    with pytest.raises(AssertionError):
        pages.run(page, tmp_path, printing + block("text", "1.26"))


def test_no_figure_is_left_over():
    named = {name for page in pages.pages() for name in pages.figures(page)}
    assert {path.name for path in pages.FIGURES.iterdir()} == named


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"])
def test_links_outside_the_site_lead_somewhere(name):
    file = pages.ROOT / name
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", file.read_text()):
        assert (file.parent / target).exists(), target


@pytest.mark.needs("mkdocs")
def test_the_site_is_built_without_a_warning_and_needs_no_network(tmp_path):
    """Links and anchors are checked by mkdocs itself; formulas come as MathML, so no script must be loaded for them."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=pages.ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    for file in tmp_path.rglob("*.html"):
        html = file.read_text()
        assert not re.search(r"<(script|link|img)[^>]+(src|href)=.?https?:", html), file
        assert 'class="arithmatex"' not in html, file
        assert not re.search(r"^\{\{ \w+ \}\}$", html, re.MULTILINE), file
    assert "<math" in (tmp_path / "maths" / "surrogates.html").read_text()
    assert "0.1.0" in (tmp_path / "changelog.html").read_text()


def test_the_readme_tells_what_the_records_say(monkeypatch):
    """Medians to two digits and the seeds won; the site makes its tables itself."""
    monkeypatch.setattr(sys, "path", [str(pages.DOCS / "_tools"), *sys.path])
    import docs_tables

    readme = (pages.ROOT / "README.md").read_text()
    rows = re.findall(r"^\|[^|]+\| (\d+) \| ([\d.]+) \| ([\d.]+) \| (\d+)[^|]*\|$", readme, re.MULTILINE)
    for (trials, ours, theirs, won), (evaluations, found) in zip(rows, docs_tables.regrets().values(), strict=True):
        assert int(trials) == evaluations
        assert float(ours) == pytest.approx(np.median(found[0]), rel=0.15)  # 4.5e-5 is written as 0.00004
        assert float(theirs) == pytest.approx(np.median(found[1]), rel=0.05)
        assert int(won) == (found[0] < found[1]).sum()


def test_the_readme_tells_the_seeds_as_recorded(monkeypatch):
    """Or run python docs/_tools/docs_tables.py."""
    monkeypatch.setattr(sys, "path", [str(pages.DOCS / "_tools"), *sys.path])
    import docs_tables

    assert docs_tables.readme() == (pages.ROOT / "README.md").read_text()


def test_every_public_name_is_there():
    for name in presage.__all__:
        assert getattr(presage, name) is not None


def test_versions_agree():
    """The package, its metadata and the changelog speak of the same version, which is a semantic one."""
    project = (pages.ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(\d+\.\d+\.\d+)"', project, re.MULTILINE)
    assert version is not None
    assert presage.__version__ == version[1]
    newest = re.search(r"^## (\S+)", (pages.ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version[1]


def test_lower_bounds_are_those_that_are_tested():
    """constraints-min.txt has exactly the versions that pyproject.toml begins with."""
    project = (pages.ROOT / "pyproject.toml").read_text()
    lowest = dict(re.findall(r'"([\w-]+)(?:\[\w+\])?>=([\d.]+)"', project))
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (pages.ROOT / "constraints-min.txt").read_text(), re.MULTILINE))
    needed = re.search(r"^dependencies = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    assert needed is not None
    for name in re.findall(r'"([\w-]+)>=', needed[1]):
        assert name in pinned, f"{name} has no line in constraints-min.txt"
    for name, version in pinned.items():
        if name in lowest:
            assert pinned[name].startswith(lowest[name]), f"{name}: {version} is not the bound {lowest[name]}"
