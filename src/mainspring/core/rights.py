"""What a caller may do: rights, the roles that bundle them, and the principal that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from mainspring.core.actors import ActorKind
from mainspring.core.values import value


class Right(StrEnum):
    """What an operation of the API requires of its caller."""

    PUBLIC = "public"
    """Nothing: every caller that reaches the API may call it."""
    SELF = "self"
    """Be known: see what one may do, and manage the tokens of one's own account."""
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


class AccessRole(StrEnum):
    """What an account or a token may do, in one word. All roles but the last one include those before them."""

    VIEWER = "viewer"
    """Read everything but accounts."""
    OPERATOR = "operator"
    """Start, cancel and repeat runs, and pause jobs."""
    EDITOR = "editor"
    """Create, change and delete jobs, calendars and limits, and run workers."""
    ADMIN = "admin"
    """Administer accounts, tokens, tenants and the server."""
    WORKER = "worker"
    """Use the worker protocol, and nothing else."""


ALL_RIGHTS = frozenset(Right)
NO_RIGHTS = frozenset({Right.PUBLIC})
"""Those of a stranger."""
ALL_TENANTS = "*"
"""Stands for every tenant in a grant or a token."""
_VIEWER = NO_RIGHTS | {Right.SELF, Right.READ}
_OPERATOR = _VIEWER | {Right.SUBMIT, Right.OPERATE}
# Whoever may define jobs decides what workers do anyway, and starts workers with an app that defines them.
_EDITOR = _OPERATOR | {Right.EDIT, Right.WORK}
RIGHTS_OF: Mapping[AccessRole, frozenset[Right]] = MappingProxyType(
    {
        AccessRole.VIEWER: _VIEWER,
        AccessRole.OPERATOR: _OPERATOR,
        AccessRole.EDITOR: _EDITOR,
        AccessRole.ADMIN: _EDITOR | {Right.ADMIN},
        AccessRole.WORKER: NO_RIGHTS | {Right.WORK},
    }
)
"""The rights of each role."""


@value()
class Principal:
    """Who makes a request.

    Attributes:
        name: its name in logs and errors.
        tenant: the tenant whose jobs and runs it sees.
        rights: what it may do there.
        shared_rights: what it may do with what all tenants share: queues, workers, pauses of everything.
        kind: how it was told who it is.
        hides_payloads: whether it sees no payloads, results, outputs, errors and keys of limits.
    """

    name: str
    tenant: str
    rights: frozenset[Right]
    shared_rights: frozenset[Right]
    kind: ActorKind = ActorKind.LOCAL
    hides_payloads: bool = False


STRANGER = Principal(
    name="a caller without a token",
    tenant="",
    rights=NO_RIGHTS,
    shared_rights=NO_RIGHTS,
    kind=ActorKind.ANYBODY,
)
"""Who makes a request that says nothing of its caller."""
