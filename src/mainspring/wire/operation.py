"""How one operation of the HTTP API is described. The table of all operations is in `wire.operations`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from mainspring.core.fields import MAX_WORD
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.rights import Right
from mainspring.core.values import value

A = TypeVar("A")
BODY_LIMIT = 1024 * 1024
"""The most bytes of a request's body, unless the operation has its own limit."""
DEFINITIONS_LIMIT = 4 * BODY_LIMIT
"""The most bytes of a body of definitions, which are applied as a whole."""
BULK_LIMIT = 1000
"""The most jobs or submissions of one request."""
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
ICS = "text/calendar"
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
"""What Prometheus reads."""


@value()
class Parameter:
    """A query parameter or a header.

    Attributes:
        description: one or two sentences, for the API's description and its page.
        default: the value if it is not given.
        bounds: the lowest and highest value. A parameter with bounds is a whole number; one without is text.
        lengths: the lowest and highest number of characters of a text.
    """

    name: str
    description: str
    default: str | int | None = None
    bounds: tuple[int, int] | None = None
    lengths: tuple[int, int] | None = None
    is_required: bool = False


TENANT = Parameter(
    "Mainspring-Tenant", "The tenant to act for.", default=DEFAULT_TENANT, lengths=(1, MAX_WORD)
)
"""A header of all operations on what belongs to a tenant."""


@value()
class Body:
    """A request's body.

    Attributes:
        shape: the type that describes it.
        decoded_as: the type that its handler gets: `shape`, a plain `dict[str, Any]`, or `Any` JSON value; `bytes` if
            it is not JSON.
        is_streamed: the handler reads it piece by piece, whatever its type, and judges its length.
        limit: the most bytes; a setting may name another number.
        is_optional: whether a request may leave it out; an empty body counts as an empty object.
        media_types: the types to describe. Every operation accepts both JSON types, or else just the one named here.
    """

    shape: Any
    decoded_as: Any
    limit: int = BODY_LIMIT
    is_optional: bool = False
    media_types: tuple[str, ...] = (JSON,)
    is_streamed: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Operation(Generic[A]):
    """One operation: everything that server, client and pages need to know about it.

    Attributes:
        id: its name in the API's description.
        path: its path, with at most one part in braces.
        right: the right that its caller needs.
        summary: a title.
        description: one or two sentences.
        answer: the type of the body of a successful answer; None's type if there is none.
        other_answers: the types that its parameters may call for instead.
        statuses: the statuses of success, the usual one first.
        body: the request's body; None if it takes none. Then a body that says anything is refused.
        media_type: of the answer. One that is not JSON is text.
        is_followed: whether its answer may be events instead, one after another (`text/event-stream`).
        is_conflicting: whether it may answer 409.
        is_rationed: whether it may answer 429.
        is_shared: whether it is about what all tenants share, though it needs no right of an administrator.
        is_described: whether it is part of the API's description, which does not describe itself.
        ignores_queries: whether query parameters that it does not know are left alone, because others write them.
    """

    id: str
    method: str
    path: str
    right: Right
    summary: str
    description: str
    answer: type[A]
    statuses: tuple[int, ...] = (200,)
    body: Body | None = None
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    other_answers: tuple[Any, ...] = ()
    media_type: str = JSON
    is_followed: bool = False
    is_conflicting: bool = False
    is_rationed: bool = False
    is_shared: bool = False
    is_described: bool = True
    ignores_queries: bool = False

    @property
    def all_headers(self) -> tuple[Parameter, ...]:
        """The headers that it uses, with those that many operations have in common."""
        return (*self.headers, TENANT) if self.is_of_tenant else self.headers

    @property
    def needs_all_tenants(self) -> bool:
        """Whether its caller needs the right for all tenants."""
        return self.is_shared or self.right is Right.ADMIN

    @property
    def is_of_tenant(self) -> bool:
        """Whether it is about what belongs to one tenant."""
        return self.right not in {Right.PUBLIC, Right.SELF, Right.WORK, Right.ADMIN}

    @property
    def variable(self) -> str | None:
        """The name of the path's variable part, like `job_id`; None if it has none."""
        _, brace, rest = self.path.partition("{")
        return rest.partition("}")[0] if brace else None

    def url(self, key: str | None = None) -> str:
        """Return the path of a request.

        Args:
            key: the value of the variable part.

        Raises:
            ValueError: there is a key but no variable part, or the other way round.
        """
        variable = self.variable
        if (variable is None) != (key is None):
            raise ValueError(f"{self.id} takes {'no key' if variable is None else f'a {variable}'}")
        return self.path if key is None else self.path.replace(f"{{{variable}}}", quote(key, safe=""))
