"""Pages of the documentation as programs.

The ```python blocks of a page run in order, in one namespace, in a folder of their own; a block with title="train.py"
is written to that file instead. The commands of ```console blocks, lines that begin with "$ ", run in the same folder.
A ```text block directly after a python block, and the other lines of a console block, are what must come out ("..."
stands for anything). `<!-- run: slow -->` and `<!-- run: needs postgres -->` mark a page. Anything else is not run:
```py is other people's code, ```sh what needs other machines.

    python tests/pages.py            # run every page that shows figures, and put these into docs/figures/pages
"""

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
DOCS, FIGURES = ROOT / "docs", ROOT / "docs" / "figures" / "pages"
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """One fenced block: its language, the file it is meant for, its text, its line, and the prose before it."""

    language: str
    title: str
    text: str
    line: int
    before: str


def pages() -> list[Path]:
    """Every page, the README first."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The fenced blocks that have a language."""
    found, end = [], 0
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match[2])
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(match[1], title[1] if title else "", match[3], line, text[end : match.start()]))
        end = match.end()
    return found


def marks(page: Path) -> set[str]:
    """What stands in the page's `<!-- run: ... -->` comments."""
    return set(re.findall(r"<!-- run: (.*?) -->", page.read_text()))


def figures(page: Path) -> list[str]:
    """Names of the figures that the page says its code makes."""
    return re.findall(r"\]\((?:\.\./)*figures/pages/([\w-]+\.png)\)", page.read_text())


def runs(page: Path) -> bool:
    """Whether there is anything to run."""
    return any(block.language in ("python", "console") for block in blocks(page.read_text()))


def check(want: str, got: str, where: str) -> None:
    """Compare what came out with what the page says."""
    if not doctest.OutputChecker().check_output(want, got, FLAGS):
        raise AssertionError(f"{where} must print\n{want}\nbut printed\n{got}")


def run(page: Path, folder: Path, text: str | None = None) -> dict[str, Any]:
    """Run a page, or another text in its name, in a folder, which is the current one meanwhile; what it leaves."""
    namespace: dict[str, Any] = {"__name__": "page"}
    found = blocks(page.read_text() if text is None else text)
    with contextlib.chdir(folder):
        for block, after in zip(found, [*found[1:], None], strict=True):
            where = f"{page.relative_to(ROOT)}, line {block.line}"
            if block.title:
                Path(block.title).write_text(block.text)
            elif block.language == "python":
                code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(code, namespace)
                if after and after.language == "text" and not after.title and not after.before.strip():
                    check(after.text, out.getvalue(), where)
            elif block.language == "console":
                console(block.text, folder, where)
    return namespace


def console(text: str, folder: Path, where: str) -> None:
    """Run the commands of a block and compare what they print, where the block says it."""
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        **os.environ, "PATH": os.pathsep.join(paths), "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1",
        "COLUMNS": "110", "TERM": "dumb", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:.*\\\n)*.*\n", part)
        assert command
        done = subprocess.run(
            ["bash", "-c", command[0]], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise AssertionError(f"{where}: {command[0]}ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        want = part[command.end() :]
        if want.strip():
            check(want, done.stdout, where)


def main() -> None:
    """Draw the figures anew, of all pages or of those named."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for page in pages():
        names = figures(page)
        if not names or (sys.argv[1:] and page.stem not in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                run(page, Path(folder))
            for name in names:
                shutil.copy(Path(folder) / name, FIGURES / name)
                print(page.relative_to(ROOT), name, (FIGURES / name).stat().st_size)


if __name__ == "__main__":
    main()
