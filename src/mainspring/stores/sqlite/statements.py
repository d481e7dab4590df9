"""Runs the named statements of `queries/*.sql` on a connection.

Rows are read by the names of their columns. `fetch_tuples` is for the few hot queries that return a row for every run,
clock or shard, where even a named tuple for each row shows in measurements; a test holds the order of their columns.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import apsw
from apsw.ext import query_info

from mainspring.stores._sql.queries import load_queries
from mainspring.stores.sqlite.rows import NamedRow, Row

Values = Row | Mapping[str, Any]
_SQL = {name: query.text for name, query in load_queries("mainspring.stores.sqlite").items()}
_ROWS: dict[str, Callable[[Row], NamedRow]] = {}
"""What makes the rows of each query, found when it first runs."""


def fetch_rows(db: apsw.Connection, name: str, values: Values = ()) -> list[NamedRow]:
    """Return all rows of a query."""
    make_row = _ROWS.get(name)
    if make_row is None:
        columns = [column[0] for column in query_info(db, _SQL[name]).description]
        # The columns are known only here.
        row_class: Any = namedtuple(name, columns)  # type: ignore[misc] # noqa: PYI024
        make_row = _ROWS[name] = row_class._make
    return list(map(make_row, db.execute(_SQL[name], values).fetchall()))


def fetch_row(db: apsw.Connection, name: str, values: Values = ()) -> NamedRow | None:
    """Return the first row of a query, or None if there is no row."""
    rows = fetch_rows(db, name, values)
    return rows[0] if rows else None


def fetch_values(db: apsw.Connection, name: str, values: Values = ()) -> list[Any]:
    """Return the values of a query that has one column."""
    return [row[0] for row in db.execute(_SQL[name], values).fetchall()]


def fetch_value(db: apsw.Connection, name: str, values: Values = ()) -> Any:
    """Return the first value of a query that has one column, or None if there is no row."""
    rows = db.execute(_SQL[name], values).fetchall()
    return rows[0][0] if rows else None


def fetch_tuples(db: apsw.Connection, name: str, values: Values = ()) -> list[Row]:
    """Return all rows of a query as tuples, in the order of its columns."""
    return cast("list[Row]", db.execute(_SQL[name], values).fetchall())


def iterate(db: apsw.Connection, name: str, values: Values = ()) -> Iterator[Row]:
    """Yield the rows of a query as tuples, as they are read."""
    return cast("Iterator[Row]", iter(db.execute(_SQL[name], values)))


def execute(db: apsw.Connection, name: str, values: Values = ()) -> None:
    """Run a statement that returns nothing."""
    db.execute(_SQL[name], values)


def execute_many(db: apsw.Connection, name: str, values: Sequence[Values]) -> None:
    """Run a statement once for each set of values."""
    if values:
        db.executemany(_SQL[name], values)
