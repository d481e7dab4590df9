"""What a caller may do: rights, and the principal that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Right(StrEnum):
    """What an operation of the API asks of its caller."""

    PUBLIC = "public"
    """Nothing: every caller that reaches the API may use it."""
    READ = "read"
    """See jobs, runs and workers."""
    SUBMIT = "submit"
    """Start and cancel runs."""
    OPERATE = "operate"
    """Pause and resume jobs."""
    EDIT = "edit"
    """Create, change and delete jobs."""
    ADMIN = "admin"
    """Administer accounts and the server."""
    WORK = "work"
    """Speak the worker protocol."""


ALL_RIGHTS = frozenset(Right)


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf a request is made.

    Attributes:
        name: for logs and refusals.
        tenant: whose jobs and runs it sees.
        rights: what it may do.
    """

    name: str
    tenant: str
    rights: frozenset[Right]
