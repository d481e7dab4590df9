"""Finds out which user of this machine calls a server on loopback, and decides whom to admit (ADR 0027)."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog
from starlette.types import Scope

from mainspring.api.errors import Rejected
from mainspring.api.gatekeeper import Identify
from mainspring.api.principals import identify_anybody
from mainspring.api.socket_diagnosis import (
    End,
    owner_of,
    read_answer,
    read_end,
    read_sequence,
    write_question,
)
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.rights import ALL_RIGHTS, Principal
from mainspring.errors import InvalidInput

_log = structlog.get_logger(__name__)
CALLER = "mainspring.caller"
"""The key in a connection's state for its caller's user id, which is None if the kernel does not know it."""
_NETLINK_SOCK_DIAG = 4
_MOST_BYTES = 4096
_MOST_ANSWERS = 8
"""How many messages to read at most. Those that answer earlier, abandoned questions are skipped."""
_ROOT = 0
_ESTABLISHED, _CLOSE_WAIT = 1, 8
_WHOLE_MAP = ["0", "0", "4294967295"]


class Connection(Protocol):
    """The part of a socket that is used here. The sockets that event loops hand out need not have more."""

    def getsockname(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """Return the server's end."""
        ...

    def getpeername(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """Return the client's end."""
        ...

    def getsockopt(self, level: int, name: int, length: int, /) -> bytes:
        """Return an option."""
        ...


class CallerFinder:
    """Asks the kernel which user made the client's socket of a connection on this machine.

    The answer holds only for that connection, so ask once and keep the answer with the connection.
    """

    def __init__(self) -> None:
        self._kernel: socket.socket | None = None
        self._sequence = 0

    def close(self) -> None:
        """Close the socket to the kernel. The next question opens another one."""
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.close()

    def find(self, connection: Connection) -> int | None:
        """Return the user's id, or None if the kernel does not know it or the client is already gone."""
        try:
            client = read_end(*connection.getpeername()[:2])
            server = read_end(*connection.getsockname()[:2])
            uid = self._ask(client, server)
            # While the server's socket is open, no other connection has these ends.
            return uid if _is_open(connection) else None
        except (OSError, ValueError):
            self.close()
            return None

    def can_tell(self, host: str) -> bool:
        """Return whether the kernel identifies callers, tried on a connection of this process at an address."""
        if _is_user_ambiguous():
            return False
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            with socket.socket(family) as listener, socket.socket(family) as client:
                listener.bind((host, 0))
                listener.listen(1)
                client.connect(listener.getsockname())
                with listener.accept()[0] as connection:
                    return self.find(connection) == os.geteuid()
        except OSError:
            return False

    def _ask(self, client: End, server: End) -> int | None:
        if self._kernel is None:
            self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            self._kernel.setblocking(False)  # the answer is there as soon as the question is sent
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self._kernel.sendto(write_question(client, server, self._sequence), (0, 0))
        for _ in range(_MOST_ANSWERS):
            message, sender = self._kernel.recvfrom(_MOST_BYTES)
            if sender[0] == 0 and read_sequence(message) == self._sequence:
                return owner_of(read_answer(message), client, server)
        return None


class SameUser:
    """Admits requests from processes of one user, and of root."""

    def __init__(self, uid: int) -> None:
        self._owner = uid
        self._principals = {
            each: Principal(
                name=_name(each), tenant=DEFAULT_TENANT, rights=ALL_RIGHTS, shared_rights=ALL_RIGHTS
            )
            for each in (uid, _ROOT)
        }

    def __call__(self, scope: Scope) -> Principal:
        """Return on whose behalf a request is made.

        Raises:
            Rejected: 403, the request comes from another user's process, or the user is not known.
        """
        uid: int | None = scope.get("state", {}).get(CALLER)
        if uid in self._principals:
            return self._principals[uid]
        allowed = " and ".join(dict.fromkeys((_name(self._owner), _name(_ROOT))))
        if uid is None:
            raise Rejected(403, f"the kernel could not tell which user calls; only {allowed} may. Try again")
        raise Rejected(
            403,
            f"there are no accounts yet, so this server answers only processes of {allowed}, not of"
            f" {_name(uid)}; call it from such a process, or start it with --trusted-network if every user of this"
            " machine may define and run jobs",
        )


class Callers(NamedTuple):
    """How a server identifies its callers.

    Attributes:
        identify: returns on whose behalf a request is made.
        finder: finds the user behind each new connection; None if that does not matter.
    """

    identify: Identify
    finder: CallerFinder | None


def choose_callers(host: str, *, is_trusted: bool, allows_shell: bool, finder: CallerFinder) -> Callers:
    """Choose whom a server that is bound to `host` admits.

    Args:
        is_trusted: the operator allows everyone who can reach that address to do everything.
        allows_shell: the server accepts shell jobs.
        finder: is tried out if it is needed.

    Raises:
        InvalidInput: shell jobs are allowed, and the kernel cannot tell who submits them.
    """
    if is_trusted:
        return Callers(identify_anybody, None)
    if finder.can_tell(host):
        return Callers(SameUser(os.geteuid()), finder)
    if allows_shell:
        raise InvalidInput(
            "allow_shell",
            "this system does not tell which user calls, so any user of this machine could run commands as"
            f" {_name(os.geteuid())}; leave it out, or allow every user to do so with --trusted-network",
        )
    _log.warning(
        "callers_unknown",
        address=host,
        meaning="this system does not tell which user calls: every user of this machine may define and run jobs",
    )
    return Callers(identify_anybody, None)


def _is_open(connection: Connection) -> bool:
    """Return whether the client can still send or read: the connection was not reset, nor closed by both sides."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return info[0] in {_ESTABLISHED, _CLOSE_WAIT}


def _is_user_ambiguous() -> bool:
    """Return whether other users may look like this one: a user namespace shows all users outside its map as one."""
    try:
        mapped = Path("/proc/self/uid_map").read_text().split()
        return mapped != _WHOLE_MAP and os.geteuid() == int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return True


def _name(uid: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"
