"""A server that stops closes a connection that is in use with an answer that says so, not under a request."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.processes.processes import running

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLIENTS = 10


@dataclass
class Tally:
    """What clients saw.

    Attributes:
        broken: connections that ended while a request was on them.
    """

    answered: int = 0
    broken: list[str] = field(default_factory=list)


async def ask_on(port: int, tally: Tally) -> None:
    """Ask time and again on one connection, until the server says that it closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:] if line)
            await reader.readexactly(int(lines["content-length"]))
            tally.answered += 1
            if lines.get("connection") == "close":
                return
    except (OSError, asyncio.IncompleteReadError) as error:
        tally.broken.append(repr(error))
    finally:
        writer.close()


@pytest.mark.timeout(120)
async def test_connections_in_use_are_closed_with_an_answer(tmp_path: Path) -> None:
    with running("server", "--store", "memory://", "--port", 0, cwd=tmp_path) as process:
        url = await asyncio.to_thread(process.wait_for, "listening on ")
        tally = Tally()
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(ask_on(int(url.rpartition(":")[2]), tally))
            async with asyncio.timeout(60):
                while tally.answered < 5 * CLIENTS:  # noqa: ASYNC110 - until all are under way
                    await asyncio.sleep(0.01)
            code = await asyncio.to_thread(process.stop)
    assert code == 0
    assert tally.broken == []
