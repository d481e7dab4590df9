"""A request as its handler sees it, and how a handler is bound to its operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.types import Receive, Scope

from mainspring.config.access import Access
from mainspring.core.rights import Principal
from mainspring.engine.scheduling.shards import Shards
from mainspring.engine.usecases.client import Client
from mainspring.ports.gateway import WorkerGateway
from mainspring.ports.store import FailoverFacts
from mainspring.wire.operation import Operation

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Services:
    """What handlers work with.

    Attributes:
        engine: its use cases.
        gateway: where workers' calls go.
        store_name: what `/health` calls the store.
        ping: asks the store for a sign of life; raises `StoreUnavailable`.
        shards: whose figures `/health` shows; None where this process does not schedule.
        failovers: gives those of the database, as the store tells them.
        figures: gives what the process counts.
        access: who may reach the API, and under which names.
    """

    engine: Client
    gateway: WorkerGateway
    store_name: str
    ping: Callable[[], Awaitable[object]]
    shards: Shards | None
    failovers: Callable[[], Sequence[FailoverFacts]]
    figures: Callable[[], Mapping[str, float]]
    access: Access


class Call(Request):
    """An admitted request. Its query is read by then: handlers find it in `query`, as the operation describes it.

    Attributes:
        services: what handlers work with.
        principal: on whose behalf it is made.
        key: what stands in the path's variable part; empty where there is none.
        query: the parameters that the operation names: those given, and those with a default.
        fields: the headers that some operation names, those given, by their names in lower case.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        *,
        services: Services,
        principal: Principal,
        key: str,
        query: Mapping[str, Any],
        fields: Mapping[str, str],
    ) -> None:
        super().__init__(scope, receive)
        self.services = services
        self.principal = principal
        self.key = key
        self.query = query
        self.fields = fields

    @property
    def engine(self) -> Client:
        """The engine's use cases."""
        return self.services.engine

    @property
    def tenant(self) -> str:
        """The tenant that the request is for."""
        return self.principal.tenant


class Answer(NamedTuple, Generic[A]):
    """An answer with another status than the operation's usual one."""

    content: A
    status: int


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """An operation with its handler.

    Attributes:
        handle: gets the call, and the decoded body where the operation takes one.
    """

    operation: Operation[Any]
    handle: Callable[..., Awaitable[Any]]


def handles(operation: Operation[A]) -> Callable[[Callable[..., Awaitable[A | Answer[A]]]], Endpoint]:
    """Bind the decorated handler to an operation."""

    def bind(handle: Callable[..., Awaitable[A | Answer[A]]]) -> Endpoint:
        return Endpoint(operation, handle)

    return bind
