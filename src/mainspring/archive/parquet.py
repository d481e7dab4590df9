"""Makes Parquet files of CSV, and counts what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.core.archive import COLUMNS, NULL, ArchiveKind, ColumnKind, RowSum
from mainspring.core.ciphertexts import FIRST_BYTE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GROUP = 2048
"""Rows that are packed together: a writer holds them in memory, with their payloads, and a look-up by id reads one such
group of a file."""
LONGEST_LINE = 4 << 20
"""Bytes. A run has a payload and a result of 64 KiB each, in hexadecimal, and shorter texts."""
_RAW = {"number": "BIGINT", "instant": "BIGINT", "uuid": "UUID", "text": "VARCHAR", "bytes": "VARCHAR"}
_IDENTITY = {
    ArchiveKind.RUNS: ("id", "job_id", "finished_at"),
    ArchiveKind.ATTEMPTS: ("run_id", "token", "finished_at"),
}
"""By which a row is known again. Ids alone may be those of another installation."""
_TYPES = {"number": "BIGINT", "instant": "TIMESTAMPTZ", "uuid": "UUID", "text": "VARCHAR"}


def connect(*, memory: int, scratch: Path, threads: int = 1) -> DuckDBPyConnection:
    """Return a DuckDB of its own in memory, which loads no extensions.

    Args:
        memory: how much it may use, in bytes; more goes into the folder `scratch`.
    """
    import duckdb

    db = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{memory}B",
            "threads": str(threads),
            "temp_directory": str(scratch),
        },
    )
    db.execute("SET TimeZone = 'UTC'")
    return db


def quote(text: object) -> str:
    """Return a text as SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def id_column(kind: ArchiveKind) -> str:
    """Return the column by which the rows of a kind are sorted and summed."""
    return COLUMNS[kind][0][0]


def write_parquet(
    db: DuckDBPyConnection, kind: ArchiveKind, source: Path, target: Path, *, beside: Sequence[Path] = ()
) -> RowSum:
    """Make a Parquet file of the CSV that a store has copied, sorted by id.

    Args:
        beside: other files of the day. Rows that they have are left out.

    Returns:
        What was left out.
    """
    columns = COLUMNS[kind]
    raw = ", ".join(f"{quote(name)}: {quote(_RAW[of])}" for name, of in columns)
    shown = ", ".join(_convert(name, of) for name, of in columns)
    order = "id" if kind is ArchiveKind.RUNS else "run_id, token"
    rows = (
        f"(SELECT {shown} FROM read_csv({quote(source)}, header=false, auto_detect=false, columns={{{raw}}},"
        f" nullstr={quote(NULL)}, allow_quoted_nulls=false, delim=',', quote='\"', escape='\"', new_line='\\n',"
        f" parallel=false, max_line_size={LONGEST_LINE}, buffer_size={2 * LONGEST_LINE}))"
    )
    known = RowSum()
    if beside:
        files = ", ".join(quote(file) for file in beside)
        same = " AND ".join(f"there.{name} = made.{name}" for name in _IDENTITY[kind])
        there = f"(SELECT 1 FROM read_parquet([{files}]) AS there WHERE {same})"
        column = id_column(kind)
        left = f"SELECT count(*), coalesce(sum({column}), 0) FROM {rows} AS made WHERE EXISTS {there}"
        count, ids = db.execute(left).fetchall()[0]
        known = RowSum(count, int(ids))
        rows = f"{rows} AS made WHERE NOT EXISTS {there}"
    db.execute(
        f"COPY (SELECT * FROM {rows} ORDER BY {order})"
        f" TO {quote(target)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP},"
        " KV_METADATA {'mainspring': 'history/v1'})"
    )
    return known


def _convert(name: str, kind: ColumnKind) -> str:
    if kind == "instant":
        return f"make_timestamptz({name}) AS {name}"
    if kind != "bytes":
        return name
    raw = f"unhex(substr({name}, 3))"
    # What is no text, or was encrypted in the store, stays as it is, in a column of its own.
    sealed = f"starts_with({name}, '\\x{FIRST_BYTE.hex()}')"
    text = f"CASE WHEN NOT {sealed} THEN TRY(decode({raw})) END"
    return f"{text} AS {name}, CASE WHEN {text} IS NULL THEN {raw} END AS {name}_sealed"


def columns_of(kind: ArchiveKind) -> list[tuple[str, str]]:
    """Return the columns of a file with their types."""
    found = []
    for name, of in COLUMNS[kind]:
        found += [(name, "VARCHAR"), (f"{name}_sealed", "BLOB")] if of == "bytes" else [(name, _TYPES[of])]
    return found


def sum_rows(db: DuckDBPyConnection, kind: ArchiveKind, file: Path) -> tuple[RowSum, int | None, int | None]:
    """Count the rows of a file; return the sum of their ids, the lowest and the highest."""
    column = id_column(kind)
    row = db.execute(
        f"SELECT count(*), coalesce(sum({column}), 0), min({column}), max({column})"
        f" FROM read_parquet({quote(file)})"
    ).fetchone()
    assert row is not None, "a count is a row"
    rows, ids, first, last = row
    return RowSum(rows, int(ids)), first, last
