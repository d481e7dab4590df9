"""A request as its handler sees it, and how a handler is bound to its operation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.types import Receive, Scope

from mainspring.api.caller_rates import CallerRates
from mainspring.api.ics import IcsReader
from mainspring.api.login_desk import LoginDesk
from mainspring.api.ping_gate import PingGate
from mainspring.api.store_probe import StoreProbe
from mainspring.api.streaming import Stream
from mainspring.config.access import Access
from mainspring.core.access import Identity
from mainspring.core.actors import Actor, ActorKind
from mainspring.core.job_findings import JobFindings
from mainspring.core.rights import Principal, Right
from mainspring.core.values import value
from mainspring.engine.scheduling.shards import Shards
from mainspring.engine.usecases.client import Client
from mainspring.ports.gateway import ServingGateway
from mainspring.ports.logs import LogSwitch
from mainspring.ports.store import FailoverFacts
from mainspring.wire.operation import Operation

A = TypeVar("A")


@value()
class Services:
    """What handlers work with.

    Attributes:
        engine: the engine's use cases.
        gateway: where workers' calls go.
        store_name: the store's name in `/health`.
        ping: checks that the store answers; raises `StoreUnavailable` if not.
        probe: checks the same, rarely, for callers of whom nothing is known.
        shards: the source of the scheduler's figures in `/health`; None if this process does not schedule.
        failovers: returns the database failovers that the store knows about.
        figures: returns the process's figures.
        expose: returns all that the process measures, or what of it a tenant may see, in Prometheus's text format.
        access: who may reach the API, and under which names.
        ics: reads ICS files.
        why_rates: how often each caller may ask why a run waits.
        test_rates: how often each caller may test channels.
        pings: how often pings may come with keys that are not known.
        findings: returns what the last look at all jobs has found; None if there was none.
        logs: sets which log lines this process writes; None if the log is not its own.
        desk: lets people in; None if there never are accounts.
        on_access_changed: awaited after accounts or tokens have changed, so that this server knows at once.
    """

    engine: Client
    gateway: ServingGateway
    store_name: str
    ping: Callable[[], Awaitable[object]]
    probe: StoreProbe
    shards: Shards | None
    failovers: Callable[[], Sequence[FailoverFacts]]
    figures: Callable[[], Mapping[str, float]]
    expose: Callable[[str | None], str]
    access: Access
    ics: IcsReader
    why_rates: CallerRates
    test_rates: CallerRates
    pings: PingGate
    findings: Callable[[], JobFindings | None]
    logs: LogSwitch | None
    desk: LoginDesk | None
    on_access_changed: Callable[[], Awaitable[object]]


class Call(Request):
    """An admitted request. Its query has been read, and is in `query` as the operation describes it.

    Attributes:
        services: what handlers work with.
        principal: on whose behalf the request is made.
        identity: the token that the request is made with, and its account; None if it needs none.
        key: the value of the path's variable part; empty if it has none.
        query: the operation's query parameters: those that were given, and those with a default.
        fields: the given headers that the admission step or some operation uses, by name in lower case.
        operation: what is asked for.
        request_id: the request's id, which the answer has, too.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        *,
        services: Services,
        principal: Principal,
        identity: Identity | None,
        key: str,
        query: Mapping[str, Any],
        fields: Mapping[str, str],
        operation: Operation[Any],
        request_id: str,
    ) -> None:
        super().__init__(scope, receive)
        self.services = services
        self.principal = principal
        self.identity = identity
        self.key = key
        self.query = query
        self.fields = fields
        self.operation = operation
        self.request_id = request_id

    @property
    def engine(self) -> Client:
        """The engine's use cases."""
        return self.services.engine

    @property
    def caller(self) -> str:
        """Who calls, and from where: the same text for calls that share a rate."""
        address = self.address
        return self.principal.name if address is None else f"{self.principal.name} at {address}"

    @property
    def address(self) -> str | None:
        """Where the request came from; None if it is in this process."""
        client = self.scope.get("client")
        return None if client is None else client[0]

    @property
    def actor(self) -> Actor:
        """Who calls, for the audit."""
        identity = self.identity
        return Actor(
            name=self.principal.name,
            kind=self.principal.kind if identity is None else ActorKind.ACCOUNT,
            action=self.operation.id,
            token=None if identity is None else identity.token.prefix,
            address=self.address,
            request_id=self.request_id,
        )

    @property
    def made_by(self) -> str:
        """Who makes what the request makes: an account; `local` as long as nobody is told apart."""
        return "local" if self.identity is None else self.principal.name

    @property
    def sees_all(self) -> bool:
        """Whether the caller may read what belongs to every tenant."""
        return Right.READ in self.principal.shared_rights

    def hides_payloads_in(self, tenant: str) -> bool:
        """Return whether the caller sees no payloads and errors of a tenant, which may be another one than its own."""
        return self.identity is not None and self.identity.hides_payloads_in(tenant)

    @property
    def tenant(self) -> str:
        """The tenant that the request is for."""
        return self.principal.tenant


class Answer(NamedTuple, Generic[A]):
    """An answer whose status may differ from the operation's usual one.

    Attributes:
        headers: those besides type, length and request id.
        cookies: the values of headers `Set-Cookie`.
    """

    content: A
    status: int
    headers: Mapping[str, str] = MappingProxyType({})
    cookies: tuple[str, ...] = ()


class Streamed(NamedTuple):
    """The content of an answer that is sent piece by piece.

    Attributes:
        length: its bytes.
    """

    pieces: AsyncGenerator[bytes, None]
    length: int
    media_type: str


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """An operation with its handler.

    Attributes:
        handle: called with the call, and with the decoded body if the operation takes one.
    """

    operation: Operation[Any]
    handle: Callable[..., Awaitable[Any]]


def handles(
    operation: Operation[A],
) -> Callable[[Callable[..., Awaitable[A | Answer[A] | Stream]]], Endpoint]:
    """Bind the decorated handler to an operation."""

    def bind(handle: Callable[..., Awaitable[A | Answer[A] | Stream]]) -> Endpoint:
        return Endpoint(operation, handle)

    return bind
