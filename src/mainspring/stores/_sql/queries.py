"""Named queries from `.sql` files: `-- name: claim_runs`, then one statement with `:parameters`.

Text that both dialects share is written once, in `fragments.sql`: `-- fragment: is_ready`, then the text that
replaces `{is_ready}` in every query. Text that statements of one dialect share is in its `queries/fragments.sql`. If a
fragment is a list of columns, `{run.held_columns}` becomes `run.id, run.token…`. A fragment may hold others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from mainspring.core.values import value

_NAME = re.compile(r"^-- (?:name|fragment): ([a-z_]+)$")
_PLACE = re.compile(r"\{(?:([a-z_]+)\.)?([a-z_]+)\}")
_FRAGMENTS = "fragments.sql"
# Quoted text, comments and casts (`::`) match first, so that nothing inside them is taken for a parameter.
_TOKEN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|::|(?<![\w:]):([a-z_]+)")


@value()
class Query:
    """One statement.

    Attributes:
        parameters: the names in order of their first appearance.
    """

    name: str
    text: str
    parameters: tuple[str, ...]

    def positional(self) -> tuple[str, tuple[str, ...]]:
        """Return the text with `$1`, `$2`… as parameters, and the parameters' names in that order."""
        return _number(self.text, self.parameters), self.parameters


@cache  # a process may open several stores
def _number(text: str, parameters: tuple[str, ...]) -> str:
    def number(match: re.Match[str]) -> str:
        name = match.group(1)
        return match.group(0) if name is None else f"${parameters.index(name) + 1}"

    return _TOKEN.sub(number, text)


@cache
def load_queries(package: str) -> Mapping[str, Query]:
    """Return the queries of all files in a package's folder `queries`, by name. The files are read once.

    Raises:
        ValueError: a name is used twice, there is text before the first name, or a fragment does not exist.
    """
    queries: dict[str, Query] = {}
    folder = files(package) / "queries"
    fragments = {**load_fragments(), **_load_own_fragments(folder)}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql") and file.name != _FRAGMENTS:
            for query in parse_queries(file.read_text(encoding="utf-8"), fragments):
                if query.name in queries:
                    raise ValueError(f"{package}: query {query.name} is defined twice")
                queries[query.name] = query
    return MappingProxyType(queries)


def load_fragments() -> Mapping[str, str]:
    """Return the fragments that the dialects share, by name."""
    return parse_fragments((files("mainspring.stores._sql") / _FRAGMENTS).read_text(encoding="utf-8"))


def _load_own_fragments(folder: Traversable) -> Mapping[str, str]:
    """Return the fragments of one dialect, if it has any."""
    own = folder / _FRAGMENTS
    return parse_fragments(own.read_text(encoding="utf-8")) if own.is_file() else {}


def parse_fragments(text: str) -> Mapping[str, str]:
    """Split a file's text into its fragments, leaving out their comments."""
    return dict(_split("\n".join(line for line in text.splitlines() if not _is_remark(line))))


def _is_remark(line: str) -> bool:
    return line.startswith("--") and _NAME.match(line) is None


def columns_of(fragment: str) -> tuple[str, ...]:
    """Return the names in a fragment that is a list of columns."""
    return tuple(name.strip() for name in fragment.split(","))


def parse_queries(text: str, fragments: Mapping[str, str] | None = None) -> list[Query]:
    """Split a file's text into its queries, and fill in the fragments."""
    known = fragments or {}
    return [_make_query(name, _fill_in(body, known)) for name, body in _split(text)]


def _split(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = _NAME.match(line)
        if match:
            found.append((match.group(1), []))
        elif found:
            found[-1][1].append(line)
        elif line.strip() and not line.startswith("--"):
            raise ValueError(f"there is no name before {line!r}")
    return [(name, "\n".join(lines).strip().removesuffix(";")) for name, lines in found]


def _fill_in(text: str, fragments: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        table, name = match.groups()
        if name not in fragments:
            raise ValueError(f"there is no fragment {name!r}")
        if table is None:
            return _fill_in(fragments[name], fragments)
        return ", ".join(f"{table}.{column}" for column in columns_of(fragments[name]))

    return _PLACE.sub(replace, text)


def _make_query(name: str, text: str) -> Query:
    names = (match.group(1) for match in _TOKEN.finditer(text))
    return Query(name, text, tuple(dict.fromkeys(name for name in names if name is not None)))
