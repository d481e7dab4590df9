"""Channels to servers: each leads to addresses that the policy allowed, and is kept for later calls."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from mainspring.core.values import value
from mainspring.egress.policy import Destination, EgressPolicy
from mainspring.executors._grpc.descriptors import Method, ask_server, find_method
from mainspring.executors._grpc.protocols import NOT_SERVING, health_messages

Lookup = Callable[[str, int], Awaitable[list[str]]]
_MOST = 256
"""Channels that are kept, at most; the one that was not used for longest is closed."""
_ADDRESS = re.compile(r"\s*(?:ipv4|ipv6):[\[\]0-9a-fA-F:.%]+:?")


class NotServing(Exception):
    """A server is there, and says that it does not serve now."""


class NoChannel(Exception):
    """There is no connection. The message holds no addresses."""


@value()
class Server:
    """A server as a job names it, with the addresses that were checked."""

    endpoint: Destination
    addresses: tuple[str, ...]

    @property
    def target(self) -> str:
        """The address of a channel: never a name, so that nothing is looked up again."""
        if ":" in self.addresses[0]:
            return "ipv6:" + ",".join(f"[{one}]:{self.endpoint.port}" for one in self.addresses)
        return "ipv4:" + ",".join(f"{one}:{self.endpoint.port}" for one in self.addresses)

    @property
    def authority(self) -> str:
        """The name by which the server knows itself."""
        host = f"[{self.endpoint.host}]" if ":" in self.endpoint.host else self.endpoint.host
        usual = 443 if self.endpoint.scheme == "https" else 80
        return host if self.endpoint.port == usual else f"{host}:{self.endpoint.port}"


@dataclass(slots=True)
class KeptChannel:
    """A channel, and what is known of its server.

    Attributes:
        methods: by full name.
    """

    channel: grpc.aio.Channel
    is_healthy: bool = False
    methods: dict[str, Method | None] = field(default_factory=dict)

    async def describe(self, name: str, timeout: float, *, anew: bool = False) -> Method | None:
        """Return what a method takes and gives; None if the server has none of that name.

        Args:
            anew: ask the server, although it has told before.

        Raises:
            Undescribed: the server does not tell.
            InvalidInput: the method streams.
            AioRpcError: the server does not answer.
        """
        if anew or name not in self.methods:
            pool = await ask_server(self.channel, name.partition("/")[0], timeout)
            self.methods[name] = find_method(pool, name)
        return self.methods[name]


class GrpcChannels:
    """Makes and keeps channels.

    Args:
        credentials: for TLS.
        connect_timeout: in seconds, for connecting and for the question after the server's health.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        lookup: Lookup,
        credentials: grpc.ChannelCredentials,
        *,
        connect_timeout: float,
    ) -> None:
        self._policy = policy
        self._lookup = lookup
        self._credentials = credentials
        self._connect_timeout = connect_timeout
        self._kept: OrderedDict[Server, KeptChannel] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def get(self, endpoint: Destination, service: str) -> KeptChannel:
        """Return a channel to a server. A new one asks first whether the server serves.

        Raises:
            Blocked: the policy forbids it.
            NoChannel: there is no connection.
            NotServing: the server says so.
        """
        try:
            addresses = await self._lookup(endpoint.host, endpoint.port)
        except OSError:
            raise NoChannel(f"the host {endpoint.host} cannot be resolved") from None
        self._policy.check(endpoint, addresses)
        of_one_family = [one for one in addresses if (":" in one) == (":" in addresses[0])]
        server = Server(endpoint, tuple(sorted(of_one_family)))
        kept = self._kept.get(server)
        if kept is None:
            kept = self._kept[server] = KeptChannel(self._open(server))
            if len(self._kept) > _MOST:
                _, oldest = self._kept.popitem(last=False)
                self._close(oldest)
        self._kept.move_to_end(server)
        if not kept.is_healthy:
            await self._ask_health(kept, server, service)
        return kept

    def _open(self, server: Server) -> grpc.aio.Channel:
        options = [
            ("grpc.default_authority", server.authority),
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]
        if server.endpoint.scheme != "https":
            return grpc.aio.insecure_channel(server.target, options)
        options.append(("grpc.ssl_target_name_override", server.endpoint.host))
        return grpc.aio.secure_channel(server.target, self._credentials, options)

    async def _ask_health(self, kept: KeptChannel, server: Server, service: str) -> None:
        """Connect, and ask the server after the service; if it does not know that, after itself."""
        for name in (service, ""):
            code, status = await self._check(kept.channel, server, name)
            if status == NOT_SERVING:
                raise NotServing(f"{server.authority} says that {name or 'it'} is not serving")
            if code is not grpc.StatusCode.NOT_FOUND:
                break
        kept.is_healthy = True

    async def _check(self, channel: grpc.aio.Channel, server: Server, name: str) -> tuple[Any, int]:
        request, response = health_messages()
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            answer = await check(request(service=name), timeout=self._connect_timeout)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise NoChannel(explain_unavailable(error.details(), server.endpoint)) from None
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                text = f"no connection to {server.authority} within {self._connect_timeout:g} s"
                raise NoChannel(text) from None
            return error.code(), 0
        return grpc.StatusCode.OK, int(answer.status)

    def _close(self, kept: KeptChannel) -> None:
        """Close a channel once its calls are over."""
        task = asyncio.get_running_loop().create_task(kept.channel.close(grace=3600.0))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all channels."""
        for task in list(self._closing):
            task.cancel()
        for kept in self._kept.values():
            await kept.channel.close()
        self._kept.clear()


def explain_unavailable(details: str | None, endpoint: Destination) -> str:
    """Say why there is no connection, without addresses."""
    text, where = details or "", f"{endpoint.host}:{endpoint.port}"
    if any(
        word in text for word in ("CERTIFICATE_VERIFY_FAILED", "peer certificate", "Hostname Verification")
    ):
        return f"the certificate of {where} is not accepted"
    if "andshake" in text or "SSL" in text:
        return f"no TLS connection to {where}"
    if "refused" in text:
        return f"no connection to {where}: Connection refused"
    if "failed to connect" in text or _ADDRESS.search(text):
        return f"no connection to {where}"
    return f"{where} is not available: {text}" if text else f"{where} is not available"


def without_addresses(text: str) -> str:
    """Return a text without the addresses that gRPC itself puts into it."""
    return _ADDRESS.sub(" ", text).strip()
