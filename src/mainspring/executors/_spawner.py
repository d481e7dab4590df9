"""The worker's end of the spawner process (see `_shell_supervisor`)."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

from mainspring.errors import MainspringError

_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from _shell_supervisor.spawner import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
"""Loads the package alone, without its parent packages, which would load all of Mainspring."""
_START_SECONDS = 20.0
_STOP_SECONDS = 5.0
_DEAD = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF})


def spawner_command(server_fd: int, worker_pid: int) -> list[str]:
    """Return the command line of a spawner that serves this worker on this socket."""
    folder = str(Path(__file__).parent)
    options = ["-I", "-S", "-X", "utf8", "-c", _START]
    return [sys.executable, *options, folder, str(server_fd), str(worker_pid)]


class Spawner:
    """Starts the spawner process, restarts it if it dies, and asks it for supervisors."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Start the process and wait until it is ready.

        Raises:
            MainspringError: it does not start.
        """
        await asyncio.to_thread(self._start)

    async def supervise(self) -> socket.socket:
        """Return the control socket of a new supervisor, non-blocking.

        Raises:
            MainspringError: the spawner died and cannot be started again.
        """
        ours, theirs = socket.socketpair()
        try:
            await self._send(theirs.fileno())
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        return ours

    async def stop(self) -> None:
        """End the process. Supervisors end by themselves when their commands do."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            await asyncio.to_thread(_end, self._process)
            self._process = None

    async def _send(self, fd: int) -> None:
        for is_last in (False, True):
            async with self._lock:  # wait while another caller restarts it
                used = self._socket
            if used is None:
                raise MainspringError("the process that starts commands is not running")
            try:
                await _pass_on(used, fd)
                return
            except (OSError, ValueError) as error:  # ValueError: another caller closed it to restart it
                if is_last or (isinstance(error, OSError) and error.errno not in _DEAD):
                    raise MainspringError(
                        f"the process that starts commands cannot be reached: {error}"
                    ) from error
            async with self._lock:
                if self._socket is used:  # no other caller was faster
                    await self.stop()
                    await self.start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 -- our own script
                spawner_command(theirs.fileno(), os.getpid()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        ours.settimeout(_START_SECONDS)
        try:
            is_ready = ours.recv(1) == b"R"
        except OSError:
            is_ready = False
        if not is_ready:
            ours.close()
            self._process.kill()
            self._process.wait()
            self._process = None
            raise MainspringError("the process that starts commands does not start")
        ours.setblocking(False)
        self._socket = ours


async def _pass_on(used: socket.socket, fd: int) -> None:
    while True:
        try:
            socket.send_fds(used, [b"J"], [fd])
            return
        except BlockingIOError:
            await asyncio.to_thread(select.select, [], [used], [], 1.0)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
