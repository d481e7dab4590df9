"""Reads processes and their descendants from the kernel."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal

SET_DEATH_SIGNAL, SET_DUMPABLE, SET_SUBREAPER, SET_NO_NEW_PRIVILEGES = 1, 4, 36, 38
_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    _libc.prctl(option, value, 0, 0, 0)


def hide_from_user() -> None:
    """Keep other processes of this user from reading this one: its environment, its memory and its open files.

    Its forks are hidden, too, until they execute a program. Root can still read them.
    """
    prctl(SET_DUMPABLE, 0)


def wake_on_child() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read


def make_poll(*fds: int) -> select.poll:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll


def children_of(pid: int) -> set[int]:
    """Return the children of a process, zombies included."""
    found: set[int] = set()
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
        for task in tasks:
            with contextlib.suppress(OSError):
                found.update(map(int, _read(f"{task.path}/children").split()))
    return found


def descendants_of(pid: int) -> set[int]:
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        fresh = children_of(waiting.pop()) - found
        found |= fresh
        waiting += fresh
    return found


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        data = b""
        while chunk := os.read(fd, 65536):
            data += chunk
        return data
    finally:
        os.close(fd)


def group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def send_signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)
