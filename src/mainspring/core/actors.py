"""Who does something, as an argument of what changes anything."""

from __future__ import annotations

from enum import StrEnum

from mainspring.core.values import value


class ActorKind(StrEnum):
    """How an actor was told."""

    ANYBODY = "anybody"
    """The server does not tell its callers apart."""
    ACCOUNT = "account"
    """An account, told by an access token."""
    LOCAL = "local"
    """A user of the server's machine, told by the kernel."""
    PROCESS = "process"
    """The process by itself, or its user: an app that stores its jobs when it starts, or asks its own server."""
    OPERATOR = "operator"
    """Whoever has the token in the file that `auth.admin_token_file` names."""


@value(kw_only=True)
class Actor:
    """Who does something, and what.

    Attributes:
        name: as logs have it.
        action: the id of the operation that is carried out, such as `edit_job`.
        token: the prefix of the access token that it showed; None without one.
        address: where its request came from; None if it is in this process.
        request_id: the request's `X-Request-Id`, which the server's log has, too.
    """

    name: str
    kind: ActorKind
    action: str
    token: str | None = None
    address: str | None = None
    request_id: str | None = None
