"""The jobs: each writes one row, its effect, and ends its run in the same transaction, or as the control does."""

from __future__ import annotations

import asyncio
import os
import time
from random import Random

import asyncpg
import psycopg

from mainspring import App, current_attempt
from mainspring.core.ids import format_run_id

DSN = "MAINSPRING_CHAOS_DSN"
CONTROL = "MAINSPRING_CHAOS_CONTROL"
PAUSE = 0.03
"""The most seconds between two steps, so that kills fall between them."""
EFFECT = "INSERT INTO effect (order_id, run, token) VALUES ({}, '{}', {})"
RETRY = {"max_retries": 1000, "delay": "0.05s", "cap": "0.5s"}

app = App()
is_control = os.environ.get(CONTROL) == "1"
_random = Random()


def pause() -> float:
    """Return how long to wait until the next step."""
    return _random.random() * PAUSE


def _effect(order: int) -> str:
    attempt = current_attempt()
    return EFFECT.format(order, format_run_id(attempt.run_id), attempt.token)


@app.job(retry=RETRY, delivery="exactly_once", poison_limit=100, timeout="60s")
async def charge(order: int) -> None:
    connection = await asyncpg.connect(os.environ[DSN], server_settings={"application_name": "chaos-job"})
    try:
        async with connection.transaction():
            await connection.execute(_effect(order))
            await asyncio.sleep(pause())
            if not is_control:
                await app.complete(connection, {"order": order})
                await asyncio.sleep(pause())
        await asyncio.sleep(pause())
    finally:
        connection.terminate()


@app.job(retry=RETRY, delivery="exactly_once", poison_limit=100, timeout="60s")
def book(order: int) -> None:
    with psycopg.connect(os.environ[DSN], application_name="chaos-job") as connection:
        connection.execute(_effect(order).encode())
        time.sleep(pause())
        if not is_control:
            app.complete_sync(connection, {"order": order})
            time.sleep(pause())
    time.sleep(pause())
