"""A network of its own for a test: a namespace with an address that is not loopback, and that nobody else can reach."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

ADDRESS = "198.51.100.7"
"""The namespace's address beside 127.0.0.1."""
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR = 0x8913, 0x8914, 0x8916
_IFF_UP = 1
T = TypeVar("T")


def on_other_network(work: Callable[[], T]) -> T:
    """Carry out work in a thread that sees nothing but a network of its own, as do the processes it starts.

    Skips where this user may not make one.
    """

    def enter_and_work() -> T:
        _enter()
        return work()

    with ThreadPoolExecutor(1) as pool:  # a thread of its own, which ends: it cannot go back
        return pool.submit(enter_and_work).result()


def _enter() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        pytest.skip(f"a network namespace cannot be made: {reason}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        raise_loopback()
        address = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(ADDRESS))
        fcntl.ioctl(control, _SIOCSIFADDR, struct.pack("16s16s", b"lo:1", address))


def raise_loopback() -> None:
    """Bring up the loopback interface of the network that the calling thread sees."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        (flags,) = struct.unpack_from("h", asked, 16)
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
