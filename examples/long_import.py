"""A long job that shows how far it is, and goes on where it was when its worker dies.

    mainspring up long_import:app
    python -c 'import long_import; print(long_import.submit("customers.csv"))'
    python -c 'import long_import; print(long_import.progress("customers.csv"))'

The job works in steps. Each step writes its rows and how far the import has come in one transaction, so the two cannot
differ. An attempt begins by asking how far the one before it came. Whoever wants to see the progress asks the same
table; what the job prints is also the output of its run (`mainspring run logs`).
"""

from __future__ import annotations

import csv
import os
import sqlite3
from itertools import islice
from pathlib import Path

from mainspring import App

STEP = 1000
TABLES = """
CREATE TABLE IF NOT EXISTS customer (name TEXT NOT NULL, city TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS progress (file TEXT PRIMARY KEY, done INTEGER NOT NULL);
"""
app = App(name="import")


@app.job(
    retries=5,
    timeout="6h",
    concurrency={"key": "$.file", "limit": 1},  # no file is imported twice at the same time
)
def import_customers(file: str) -> int:
    """Import what is missing of a file; return how many rows it has."""
    database = open_database()
    try:
        done = progress(file)
        with Path(file).open(newline="") as lines:
            rows = islice(csv.reader(lines), done, None)
            while step := list(islice(rows, STEP)):
                with database:  # rows and progress, both or neither
                    advance(database, file, done, done + len(step))
                    database.executemany("INSERT INTO customer VALUES (?, ?)", step)
                done += len(step)
                print(f"{done} rows of {file}")
    finally:
        database.close()
    return done


def advance(database: sqlite3.Connection, file: str, before: int, after: int) -> None:
    """Write how far an import has come; refuse if somebody else has moved it, as an attempt that was given up."""
    database.execute("INSERT OR IGNORE INTO progress VALUES (?, 0)", (file,))
    moved = database.execute(
        "UPDATE progress SET done = ? WHERE file = ? AND done = ?", (after, file, before)
    )
    if moved.rowcount != 1:
        raise RuntimeError(f"another attempt goes on with {file}")


def submit(file: str) -> str:
    """Submit the import of a file; return the id of its run."""
    return import_customers.enqueue_sync(file=file).id


def progress(file: str) -> int:
    """Return how many rows of a file are imported."""
    database = open_database()
    try:
        found = database.execute("SELECT done FROM progress WHERE file = ?", (file,)).fetchone()
    finally:
        database.close()
    return 0 if found is None else int(found[0])


def open_database() -> sqlite3.Connection:
    """Open the database of the customers."""
    database = sqlite3.connect(os.environ.get("CUSTOMERS", "customers.db"))
    database.executescript(TABLES)
    return database
