"""Named queries from `.sql` files: `-- name: claim_runs`, then one statement with `:parameters`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

_NAME = re.compile(r"^-- name: ([a-z_]+)$")
# Text in quotes and comments come first, so that nothing inside them is taken for a parameter; so do casts (`::`).
_TOKEN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|::|(?<![\w:]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Query:
    """One statement.

    Attributes:
        parameters: the names in order of their first appearance.
    """

    name: str
    text: str
    parameters: tuple[str, ...]

    def positional(self) -> tuple[str, tuple[str, ...]]:
        """Return the text with `$1`, `$2`… for its parameters, and their names in that order."""

        def number(match: re.Match[str]) -> str:
            name = match.group(1)
            return match.group(0) if name is None else f"${self.parameters.index(name) + 1}"

        return _TOKEN.sub(number, self.text), self.parameters


def load_queries(package: str) -> Mapping[str, Query]:
    """Return the queries of all files in a package's folder `queries`, by name.

    Raises:
        ValueError: a name is used twice, or text stands before the first name.
    """
    queries: dict[str, Query] = {}
    folder = files(package) / "queries"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            for query in parse_queries(file.read_text(encoding="utf-8")):
                if query.name in queries:
                    raise ValueError(f"{package}: query {query.name} stands twice")
                queries[query.name] = query
    return queries


def parse_queries(text: str) -> list[Query]:
    """Split a file's text into its queries."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = _NAME.match(line)
        if match:
            found.append((match.group(1), []))
        elif found:
            found[-1][1].append(line)
        elif line.strip() and not line.startswith("--"):
            raise ValueError(f"no name stands before {line!r}")
    return [_make_query(name, "\n".join(lines).strip().removesuffix(";")) for name, lines in found]


def _make_query(name: str, text: str) -> Query:
    names = (match.group(1) for match in _TOKEN.finditer(text))
    return Query(name, text, tuple(dict.fromkeys(name for name in names if name is not None)))
