"""The docs are complete and their links lead somewhere."""

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
WIDE = {"0004", "0018", "0021"}  # decisions that later ones replace; kept as they were written
LINTED = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "changelog.d" / "README.md",
]
LINTED += [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name[:4] not in WIDE]
LINTED += [ROOT / "tests" / "chaos" / "README.md"]
LONGEST_LINE = 120
FENCED = re.compile(r"^```.*?^```[^\n]*$", re.DOTALL | re.MULTILINE)
QUESTION = re.compile(r"^\| (.*\?) \| (`.*`) \|$", re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def commands(command: click.Command, name: str, context: click.Context) -> Iterator[str]:
    """Yield the full name of every command below a group, e.g. `mainspring job add`."""
    if not isinstance(command, click.Group):
        yield name
        return
    for child_name in command.list_commands(context):
        child = command.get_command(context, child_name)
        if child is not None and not child.hidden:
            yield from commands(child, f"{name} {child_name}", click.Context(child, parent=context))


def command_line() -> click.Group:
    try:
        module = importlib.import_module("mainspring.cli.main")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("mainspring.cli"):
            raise
        pytest.skip("no command line yet")
    groups = [getattr(module, name, None) for name in ("main", "cli", "app")]
    return next(group for group in groups if isinstance(group, click.Group))


def test_every_command_is_named_in_the_docs() -> None:
    group = command_line()
    text = "\n".join(page.read_text() for page in PAGES)
    text = re.sub(r"\s+", " ", text)
    missing = [name for name in commands(group, "mainspring", click.Context(group)) if name not in text]
    assert missing == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in LINK.findall(CODE.sub("", page.read_text()))
        if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]
    assert broken == []


def test_generated_pages_are_current() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    folder = ROOT / "docs" / "adr"
    names = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in names] == list(range(len(names)))
    index = (folder / "README.md").read_text()
    assert [name for name in names if name not in index] == []


@pytest.mark.parametrize("page", LINTED, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_a_page_are_at_most_120_characters(page: Path) -> None:
    """Tables and fenced code cannot be broken; an address longer than a line cannot either."""
    text = FENCED.sub(lambda match: "\n" * match[0].count("\n"), page.read_text())
    long = [
        f"{number}: {len(line)} characters"
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > LONGEST_LINE and not line.startswith("|") and " " in line.strip(" -*")
    ]
    assert long == []


def test_contributing_says_where_to_find_twenty_behaviors() -> None:
    table = QUESTION.findall((ROOT / "CONTRIBUTING.md").read_text())
    named = [name for _, cell in table for name in re.findall(r"`([^`]+)`", cell)]
    assert len(table) == 20
    assert [name for name in named if not (ROOT / name).is_file()] == []
