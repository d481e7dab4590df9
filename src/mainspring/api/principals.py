"""Who a caller is. Until there are accounts and tokens, the address that the API is bound to says so."""

from __future__ import annotations

from starlette.types import Scope

from mainspring.core.model import DEFAULT_TENANT
from mainspring.core.rights import ALL_RIGHTS, Principal

_ANYBODY = Principal(name="anybody", tenant=DEFAULT_TENANT, rights=ALL_RIGHTS)


def identify_anybody(scope: Scope) -> Principal:
    """Take every caller for one who may do everything."""
    del scope
    return _ANYBODY
