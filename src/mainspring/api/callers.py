"""Which user of this machine calls a server on loopback, and whether that user is let in (ADR 0027)."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog
from starlette.types import Scope

from mainspring.api.admission import Identify
from mainspring.api.errors import Rejected
from mainspring.api.principals import identify_anybody
from mainspring.api.socket_diagnosis import (
    End,
    owner_of,
    read_answer,
    read_end,
    read_sequence,
    write_question,
)
from mainspring.core.model import DEFAULT_TENANT
from mainspring.core.rights import ALL_RIGHTS, Principal
from mainspring.errors import InvalidInput

_log = structlog.get_logger(__name__)
CALLER = "mainspring.caller"
"""Under this name a connection's state has its caller's user id, or None where the kernel does not tell."""
_NETLINK_SOCK_DIAG = 4
_MOST_BYTES = 4096
_MOST_ANSWERS = 8
"""How many answers to earlier questions, given up meanwhile, are passed over."""
_ROOT = 0
_ESTABLISHED, _CLOSE_WAIT = 1, 8
_WHOLE_MAP = ["0", "0", "4294967295"]


class Connection(Protocol):
    """What is asked of a connection's socket; the event loops' own stand-ins for sockets have no more."""

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

    The answer holds for the connection that was asked for and for no other one: ask once, and keep the answer with the
    connection.
    """

    def __init__(self) -> None:
        self._kernel: socket.socket | None = None
        self._sequence = 0

    def close(self) -> None:
        """Close the socket to the kernel; the next question opens another one."""
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.close()

    def find(self, connection: Connection) -> int | None:
        """Return the user's id; None where the kernel does not tell, or the client has gone already."""
        try:
            client = read_end(*connection.getpeername()[:2])
            server = read_end(*connection.getsockname()[:2])
            uid = self._ask(client, server)
            # As long as the server's socket lives, no other connection has these ends.
            return uid if _is_open(connection) else None
        except (OSError, ValueError):
            self.close()
            return None

    def can_tell(self, host: str) -> bool:
        """Try on a connection of this process at an address."""
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
            self._kernel.setblocking(False)  # an answer is there when the question is sent
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self._kernel.sendto(write_question(client, server, self._sequence), (0, 0))
        for _ in range(_MOST_ANSWERS):
            message, sender = self._kernel.recvfrom(_MOST_BYTES)
            if sender[0] == 0 and read_sequence(message) == self._sequence:
                return owner_of(read_answer(message), client, server)
        return None


class SameUser:
    """Lets in what processes of one user, and of root, ask."""

    def __init__(self, uid: int) -> None:
        self._owner = uid
        self._principals = {
            each: Principal(name=_name(each), tenant=DEFAULT_TENANT, rights=ALL_RIGHTS)
            for each in (uid, _ROOT)
        }

    def __call__(self, scope: Scope) -> Principal:
        """Return on whose behalf a request is made.

        Raises:
            Rejected: 403, another user's process asks, or it is not known whose.
        """
        uid: int | None = scope.get("state", {}).get(CALLER)
        if uid in self._principals:
            return self._principals[uid]
        allowed = " and ".join(dict.fromkeys((_name(self._owner), _name(_ROOT))))
        if uid is None:
            raise Rejected(403, f"the kernel could not tell which user calls; only {allowed} may. Try again")
        raise Rejected(
            403,
            f"there are no access tokens yet, so this server answers to processes of {allowed} only, and not of"
            f" {_name(uid)}; call it as that user, or start it with --trusted-network if every user of this"
            " machine may define and run jobs",
        )


class Callers(NamedTuple):
    """How callers are told.

    Attributes:
        finder: asks for each new connection whose it is; None where that does not matter.
    """

    identify: Identify
    finder: CallerFinder | None


def choose_callers(host: str, *, is_trusted: bool, allows_shell: bool, finder: CallerFinder) -> Callers:
    """Choose whom a server lets in that is bound to `host`.

    Args:
        is_trusted: the operator says that whoever can reach that address may do everything.
        finder: is tried, where it is needed.

    Raises:
        InvalidInput: shell jobs are allowed, and the kernel cannot tell whose they are.
    """
    if is_trusted:
        return Callers(identify_anybody, None)
    if finder.can_tell(host):
        return Callers(SameUser(os.geteuid()), finder)
    if allows_shell:
        raise InvalidInput(
            "allow_shell",
            "this system does not tell which user calls, so any user of this machine could run commands as"
            f" {_name(os.geteuid())}; leave it out, or say with --trusted-network that every one of them may",
        )
    _log.warning(
        "callers_unknown",
        address=host,
        meaning="this system does not tell which user calls: every user of this machine may define and run jobs",
    )
    return Callers(identify_anybody, None)


def _is_open(connection: Connection) -> bool:
    """Whether the client may still send or read on a connection: it was not reset, nor closed by both."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return info[0] in {_ESTABLISHED, _CLOSE_WAIT}


def _is_user_ambiguous() -> bool:
    """Whether other users may look like this one: in a user namespace, all that it does not map look like one."""
    try:
        mapped = Path("/proc/self/uid_map").read_text().split()
        return mapped != _WHOLE_MAP and os.geteuid() == int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return True


def _name(uid: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"
