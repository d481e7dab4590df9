"""Messages of Linux's socket diagnosis (sock_diag(7)): writes the question about a TCP socket, reads the answer.

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
"""States in which a client's socket can still read an answer: open, or closed only for writing."""

# struct nlmsghdr; struct inet_diag_req_v2 and inet_diag_msg, both without their inet_diag_sockid; and inet_diag_sockid
# in two parts, the first of which is in network byte order.
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
    """What the kernel says about a socket.

    Attributes:
        source, target: the socket's own end, and the other end.
        uid: the user that made the socket; also 0 if no process holds it any more.
        inode: 0 if no process holds the socket.
    """

    source: End
    target: End
    state: int
    uid: int
    inode: int


def read_end(host: str, port: int) -> End:
    """Return an end from a socket's name. An IPv4 address mapped into IPv6 becomes the IPv4 address.

    Raises:
        ValueError: the host is not an address.
    """
    address = ip_address(host)
    if isinstance(address, IPv6Address):
        return End(address.ipv4_mapped or IPv6Address(int(address)), port)
    return End(address, port)


def write_question(source: End, target: End, sequence: int) -> bytes:
    """Return the message that asks about the socket with these ends.

    Args:
        sequence: the number of the question; the answer repeats it.
    """
    family = _AF_INET if isinstance(source.address, IPv4Address) else _AF_INET6
    return (
        _HEADER.pack(_QUESTION_LENGTH, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, sequence, 0)
        + _QUESTION.pack(family, _IPPROTO_TCP, 0, _ALL_STATES)
        + _ENDS.pack(source.port, target.port, _pad(source.address), _pad(target.address))
        + _SOCKET.pack(0, _NO_COOKIE, _NO_COOKIE)
    )


def read_sequence(message: bytes) -> int | None:
    """Return the number of the question that a message answers, or None if the message is cut off."""
    if len(message) < _HEADER.size:
        return None
    sequence: int = _HEADER.unpack_from(message)[3]
    return sequence


def read_answer(message: bytes) -> SocketFacts | None:
    """Return what an answer says, or None if there is no such socket or the message is not an answer."""
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
    """Return the user of the connected socket that was asked about, or None if the answer does not say.

    The kernel may answer with other sockets: with a listener on the same port if the connection is gone, and with
    user 0 for the rest of a connection that its process has closed.
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
