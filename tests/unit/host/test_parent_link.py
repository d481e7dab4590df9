"""How a process is asked to stop: by signals, of which the second ends it, and by its parent's end."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator

import pytest

from mainspring.host.parent_link import READY, ParentLink
from mainspring.host.process import StopRequest


class Exited(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise Exited(code)

    monkeypatch.setattr(os, "_exit", leave)


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, ParentLink]]:
    ours, theirs = socket.socketpair()
    parent_link = ParentLink(theirs.detach())
    with ours, parent_link._socket:
        yield ours, parent_link


async def test_the_parent_is_told_that_its_worker_is_ready(line: tuple[socket.socket, ParentLink]) -> None:
    parent, parent_link = line
    with parent:
        parent_link.say_ready()
        assert parent.recv(16) == READY
    parent_link.say_ready()  # nobody listens any more, and nobody minds


@pytest.mark.parametrize("is_unread", [False, True])
async def test_the_parents_end_is_a_request_to_stop(
    line: tuple[socket.socket, ParentLink], is_unread: bool
) -> None:
    parent, parent_link = line
    stop = StopRequest()
    parent_link.attach(stop)
    if is_unread:
        parent_link.say_ready()
    else:
        parent.send(b"?")
        for _ in range(5):
            await asyncio.sleep(0)
        assert not stop.is_set
    parent.close()
    async with asyncio.timeout(10):
        await stop.wait()


async def test_a_parents_end_and_a_signal_are_not_two_signals() -> None:
    stop = StopRequest()
    stop.ask()
    stop.set()
    stop.ask()
    assert stop.is_set
    with pytest.raises(Exited, match="130"):
        stop.set()


async def test_what_is_left_to_do_is_done_before_the_end() -> None:
    stop, done = StopRequest(), list[str]()
    stop.on_repeat = lambda: done.append("killed")
    stop.set()
    assert done == []
    with pytest.raises(Exited):
        stop.set()
    assert done == ["killed"]
