"""Marks, finds and kills processes that a dead worker has left behind."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

MARKER = "MAINSPRING_WORKER"
_PREFIX = MARKER.encode() + b"="
_PROC = Path("/proc")


def worker_marker(pid: int | None = None) -> str:
    """Return a text that is unique to a worker's process: its pid namespace, its pid and its start time.

    Raises:
        OSError: there is no such process.
    """
    pid = os.getpid() if pid is None else pid
    namespace = (_PROC / "self/ns/pid").stat().st_ino
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return f"{namespace}.{pid}.{fields[19]}"


def sweep_leftovers() -> None:
    """Kill every process that carries the marker of a worker that is gone.

    It handles only processes of this pid namespace, since elsewhere a pid means something else. It cannot reach
    processes of another user unless it runs as root. It reads all of /proc, so call it on a thread.
    """
    namespace = worker_marker().partition(".")[0]
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and _is_leftover(int(entry.name), namespace):
            _kill(int(entry.name), namespace)


def _is_leftover(pid: int, namespace: str) -> bool:
    marker = _read_marker(pid)
    parts = marker.split(".") if marker else []
    if len(parts) != 3 or parts[0] != namespace or not parts[1].isdigit():
        return False
    try:
        return worker_marker(int(parts[1])) != marker
    except OSError:
        return True


def _read_marker(pid: int) -> str | None:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    for variable in environment.split(b"\0"):
        if variable.startswith(_PREFIX):
            return variable.removeprefix(_PREFIX).decode("ascii", "replace")
    return None


def _kill(pid: int, namespace: str) -> None:
    """Kill the process that was examined, not another one that has got its pid since."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if _is_leftover(pid, namespace):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
