"""What mkdocs does besides: pages from files outside docs/, tables from records, formulas as MathML."""

import html
import re
from pathlib import Path
from typing import Any

import docs_tables as tables
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
OUTSIDE = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Files of the root as pages; their links into docs/ lose that folder."""
    for name, source in OUTSIDE.items():
        text = (ROOT / source).read_text().replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """`{{ name }}` on a line of its own becomes the table of that name."""
    return re.sub(r"^\{\{ (\w+) \}\}$", lambda match: getattr(tables, match[1])(), markdown, flags=re.MULTILINE)


def on_page_content(html: str, **_: Any) -> str:
    """LaTeX becomes MathML, which browsers show by themselves: no script, nothing to load."""
    return FORMULA.sub(formula, html)


def formula(match: re.Match[str]) -> str:
    """One formula."""
    return convert(html.unescape(match[2]).strip(), display="block" if match[1] == "div" else "inline")
