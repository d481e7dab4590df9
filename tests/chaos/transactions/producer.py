"""`python -m tests.chaos.transactions.producer asyncpg`: writes orders, and submits a run for each.

With the transaction, both are one commit. The control submits to the server after the commit, as one does without it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress

import asyncpg
import psycopg
import sqlalchemy

from mainspring import MainspringError
from tests.chaos.transactions.app import DSN, book, charge, is_control, pause

ORDER = "INSERT INTO orders DEFAULT VALUES RETURNING id"
NAME = "chaos-producer"
LOST = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, psycopg.Error, sqlalchemy.exc.DBAPIError)
"""The connection was cut. Whether the commit was done is not known, and need not be."""


async def produce_async() -> None:
    """Write orders until killed, on a connection of asyncpg."""
    while True:
        with suppress(*LOST, MainspringError):
            connection = await asyncpg.connect(os.environ[DSN], server_settings={"application_name": NAME})
            try:
                while True:
                    await _order(connection)
            finally:
                connection.terminate()


async def _order(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    async with connection.transaction():
        order = await connection.fetchval(ORDER)
        await asyncio.sleep(pause())
        if not is_control:
            await charge.options(connection=connection).enqueue(order=order)
            await asyncio.sleep(pause())
    if is_control:
        await asyncio.sleep(pause())
        await charge.enqueue(order=order)


def produce_sync() -> None:
    """Write orders until killed, on a connection of psycopg; each run has a key."""
    while True:
        with (
            suppress(*LOST, MainspringError),
            psycopg.connect(os.environ[DSN], application_name=NAME) as connection,
        ):
            while True:
                with connection.transaction():
                    row = connection.execute(ORDER).fetchone()
                    assert row is not None
                    time.sleep(pause())
                    if not is_control:
                        key = f"order-{row[0]}"
                        book.options(connection=connection, idempotency_key=key).enqueue_sync(order=row[0])
                        time.sleep(pause())
                if is_control:
                    time.sleep(pause())
                    book.enqueue_sync(order=row[0])


def produce_with_sqlalchemy() -> None:
    """Write orders until killed, on connections of SQLAlchemy; several runs at a time."""
    dsn = os.environ[DSN].replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(dsn, connect_args={"application_name": NAME}, pool_pre_ping=True)
    while True:
        with suppress(*LOST, MainspringError):
            with engine.begin() as connection:
                orders = [connection.execute(sqlalchemy.text(ORDER)).scalar_one() for _ in range(3)]
                calls = [{"order": order} for order in orders]
                time.sleep(pause())
                if not is_control:
                    book.options(connection=connection).enqueue_many_sync(calls)
                    time.sleep(pause())
            if is_control:
                time.sleep(pause())
                book.enqueue_many_sync(calls)


def main() -> None:
    """Produce by the driver that the command names."""
    driver = sys.argv[1]
    if driver == "asyncpg":
        asyncio.run(produce_async())
    elif driver == "psycopg":
        produce_sync()
    else:
        produce_with_sqlalchemy()


if __name__ == "__main__":
    main()
