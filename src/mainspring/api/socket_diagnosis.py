"""Messages of Linux's socket diagnosis (sock_diag(7)): the question for one TCP socket, and what the answer says.

Nothing here does input or output; `api.callers` asks the kernel.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_AF_INET, _AF_INET6, _IPPROTO_TCP = 2, 10, 6
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = 0xFFFFFFFF
_ESTABLISHED, _FIN_WAIT_1, _FIN_WAIT_2 = 1, 4, 5
_CONNECTED = {_ESTABLISHED, _FIN_WAIT_1, _FIN_WAIT_2}
"""States of a client's socket that can still read an answer: open, or closed for writing alone."""

# struct nlmsghdr; struct inet_diag_req_v2 and inet_diag_msg without their inet_diag_sockid; that one in two parts, of
# which the first is in the network's byte order.
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_ANSWER = struct.Struct("=BBBB")
_ENDS = struct.Struct(">HH16s16s")
_SOCKET = struct.Struct("=III")
_OWNER = struct.Struct("=IIIII")
_QUESTION_LENGTH = _HEADER.size + _QUESTION.size + _ENDS.size + _SOCKET.size
_ANSWER_LENGTH = _HEADER.size + _ANSWER.size + _ENDS.size + _SOCKET.size + _OWNER.size

Address = IPv4Address | IPv6Address


class End(NamedTuple):
    """One end of a connection."""

    address: Address
    port: int


class SocketFacts(NamedTuple):
    """What the kernel says of a socket.

    Attributes:
        source, target: the socket's own end, and the other one.
        uid: of the user that made it; 0 also where nobody holds it any more.
        inode: 0 where no process holds it.
    """

    source: End
    target: End
    state: int
    uid: int
    inode: int


def read_end(host: str, port: int) -> End:
    """Return an end from a socket's name; an IPv4 address within IPv6 is that IPv4 address.

    Raises:
        ValueError: the host is no address.
    """
    address = ip_address(host)
    if isinstance(address, IPv6Address):
        return End(address.ipv4_mapped or IPv6Address(int(address)), port)
    return End(address, port)


def write_question(source: End, target: End, sequence: int) -> bytes:
    """Return the message that asks for the socket of these ends.

    Args:
        sequence: stands in the answer, too.
    """
    family = _AF_INET if isinstance(source.address, IPv4Address) else _AF_INET6
    return (
        _HEADER.pack(_QUESTION_LENGTH, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, sequence, 0)
        + _QUESTION.pack(family, _IPPROTO_TCP, 0, _ALL_STATES)
        + _ENDS.pack(source.port, target.port, _pad(source.address), _pad(target.address))
        + _SOCKET.pack(0, _NO_COOKIE, _NO_COOKIE)
    )


def read_sequence(message: bytes) -> int | None:
    """Return the number of the question that a message answers; None where it is cut off."""
    if len(message) < _HEADER.size:
        return None
    sequence: int = _HEADER.unpack_from(message)[3]
    return sequence


def read_answer(message: bytes) -> SocketFacts | None:
    """Return what an answer says; None where there is no such socket, or the message is no answer."""
    if len(message) < _ANSWER_LENGTH:
        return None
    length, kind, _, _, _ = _HEADER.unpack_from(message)
    if kind != _SOCK_DIAG_BY_FAMILY or not _ANSWER_LENGTH <= length <= len(message):
        return None
    at = _HEADER.size
    family, state, _, _ = _ANSWER.unpack_from(message, at)
    if family not in {_AF_INET, _AF_INET6}:
        return None
    at += _ANSWER.size
    source_port, target_port, source, target = _ENDS.unpack_from(message, at)
    at += _ENDS.size + _SOCKET.size
    _, _, _, uid, inode = _OWNER.unpack_from(message, at)
    return SocketFacts(
        source=End(_unpad(source, family), source_port),
        target=End(_unpad(target, family), target_port),
        state=state,
        uid=uid,
        inode=inode,
    )


def owner_of(facts: SocketFacts | None, source: End, target: End) -> int | None:
    """Return the user of the connected socket that was asked for; None where the answer does not tell.

    The kernel answers with more than that: with a listener on the same port where the connection has gone, and with
    user 0 for what is left of a connection whose process has closed it.
    """
    if facts is None or (facts.source, facts.target) != (source, target):
        return None
    if facts.state not in _CONNECTED or facts.inode == 0:
        return None
    return facts.uid


def _pad(address: Address) -> bytes:
    return address.packed.ljust(16, b"\0")


def _unpad(data: bytes, family: int) -> Address:
    if family == _AF_INET:
        return IPv4Address(data[:4])
    address = IPv6Address(data)
    return address.ipv4_mapped or address
