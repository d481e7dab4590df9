"""Who a caller is. As long as there are no accounts, the address that the API is bound to decides."""

from __future__ import annotations

from starlette.types import Scope

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


def identify_anybody(scope: Scope) -> Principal:
    """Identify every caller as one that may do everything."""
    del scope
    return _ANYBODY
