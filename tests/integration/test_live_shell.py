"""What a command writes is passed on while it runs, without secrets, and however much it is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.core.log_cut import LogCut
from mainspring.core.run_logs import LogPart, RunProgress, deflate, join_parts
from mainspring.executors import ShellExecutor
from mainspring.ports.executor import AttemptContext, Outcome, Success
from mainspring.ports.secrets import SecretMissing
from tests.unit.executors.attempts import make_attempt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are carried out on Linux only")
LIMIT = 1024 * 1024


class Listening:
    """Takes what an attempt writes, and tells when something has come."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.texts: list[str] = []
        self.skipped = 0
        self.cut = LogCut(100 * limit)
        self.has_come = asyncio.Event()

    def open(self, context: AttemptContext) -> Listening:
        return self

    def write(self, text: str) -> None:
        self.texts.append(text)
        self.cut.add(text.encode())
        self.has_come.set()

    def skip(self, count: int) -> None:
        self.skipped += count
        self.cut.skip(count)

    def tell(self, progress: RunProgress) -> None:
        raise AssertionError("commands tell no progress")

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def read(self) -> str:
        return join_parts(
            [LogPart(start, len(data), deflate(data)) for start, data in self.cut.take().pieces], 0
        ).text


class OneSecret:
    """A secret of all tenants."""

    def check(self, name: str, tenant: str | None) -> None: ...

    def reveal(self, name: str, tenant: str | None) -> str:
        if name != "key":
            raise SecretMissing(name)
        return "hunter-hunter-2"


@pytest.fixture
async def shell() -> AsyncIterator[ShellExecutor]:
    executor = ShellExecutor(enabled=True, grace=timedelta(seconds=0.3), secrets=OneSecret())
    await executor.start()
    yield executor
    await executor.stop()


async def run(shell: ShellExecutor, command: str, room: Listening | None, **params: object) -> Outcome:
    attempt = make_attempt({"command": command, "shell": True, **params})
    attempt.room = room  # type: ignore[misc]
    return await shell.execute(attempt)


async def test_what_a_command_writes_comes_while_it_runs_and_all_of_it_at_its_end(
    shell: ShellExecutor, tmp_path: Path
) -> None:
    room, gate = Listening(), tmp_path / "go-on"
    command = f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two >&2; printf end"
    running = asyncio.create_task(run(shell, command, room))
    async with asyncio.timeout(20):
        await room.has_come.wait()
    assert room.text == "one\n"
    assert not running.done()
    gate.touch()
    assert await running == Success(result=b'{"exit_code":0}', output="one\ntwo\nend")
    assert room.text == "one\ntwo\nend"


async def test_what_ends_soon_passes_nothing_on(shell: ShellExecutor) -> None:
    room = Listening()
    assert await run(shell, "echo one", room) == Success(result=b'{"exit_code":0}', output="one\n")
    assert room.texts == []


async def test_without_a_room_nothing_is_passed_on(shell: ShellExecutor) -> None:
    outcome = await run(shell, "echo one; sleep 0.8; echo two", None)
    assert outcome == Success(result=b'{"exit_code":0}', output="one\ntwo\n")


async def test_no_secret_is_passed_on_even_in_two_halves(shell: ShellExecutor) -> None:
    room = Listening()
    command = (
        "sleep 0.7; printf 'it is %s and ' $KEY; printf hunter-; sleep 0.6; printf 'hunter-2.'; sleep 0.4"
    )
    outcome = await run(shell, command, room, env={"KEY": "${secret:key}"})
    assert isinstance(outcome, Success)
    assert len(room.texts) > 1, "it came in pieces"
    for shown in (room.text, outcome.output or ""):
        assert "hunter-" not in shown, shown
        assert shown.startswith("it is ***"), shown


async def test_no_secret_is_passed_on_bit_by_bit(shell: ShellExecutor) -> None:
    """Each bit alone is too short to be known, or stands neither at the begin nor at the end of the secret."""
    room = Listening()
    bits = " ".join(f"printf {bit}; sleep 0.4;" for bit in ("h", "u", "nter-hu", "nter-", "2", "."))
    outcome = await run(shell, f"sleep 0.7; printf it:; {bits}", room, env={"KEY": "${secret:key}"})
    assert isinstance(outcome, Success)
    assert len(room.texts) > 1, "it came in pieces"
    assert (room.text, outcome.output) == ("it:***.", "it:***.")


async def test_a_character_that_comes_in_two_halves_is_one(shell: ShellExecutor) -> None:
    room = Listening()
    await run(shell, "sleep 0.7; printf '\\303'; sleep 0.6; printf '\\244 a \\377'; sleep 0.4", room)
    assert room.text == "\u00e4 a \ufffd"


async def test_a_command_that_writes_without_end_is_not_held_up_and_keeps_its_begin_and_end(
    shell: ShellExecutor,
) -> None:
    room = Listening()
    command = "seq 1 4000000; sleep 1; echo the end"
    outcome = await run(shell, command, room)
    assert isinstance(outcome, Success)
    whole = sum(len(str(number)) + 1 for number in range(1, 4_000_001)) + len("the end\n")
    assert room.cut.end == whole
    text = room.read()
    begin = "".join(f"{number}\n" for number in range(1, 80_000))
    assert text.startswith(begin), "the first half of the limit"
    assert text.endswith("3999999\n4000000\nthe end\n")
