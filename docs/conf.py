"""How Sphinx makes a site of the pages: `make docs`, into build/docs.

The pages are plain Markdown, which also reads well where no site is built. So nothing in them is for Sphinx alone, and
the contents in the margin are made here, from the folders.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_PARTS = (
    ("Start", "README", "docs/tutorial", "examples/README"),
    ("How to", "docs/howto/*"),
    ("Reference", "docs/reference/*"),
    ("Background", "docs/explanation/*"),
    ("More", "docs/glossary", "CONTRIBUTING", "SECURITY", "CHANGELOG", "docs/adr/README"),
)

project = "Mainspring"
version = release = _PROJECT["version"]
author = copyright = "the Mainspring authors"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser"]
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/**/*.md",
    "tests/chaos/README.md",
    "changelog.d/README.md",
    "examples/*.md",
    "examples/**/*.md",
    "benchmarks/results/*.md",
]
root_doc = "docs/index"
html_theme = "furo"
html_title = f"Mainspring {version}"
myst_heading_anchors = 4
suppress_warnings = ["toc.not_included"]  # single pages that others link to


def _contents() -> str:
    """Return the site's contents as one hidden tree for each part."""
    trees = []
    for caption, *places in _PARTS:
        paths = [path for place in places for path in sorted(ROOT.glob(f"{place}.md"))]
        entries = "\n".join("/" + str(path.relative_to(ROOT).with_suffix("")) for path in paths)
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```")
    return "\n\n".join(trees)


def _decisions() -> str:
    entries = "\n".join(
        f"/{path.relative_to(ROOT).with_suffix('')}"
        for path in sorted(ROOT.glob("docs/adr/[0-9]*.md"))
        if path.name[:4] != "0000"
    )
    return f"```{{toctree}}\n:hidden:\n\n{entries}\n```"


def _add_contents(_: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += "\n\n" + _contents()
    elif name == "docs/adr/README":
        source[0] += "\n\n" + _decisions()


def setup(app: Sphinx) -> None:
    """Let Sphinx put the contents below the first page."""
    app.connect("source-read", _add_contents)
    app.add_lexer("mermaid", TextLexer)  # its pictures are drawn by who reads the Markdown
