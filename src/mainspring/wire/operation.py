"""How one operation of the HTTP API is described; `wire.operations` has the table of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from mainspring.core.rights import Right

A = TypeVar("A")
BODY_LIMIT = 1024 * 1024
"""Bytes of a request's body, where an operation has no limit of its own."""
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a header.

    Attributes:
        description: one sentence, for the API's description and its page.
        default: what holds where it is not given.
        bounds: the lowest and highest value; a parameter with bounds is a whole number, one without is text.
        lengths: the lowest and highest number of characters of a text.
    """

    name: str
    description: str
    default: str | int | None = None
    bounds: tuple[int, int] | None = None
    lengths: tuple[int, int] | None = None
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body.

    Attributes:
        shape: the type that describes it.
        decoded_as: what its handler gets: `shape`, a plain `dict[str, Any]`, or `Any` JSON value.
        limit: bytes at most.
        is_optional: an empty body is an empty object.
        media_types: those that are described; both JSON types are read everywhere.
    """

    shape: Any
    decoded_as: Any
    limit: int = BODY_LIMIT
    is_optional: bool = False
    media_types: tuple[str, ...] = (JSON,)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Operation(Generic[A]):
    """One operation: everything that server, client and pages need to know of it.

    Attributes:
        id: its name in the API's description.
        path: with at most one part in braces.
        right: what its caller must be allowed to do.
        summary: a title.
        description: one or two sentences.
        answer: the type of a success's body; None where there is none.
        statuses: of a success, the usual one first.
        body: None where it takes none.
        is_conflicting: it may answer 409.
        is_described: it stands in the API's description, which does not describe itself.
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
    is_conflicting: bool = False
    is_described: bool = True

    @property
    def variable(self) -> str | None:
        """The name of the path's variable part, like `job_id`; None where all of it is fixed."""
        _, brace, rest = self.path.partition("{")
        return rest.partition("}")[0] if brace else None

    def url(self, key: str | None = None) -> str:
        """Return the path of a request.

        Args:
            key: takes the place of the variable part.

        Raises:
            ValueError: there is a key and no variable part, or the other way round.
        """
        variable = self.variable
        if (variable is None) != (key is None):
            raise ValueError(f"{self.id} takes {'no key' if variable is None else f'a {variable}'}")
        return self.path if key is None else self.path.replace(f"{{{variable}}}", quote(key, safe=""))
