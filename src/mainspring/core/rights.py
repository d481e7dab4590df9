"""What a caller may do: rights, and the principal that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mainspring.core.actors import ActorKind


class Right(StrEnum):
    """What an operation of the API requires of its caller."""

    PUBLIC = "public"
    """Nothing: every caller that reaches the API may call it."""
    READ = "read"
    """Read jobs, runs and workers."""
    SUBMIT = "submit"
    """Start and cancel runs."""
    OPERATE = "operate"
    """Pause and resume jobs."""
    EDIT = "edit"
    """Create, change and delete jobs."""
    ADMIN = "admin"
    """Administer accounts and the server."""
    WORK = "work"
    """Use the worker protocol."""


ALL_RIGHTS = frozenset(Right)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request.

    Attributes:
        name: its name in logs and errors.
        tenant: the tenant whose jobs and runs it sees. There are no accounts yet, so a request may name any tenant.
        rights: what it may do.
        kind: how it was told who it is.
    """

    name: str
    tenant: str
    rights: frozenset[Right]
    kind: ActorKind = ActorKind.LOCAL
