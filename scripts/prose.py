"""Lint the prose of the pages: proselint's rules, and those of scripts/prose.toml beside this file.

.venv/bin/python scripts/prose.py [--count] [FILE ...]

Without files it reads README.md, CONTRIBUTING.md, SECURITY.md, docs/, and the README of changelog.d and tests/chaos.
`--count` prints the number of findings of each page instead of the findings. Code, addresses and comments are not
read. The exit code is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from proselint.checks import __register__ as proselint_checks
from proselint.config import DEFAULT, Config
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckResult
from proselint.registry.checks.types import PreferredForms
from proselint.tools import LintFile

ROOT = Path(__file__).parents[1]
RULES: Mapping[str, Any] = tomllib.loads((ROOT / "scripts" / "prose.toml").read_text())
TABLES = ("plain", "person", "tense", "retired")
# What is no prose: fenced code, comments, and where a link leads.
BLANKED = re.compile(r"^(```|~~~).*?^\1[^\n]*$|<!--.*?-->|(?<=\])\([^)\s]+\)", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`[^`\n]+`")
# Where a sentence must end: at a blank line, a table's cell, a list's item, a heading.
BLOCK_END = re.compile(r"\n\s*\n|\n?\|[-| ]*|\n\s*(?:[-*]|\d+\.) |\n#+ |\n> ")
SENTENCE_END = re.compile(r"[.!?][)\"*_]*\s+")
DOUBLED = re.compile(r"\b([a-z]+)(?: |\n)\1\b")
WORD = re.compile(r"[\w'%/.,+-]*\w[\w'%/.,+-]*")


def pages() -> list[Path]:
    """Return the pages that are linted."""
    names = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "changelog.d/README.md", "tests/chaos/README.md")
    return [ROOT / name for name in names] + sorted((ROOT / "docs").rglob("*.md"))


def prose_of(page: str) -> str:
    """Blank out what is no prose, and keep every other character in its place.

    Inline code becomes a figure, so that it still counts as a word.
    """

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return INLINE.sub(lambda match: "0" * len(match[0]), BLANKED.sub(blank, page))


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence begins and ends."""
    start = 0
    for block in [*(match.span() for match in BLOCK_END.finditer(text)), (len(text), len(text))]:
        begin = start
        for match in SENTENCE_END.finditer(text, start, block[0]):
            yield begin, match.start() + 1
            begin = match.end()
        yield begin, block[0]
        start = block[1]


def find_long_sentences(text: str, check: Check) -> Iterator[CheckResult]:
    """Find the sentences of more words than scripts/prose.toml allows."""
    longest: int = RULES["longest_sentence"]
    for start, end in sentences(text):
        words = WORD.findall(text, start, end)
        if len(words) > longest:
            indent = len(text[start:end]) - len(text[start:end].lstrip())
            message = f"A sentence of {len(words)} words; {longest} are allowed."
            yield CheckResult(check.path, message, (start + indent, end), None)


def find_doubled_words(text: str, check: Check) -> Iterator[CheckResult]:
    """Find a word that was typed twice, in one paragraph."""
    for match in DOUBLED.finditer(text):
        yield CheckResult(check.path, f"'{match[1]}' is typed twice.", match.span(), None)


def own_checks() -> Iterator[Check]:
    """Yield the rules of scripts/prose.toml in proselint's form."""
    for table in TABLES:
        forms = {f"(?:{form})": instead for form, instead in RULES[table].items()}
        message = "Write '{}' instead of '{}'." if table != "retired" else "Write '{}'; '{}' was given up."
        yield Check(check_type=PreferredForms(forms), path=f"mainspring.{table}", message=message)
    yield Check(check_type=find_long_sentences, path="mainspring.sentence")
    yield Check(check_type=find_doubled_words, path="mainspring.doubled")


def config() -> Config:
    """Return proselint's own settings with what scripts/prose.toml switches off, the most particular first."""
    checks = {**DEFAULT["checks"], **RULES["proselint"], "mainspring": True}
    ordered = dict(sorted(checks.items(), key=lambda item: -item[0].count(".")))
    return Config(max_errors=10_000, checks=ordered)


def lint(page: Path, settings: Config) -> list[str]:
    """Return the findings of a page, each as `page:line:column: rule: message`."""
    name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else str(page)
    if any(name.startswith(folder) for folder in RULES["exempt"]):
        return []
    file = LintFile(name, prose_of(page.read_text()))
    found = []
    for result, _ in file.lint(settings):
        # proselint puts a line before the text, and takes the first column for the end of the line before.
        begin = result.span[0]
        line, column = file.content.count("\n", 0, begin), begin - file.content.rfind("\n", 0, begin)
        found.append(f"{name}:{line}:{column}: {result.check_path}: {result.message}")
    return found


def main(arguments: Iterable[str]) -> int:
    """Print the findings; return 1 if there are any."""
    parser = argparse.ArgumentParser(description="Lint the prose of the pages.")
    parser.add_argument("--count", action="store_true", help="print the number of findings of each page")
    parser.add_argument("files", nargs="*", type=Path, help="pages to read instead of all")
    options = parser.parse_args(list(arguments))
    registry = CheckRegistry()
    registry.register_many((*proselint_checks, *own_checks()))
    settings = config()
    total = 0
    for page in [file.resolve() for file in options.files] or pages():
        found = lint(page, settings)
        total += len(found)
        for line in [f"{len(found):5} {page.relative_to(ROOT)}"] if options.count else found:
            print(line)
    print(f"prose: {total} findings" if total else "prose: nothing to say", file=sys.stderr)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
