"""Who a caller is. As long as there are no accounts, the address that the API is bound to decides."""

from __future__ import annotations

from starlette.types import Scope

from mainspring.api.errors import Rejected
from mainspring.core.actors import ActorKind
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.rights import ALL_RIGHTS, Principal

_ANYBODY = Principal(
    name="anybody",
    tenant=DEFAULT_TENANT,
    rights=ALL_RIGHTS,
    shared_rights=ALL_RIGHTS,
    kind=ActorKind.ANYBODY,
)


def identify_nobody(scope: Scope) -> Principal:
    """Refuse every caller: others may reach the server, and it has no accounts.

    Raises:
        Rejected: 403.
    """
    del scope
    raise Rejected(
        403,
        "there are no accounts yet, so this server answers nobody; make the first token in its store:"
        " mainspring token create --role admin --store …",
    )


def identify_anybody(scope: Scope) -> Principal:
    """Identify every caller as one that may do everything."""
    del scope
    return _ANYBODY
