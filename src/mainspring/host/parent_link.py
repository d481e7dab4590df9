"""The link between a supervisor and one of its worker processes: a socket pair, one end for each.

Over it, the worker says that it is ready. The parent closes its end to stop the worker. If the parent dies, for
whatever reason, the kernel closes it. So no worker is left behind, and its attempts are finished or handed back. With a
parent-death signal they would be lost. The link does not use signals, so a terminal or a service manager that signals
parent and workers alike does not signal a worker twice.
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
    """The worker's end: a file descriptor that the parent has left open for it."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)  # so that the processes of jobs do not get it
        self._socket.setblocking(False)

    def attach(self, stop: StopRequest) -> None:
        """Ask the process to stop when the parent's end is closed."""
        loop = asyncio.get_running_loop()

        def notice() -> None:
            try:
                if self._socket.recv(16):
                    return
            except BlockingIOError:
                return
            except ConnectionError:  # closed before the parent read everything
                pass
            loop.remove_reader(self._socket)
            stop.ask()

        loop.add_reader(self._socket, notice)

    def say_ready(self) -> None:
        """Tell the parent that this worker is ready."""
        with contextlib.suppress(OSError):  # a parent that is gone has thereby asked for a stop
            self._socket.send(READY)
