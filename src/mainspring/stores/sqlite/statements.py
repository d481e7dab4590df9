"""Runs the named statements of `queries/*.sql` on a connection.

Rows come back as dictionaries, by the names of their columns. `fetch_tuples` is for the few queries that return many
rows on a hot path, where a dictionary for each row shows in measurements. A test holds the order of their columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import apsw
from apsw.ext import query_info

from mainspring.stores._sql.queries import load_queries
from mainspring.stores.sqlite.rows import NamedRow, Row

Values = Row | Mapping[str, Any]
_SQL = {name: query.text for name, query in load_queries("mainspring.stores.sqlite").items()}
_COLUMNS: dict[str, list[str]] = {}
"""The names of each query's columns, found when it first runs."""


def fetch_rows(db: apsw.Connection, name: str, values: Values = ()) -> list[NamedRow]:
    """Return all rows of a query."""
    columns = _COLUMNS.get(name)
    if columns is None:
        columns = _COLUMNS[name] = [column[0] for column in query_info(db, _SQL[name]).description]
    return [dict(zip(columns, row, strict=True)) for row in fetch_tuples(db, name, values)]


def fetch_row(db: apsw.Connection, name: str, values: Values = ()) -> NamedRow | None:
    """Return the first row of a query, or None if there is no row."""
    rows = fetch_rows(db, name, values)
    return rows[0] if rows else None


def fetch_values(db: apsw.Connection, name: str, values: Values = ()) -> list[Any]:
    """Return the values of a query that has one column."""
    return [value for (value,) in fetch_tuples(db, name, values)]


def fetch_value(db: apsw.Connection, name: str, values: Values = ()) -> Any:
    """Return the first value of a query that has one column, or None if there is no row."""
    found = fetch_values(db, name, values)
    return found[0] if found else None


def fetch_tuples(db: apsw.Connection, name: str, values: Values = ()) -> list[Row]:
    """Return all rows of a query as tuples, in the order of its columns."""
    return cast("list[Row]", db.execute(_SQL[name], values).fetchall())


def execute(db: apsw.Connection, name: str, values: Values = ()) -> None:
    """Run a statement that returns nothing."""
    db.execute(_SQL[name], values)


def execute_many(db: apsw.Connection, name: str, values: Sequence[Values]) -> None:
    """Run a statement once for each set of values."""
    if values:
        db.executemany(_SQL[name], values)
