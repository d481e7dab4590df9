"""The line between the parent of several worker processes and each of them: a pair of sockets, an end for each.

The worker says over it that it is ready. The parent says "stop" by closing its end, which the kernel does for a
parent that dies, however it dies: so no worker is left behind, and what it has under way is finished or handed back
instead of being lost, as it would be with a parent-death signal. Signals stay what they are for their senders: a
terminal or a service manager that signals parent and workers alike does not thereby signal a worker twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.host.process import StopRequest

READY = b"R"


class ParentLink:
    """The worker's end, as a descriptor that its parent has left open for it."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)  # not for the processes of jobs
        self._socket.setblocking(False)

    def attach(self, stop: StopRequest) -> None:
        """Ask the process to stop as soon as the parent's end is closed."""
        loop = asyncio.get_running_loop()

        def notice() -> None:
            try:
                if self._socket.recv(16):
                    return
            except BlockingIOError:
                return
            except ConnectionError:  # closed with a word unread
                pass
            loop.remove_reader(self._socket)
            stop.ask()

        loop.add_reader(self._socket, notice)

    def say_ready(self) -> None:
        """Tell the parent that this worker is ready."""
        with contextlib.suppress(OSError):  # a parent that is gone has asked for a stop thereby
            self._socket.send(READY)
