"""Whose connection it is: the kernel's messages, and what it says of real sockets in every state they may be in."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.api.callers import CALLER, CallerFinder, SameUser, choose_callers
from mainspring.api.errors import Rejected
from mainspring.api.principals import identify_anybody
from mainspring.api.socket_diagnosis import (
    End,
    SocketFacts,
    owner_of,
    read_answer,
    read_end,
    read_sequence,
    write_question,
)
from mainspring.core.rights import ALL_RIGHTS
from mainspring.errors import InvalidInput

NOBODY = 65_534
OWNER = os.geteuid()
ESTABLISHED, SYN_RECV, FIN_WAIT_1, FIN_WAIT_2, TIME_WAIT, LISTEN = 1, 3, 4, 5, 6, 10
CLIENT, SERVER = End(IPv4Address("127.0.0.1"), 40_000), End(IPv4Address("127.0.0.1"), 8620)
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket to another user")

ports = st.integers(1, 65_535)


def read_plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return read_end(str(address), 1).address


ends = st.builds(End, st.ip_addresses(v=4), ports) | st.builds(
    End, st.ip_addresses(v=6).map(read_plain), ports
)
pairs = st.tuples(ends, ends).filter(lambda pair: type(pair[0].address) is type(pair[1].address))
numbers = st.integers(0, 2**32 - 1)


# -- messages ----------------------------------------------------------------------------------------------------------


def answer(facts: SocketFacts, sequence: int, *, as_mapped: bool = False) -> bytes:
    """Write an answer as the kernel does."""
    is_old = isinstance(facts.source.address, IPv4Address)

    def packed(address: IPv4Address | IPv6Address) -> bytes:
        if is_old and as_mapped:
            return b"\0" * 10 + b"\xff\xff" + address.packed
        return address.packed.ljust(16, b"\0")

    family = socket.AF_INET if is_old and not as_mapped else socket.AF_INET6
    return (
        struct.pack("=IHHII", 88, 20, 0, sequence, 4711)
        + struct.pack("=BBBB", family, facts.state, 0, 0)
        + struct.pack(">HH", facts.source.port, facts.target.port)
        + packed(facts.source.address)
        + packed(facts.target.address)
        + struct.pack("=III", 0, 1, 2)
        + struct.pack("=IIIII", 0, 0, 0, facts.uid, facts.inode)
    )


@given(pairs, numbers, numbers, numbers, st.integers(0, 255), st.booleans())
def test_answer_is_read_as_it_was_written(
    pair: tuple[End, End], sequence: int, uid: int, inode: int, state: int, as_mapped: bool
) -> None:
    facts = SocketFacts(*pair, state=state, uid=uid, inode=inode)
    message = answer(facts, sequence, as_mapped=as_mapped)
    assert read_sequence(message) == sequence
    assert read_answer(message) == facts
    assert read_answer(message + b"an attribute") == facts


@given(st.binary(max_size=200))
@example(struct.pack("=IHHII", 36, 2, 0, 7, 0) + struct.pack("=i", -2) + b"\0" * 16)  # no such socket
def test_what_is_no_answer_tells_nothing(message: bytes) -> None:
    facts = read_answer(message)
    assert facts is None or message[4:6] == struct.pack("=H", 20)
    read_sequence(message)


@given(pairs, st.integers(0, 87))
def test_answer_that_is_cut_off_tells_nothing(pair: tuple[End, End], length: int) -> None:
    message = answer(SocketFacts(*pair, state=ESTABLISHED, uid=0, inode=7), 1)
    assert read_answer(message[:length]) is None


@given(pairs, numbers)
def test_question_holds_its_ends_and_number(pair: tuple[End, End], sequence: int) -> None:
    message = write_question(*pair, sequence)
    assert struct.unpack_from("=I", message) == (len(message),) == (72,)
    assert read_sequence(message) == sequence
    assert struct.unpack_from(">HH", message, 24) == (pair[0].port, pair[1].port)
    assert message[28:].startswith(pair[0].address.packed)
    assert message[44:].startswith(pair[1].address.packed)


@pytest.mark.parametrize("state", range(13))
@pytest.mark.parametrize("inode", [0, 7])
def test_owner_is_told_of_sockets_that_somebody_holds_open(state: int, inode: int) -> None:
    facts = SocketFacts(CLIENT, SERVER, state=state, uid=0, inode=inode)
    is_told = inode != 0 and state in {ESTABLISHED, FIN_WAIT_1, FIN_WAIT_2}
    assert owner_of(facts, CLIENT, SERVER) == (0 if is_told else None)


@pytest.mark.parametrize(
    ("source", "target"),
    [(End(CLIENT.address, 1), SERVER), (CLIENT, End(CLIENT.address, 1)), (SERVER, CLIENT)],
)
def test_owner_of_other_ends_is_not_told(source: End, target: End) -> None:
    facts = SocketFacts(source, target, state=ESTABLISHED, uid=0, inode=7)
    assert owner_of(facts, CLIENT, SERVER) is None
    assert owner_of(None, CLIENT, SERVER) is None


def test_end_within_ipv6_is_its_ipv4_address() -> None:
    assert read_end("::ffff:127.0.0.1", 5) == End(IPv4Address("127.0.0.1"), 5)
    assert read_end("fe80::1%lo", 5) == End(IPv6Address("fe80::1"), 5)


# -- real sockets ------------------------------------------------------------------------------------------------------


@pytest.fixture
def finder() -> Iterator[CallerFinder]:
    with contextlib.closing(CallerFinder()) as finder:
        if not finder.can_tell("127.0.0.1"):
            pytest.skip("the kernel does not tell whose sockets are whose here")
        yield finder


@contextlib.contextmanager
def listening(host: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.bind((host, 0))
        listener.listen()
        yield listener


@contextlib.contextmanager
def connected(
    listener: socket.socket, *, uid: int = OWNER, port: int = 0, by: str = ""
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield the client's and the server's socket of a connection that a user makes."""
    host, target = listener.getsockname()[:2]
    with socket.socket(socket.AF_INET6 if ":" in (by or host) else socket.AF_INET) as client:
        if uid != OWNER:
            os.fchown(client.fileno(), uid, -1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if port:
            client.bind((host, port))
        client.connect((by or host, target))
        with listener.accept()[0] as server:
            yield client, server


def reset(client: socket.socket) -> None:
    """Close a socket so that its ends are free at once."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def play_on_a_free_port(scene: Callable[[], None]) -> None:
    """Play a scene in which a port is used again; once more if another program has it by then."""
    for _ in range(5):
        try:
            return scene()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise AssertionError("other programs took the port five times")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1"])
def test_own_connection_is_told(finder: CallerFinder, host: str) -> None:
    with listening(host) as listener, connected(listener) as (_, server):
        assert finder.find(server) == OWNER


@is_root
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connection_of_another_user_is_told(finder: CallerFinder, host: str) -> None:
    with listening(host) as listener, connected(listener, uid=NOBODY) as (_, server):
        assert finder.find(server) == NOBODY
        with connected(listener) as (_, another):
            assert finder.find(another) == OWNER
        assert finder.find(server) == NOBODY


@is_root
def test_ipv4_within_ipv6_is_told_on_either_side(finder: CallerFinder) -> None:
    with listening() as listener, connected(listener, uid=NOBODY, by="::ffff:127.0.0.1") as (_, server):
        assert finder.find(server) == NOBODY
    with socket.socket(socket.AF_INET6) as both:
        both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        both.bind(("::", 0))
        both.listen()
        with socket.socket() as client:
            os.fchown(client.fileno(), NOBODY, -1)
            client.connect(("127.0.0.1", both.getsockname()[1]))
            with both.accept()[0] as server:
                assert server.getpeername()[0] == "::ffff:127.0.0.1"
                assert finder.find(server) == NOBODY


@is_root
def test_connection_that_its_client_has_closed_is_nobodys(finder: CallerFinder) -> None:
    """The kernel gives what is left of it to user 0, which must not make its request root's."""
    with listening() as listener, connected(listener, uid=NOBODY) as (client, server):
        client.sendall(b"POST /api/v1/jobs")
        client.close()
        assert server.recv(4) == b"POST"
        assert finder.find(server) is None


@is_root
def test_connection_that_is_closed_before_it_is_accepted_is_nobodys(finder: CallerFinder) -> None:
    with listening() as listener:
        with socket.socket() as client:
            os.fchown(client.fileno(), NOBODY, -1)
            client.connect(listener.getsockname())
            client.sendall(b"POST")
        with listener.accept()[0] as server:
            assert finder.find(server) is None


@is_root
def test_connection_that_is_closed_for_writing_is_told(finder: CallerFinder) -> None:
    with listening() as listener, connected(listener, uid=NOBODY) as (client, server):
        client.shutdown(socket.SHUT_WR)
        assert server.recv(1) == b""
        assert finder.find(server) == NOBODY


@is_root
def test_listener_on_the_port_of_a_client_that_has_gone_is_not_taken_for_it(finder: CallerFinder) -> None:
    for _ in range(20):  # another process may be given the port first
        with listening() as listener, connected(listener, uid=NOBODY) as (client, server):
            port = client.getsockname()[1]
            reset(client)
            with socket.socket() as other:  # this test's, which is root
                try:
                    other.bind(("127.0.0.1", port))
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                    continue
                other.listen()
                assert finder.find(server) is None
                return
    pytest.fail("no port of a client could be bound")


@is_root
def test_same_port_used_again_is_another_connection(finder: CallerFinder) -> None:
    """The first one's server end has not been read to its end when the second one is made with the same ends."""

    def scene() -> None:
        with listening() as listener, connected(listener, uid=NOBODY) as (client, first):
            port = client.getsockname()[1]
            client.sendall(b"POST")
            reset(client)
            with connected(listener, port=port) as (_, second):
                assert first.fileno() != second.fileno()
                assert second.getpeername()[1] == port
                assert finder.find(second) == OWNER
                assert finder.find(first) is None

    play_on_a_free_port(scene)


@is_root
def test_same_port_used_again_between_question_and_answer_is_another_connection(finder: CallerFinder) -> None:
    """Whoever closes its connection in this moment must not be taken for the next one with the same ends."""

    def scene() -> None:
        with listening() as listener, connected(listener, uid=NOBODY) as (client, first):
            port = client.getsockname()[1]
            with contextlib.ExitStack() as later:

                class Replaced:
                    """The first connection, whose ends are used again once they have been read."""

                    def getpeername(self) -> Any:
                        return first.getpeername()

                    def getsockname(self) -> Any:
                        ends = first.getsockname()
                        reset(client)
                        later.enter_context(connected(listener, port=port))
                        return ends

                    def getsockopt(self, level: int, name: int, length: int, /) -> bytes:
                        return first.getsockopt(level, name, length)

                assert finder.find(Replaced()) is None

    play_on_a_free_port(scene)


@is_root
def test_socket_that_another_user_was_given_is_its_makers(finder: CallerFinder) -> None:
    """As with SO_PEERCRED: a process that hands a connected socket on speaks for who gets it."""
    with listening() as listener, connected(listener) as (client, server):
        child = os.fork()
        if child == 0:
            os.setuid(NOBODY)
            client.sendall(b"x")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert server.recv(1) == b"x"
        assert finder.find(server) == OWNER


def test_finder_goes_on_after_a_question_that_failed(finder: CallerFinder) -> None:
    with listening() as listener, connected(listener) as (_, server):
        with socket.socket() as unconnected:
            assert finder.find(unconnected) is None
        assert finder.find(server) == OWNER
        finder.close()
        assert finder.find(server) == OWNER


# -- who is let in -----------------------------------------------------------------------------------------------------


def scope_of(uid: int | None) -> dict[str, Any]:
    return {"type": "http", "state": {CALLER: uid}}


def test_owner_and_root_are_let_in() -> None:
    identify = SameUser(1234)
    assert identify(scope_of(0)).name == "root"
    assert identify(scope_of(1234)).rights == identify(scope_of(0)).rights == ALL_RIGHTS


@pytest.mark.parametrize("scope", [scope_of(NOBODY), scope_of(1235), scope_of(None), {"type": "http"}])
def test_others_are_refused(scope: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as refusal:
        SameUser(1234)(scope)
    assert refusal.value.status == 403
    assert "root" in refusal.value.detail


class Silent(CallerFinder):
    """A kernel that does not answer."""

    def can_tell(self, host: str) -> bool:
        return False


def test_shell_is_refused_where_the_kernel_cannot_tell() -> None:
    with pytest.raises(InvalidInput, match="does not tell which user calls") as refusal:
        choose_callers("127.0.0.1", is_trusted=False, allows_shell=True, finder=Silent())
    assert refusal.value.field == "allow_shell"


def test_operator_is_warned_where_the_kernel_cannot_tell() -> None:
    with structlog.testing.capture_logs() as logs:
        callers = choose_callers("127.0.0.1", is_trusted=False, allows_shell=False, finder=Silent())
    assert callers == (identify_anybody, None)
    assert [entry["event"] for entry in logs] == ["callers_unknown"]


@pytest.mark.parametrize("allows_shell", [False, True])
def test_everybody_is_let_in_on_a_trusted_network(allows_shell: bool) -> None:
    callers = choose_callers("127.0.0.1", is_trusted=True, allows_shell=allows_shell, finder=Silent())
    assert callers == (identify_anybody, None)
