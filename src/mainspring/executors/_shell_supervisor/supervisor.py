"""The supervisor of one command."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
import time
from typing import Any

from .command import become_command, open_stdin
from .live import LiveOutput
from .processes import descendants_of, group_of, make_poll, send_signal, wake_on_child

_KEPT_END = 32 * 1024
_LAST_OUTPUT_SECONDS = 0.2
_KILL_ROUNDS = 500
_CLEAN_UP_SECONDS = 15.0
_LONGEST_POLL = 3600.0
_monotonic = time.monotonic  # noqa: TID251 -- a process of its own, which no simulation reaches


def folder_prefix(supervisor: int) -> str:
    return f"mainspring-{supervisor}-"


class CommandSupervisor:
    """Starts one command and stays until nothing of it is left."""

    def __init__(self, request: dict[str, Any], control: socket.socket, worker: int) -> None:
        self._request = request
        self._control = control
        self._worker = worker
        self._head = self._tail = b""
        self._size = 0
        self._reason = "exited"
        self._kill_at: float | None = None
        self._main = 0
        self._output = -1
        self._live: LiveOutput | None = None

    def run(self) -> tuple[bytes, dict[str, Any], bytes]:
        """Run the command. Return what is to be sent before the reply, the reply's header and the kept output."""
        folder = tempfile.mkdtemp(prefix=folder_prefix(os.getpid())) if self._request["cwd"] is None else None
        wake = wake_on_child()
        try:
            error = self._start(folder or self._request["cwd"])
            if error is None:
                self._watch(wake)
            self._linger(wake)
            code, is_clean = self._end(wake)
            if self._reason != "exited" or code < 0 or code in self._request.get("after_codes", ()):
                self._clean_up(wake, folder or self._request["cwd"])
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        header = {
            "error": error,
            "code": code,
            "reason": self._reason,
            "head": len(self._head),
            "dropped": self._size - len(self._head) - len(self._tail),
            "is_clean": is_clean,
        }
        return b"" if self._live is None else self._live.rest(), header, self._head + self._tail

    def _start(self, cwd: str) -> list[str] | None:
        """Fork the command. If it could not be started, return where and why."""
        self._output, output_write = os.pipe()
        error_read, error_write = os.pipe()
        os.set_blocking(self._output, False)
        stdin = open_stdin(self._request["stdin"])
        self._main = os.fork()
        if self._main == 0:
            become_command(self._request, cwd, (stdin, output_write), error_write)
        for fd in (output_write, error_write, stdin):
            os.close(fd)
        told = os.read(error_read, 65536)
        os.close(error_read)
        return told.decode("utf-8", "replace").split("\0") if told else None

    def _watch(self, wake: int) -> None:
        """Wait until the command ends, or end it."""
        now = _monotonic()
        if self._request["live_after"] is not None:
            begin_at = now + self._request["live_after"]
            self._live = LiveOutput(self._control, begin_at, self._request["live_limit"])
        hard_at = now + self._request["timeout"]
        soft_at = now + self._request["soft_timeout"] if self._request["soft_timeout"] is not None else None
        poll = make_poll(self._control.fileno(), self._worker, wake, self._output)
        while not self._has_ended():
            live_at = self._push_live(poll)
            wait = (
                min(at for at in (soft_at, hard_at, self._kill_at, live_at) if at is not None) - _monotonic()
            )
            events = dict(poll.poll(min(max(0.0, wait), _LONGEST_POLL) * 1000 + 1))
            ready = {fd for fd, event in events.items() if event != select.POLLOUT}
            if self._output in ready and not self._read_output():
                poll.unregister(self._output)
            if wake in ready:
                os.read(wake, 4096)
            is_alone = self._worker in ready
            if not is_alone and self._control.fileno() in ready:
                is_alone = not self._control.recv(16)
                if not is_alone:
                    self._terminate("cancelled")
            if is_alone:
                self._reason = "alone"
                return
            now = _monotonic()
            if self._kill_at is not None and now >= self._kill_at:
                return
            if soft_at is not None and now >= soft_at:
                self._terminate("soft_timeout", kill_at=hard_at)
                soft_at = None
            if now >= hard_at:
                self._terminate("timeout")
                hard_at = float("inf")

    def _push_live(self, poll: select.poll) -> float | None:
        """Pass on what the command has written. Return when to do so again."""
        live = self._live
        if live is None:
            return None
        live.push(_monotonic())
        poll.modify(self._control.fileno(), select.POLLIN | (select.POLLOUT if live.is_blocked else 0))
        return live.next_at()

    def _terminate(self, reason: str, kill_at: float | None = None) -> None:
        """Ask everything to end, and set the time at which it is killed."""
        if kill_at is None:
            kill_at = _monotonic() + self._request["grace"]
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, kill_at)
            return
        self._reason = reason
        self._kill_at = kill_at
        with contextlib.suppress(OSError):
            os.killpg(self._main, signal.SIGTERM)
        for pid in descendants_of(os.getpid()):
            if group_of(pid) != self._main:
                send_signal(pid, signal.SIGTERM)
            send_signal(pid, signal.SIGCONT)

    def _has_ended(self) -> bool:
        """Reap adopted processes. Return True if the command's own process has ended (and is still a zombie)."""
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return False
            if ended.si_pid == self._main:
                return True
            os.waitpid(ended.si_pid, os.WNOHANG)

    def _end(self, wake: int) -> tuple[int, bool]:
        """Kill whatever is left.

        Return the command's exit code (or minus its signal) and whether everything is gone.
        """
        with contextlib.suppress(OSError):
            os.killpg(self._main, signal.SIGKILL)  # not reaped yet, so the group is surely ours
        _, status = os.waitpid(self._main, 0)
        is_clean = False
        for _ in range(_KILL_ROUNDS):
            left = descendants_of(os.getpid())
            for pid in left:
                send_signal(pid, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                is_clean = True
                break
            self._read_output()
            if left:
                select.select([wake], [], [], 0.01)
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
        until = _monotonic() + _LAST_OUTPUT_SECONDS
        while self._read_output() and (wait := until - _monotonic()) > 0:
            select.select([self._output], [], [], wait)
        return os.waitstatus_to_exitcode(status), is_clean

    def _linger(self, wake: int) -> None:
        """Give the processes that the command left behind the time that it asked for to end by themselves."""
        until = _monotonic() + self._request.get("linger", 0.0)
        while self._reason == "exited" and (wait := until - _monotonic()) > 0:
            if not self._has_others():
                return
            select.select([wake], [], [], min(wait, 0.05))
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)

    def _has_others(self) -> bool:
        """Reap what has ended but the command itself. Return True if anything of it still runs."""
        others = descendants_of(os.getpid()) - {self._main}
        for pid in others:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        return bool(descendants_of(os.getpid()) - {self._main})

    def _clean_up(self, wake: int, cwd: str) -> None:
        """Run the commands that remove what the command left elsewhere, if it did not end by itself."""
        for argv in self._request.get("after", ()):
            request = {**self._request, "argv": argv, "limits": {}}
            null = os.open(os.devnull, os.O_RDWR)
            pid = os.fork()
            if pid == 0:
                become_command(request, cwd, (null, null), null)
            os.close(null)
            until = _monotonic() + _CLEAN_UP_SECONDS
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if _monotonic() > until:
                    send_signal(pid, signal.SIGKILL)
                select.select([wake], [], [], 0.05)
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)

    def _read_output(self) -> bool:
        """Read what is there. Return False if there will be no more."""
        try:
            data = os.read(self._output, 65536)
        except BlockingIOError:
            return True
        self._size += len(data)
        if self._live is not None:
            self._live.add(data)
        room = _KEPT_END - len(self._head)
        if room > 0:
            self._head += data[:room]
            self._tail = data[room:][-_KEPT_END:]
        else:
            self._tail = (self._tail + data)[-_KEPT_END:]
        return bool(data)
