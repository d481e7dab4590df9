"""An outbox: a service whose data is not in Mainspring's PostgreSQL submits each run exactly once.

    python examples/outbox.py shop.db          relay what the outbox holds, again and again

The service writes its order and a line of the outbox in one transaction of its own database. The relay submits the
lines to a server, each with its key, and removes them once the server has answered. If it dies in between, it submits
them again: the server knows the keys, and makes no second run. SQLite stands for any database with transactions.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from uuid import uuid4

from mainspring import App, MainspringError

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    job TEXT NOT NULL,
    payload TEXT NOT NULL
);
"""
BATCH = 500
PAUSE = 0.5

app = App()


@app.job()
def charge(order: int) -> int:
    return order


def open_database(path: str) -> sqlite3.Connection:
    """Open the service's database, and make its tables."""
    database = sqlite3.connect(path)
    database.executescript(TABLES)
    return database


def place_order(database: sqlite3.Connection, customer: str) -> int:
    """Write an order and the line that asks for its run, both or neither."""
    with database:  # one transaction
        order = database.execute("INSERT INTO orders (customer) VALUES (?)", (customer,)).lastrowid
        assert order is not None
        database.execute(
            "INSERT INTO outbox (key, job, payload) VALUES (?, ?, ?)",
            (f"shop-{uuid4()}", charge.name, json.dumps({"order": order})),
        )
    return order


def relay(database: sqlite3.Connection) -> int:
    """Submit the oldest lines in one request, and then remove them. Return how many there were."""
    lines = database.execute(
        "SELECT id, key, job, payload FROM outbox ORDER BY id LIMIT ?", (BATCH,)
    ).fetchall()
    if not lines:
        return 0
    app.sync.submit_runs(
        [
            {"job": job, "payload": json.loads(payload), "idempotency_key": key}
            for _, key, job, payload in lines
        ]
    )
    with database:
        database.executemany("DELETE FROM outbox WHERE id = ?", [(line[0],) for line in lines])
    return len(lines)


def main() -> None:
    """Relay until interrupted. Several relays do no harm, but one is enough."""
    database = open_database(sys.argv[1])
    while True:
        try:
            if not relay(database):
                time.sleep(PAUSE)
        except MainspringError as error:  # the server is away, or its queue is full: the lines stay
            print(f"the outbox waits: {error}", file=sys.stderr)
            time.sleep(PAUSE)


if __name__ == "__main__":
    main()
