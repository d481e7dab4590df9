"""What the audit says of an account that is written, which is known only beside what the account was before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mainspring.core.access import Account
from mainspring.core.audit import AuditEntry

MOST_TENANTS = 50
"""Tenants that one entry names: so many fit into it whole, however long their names are."""


def settle_account(audit: Sequence[AuditEntry], old: Account | None, new: Account) -> list[AuditEntry]:
    """Return the entries about an account that is written, with the roles that change; none if nothing does.

    There are several if its roles change in more tenants than one entry can name, so that none is left out.

    Args:
        old: the account as it was; None if it is new.
    """
    was = {} if old is None else old.grants
    hidden = frozenset[str]() if old is None else old.hides_payloads
    changed = sorted(
        tenant
        for tenant in {*was, *new.grants}
        if was.get(tenant) is not new.grants.get(tenant)
        or (tenant in hidden) is not (tenant in new.hides_payloads)
    )
    if not changed and old is not None and old.is_disabled == new.is_disabled:
        return []
    parts = [changed[start : start + MOST_TENANTS] for start in range(0, max(len(changed), 1), MOST_TENANTS)]
    return [
        replace(entry, before=None if old is None else _show(old, part), after=_show(new, part))
        for entry in audit
        for part in parts
    ]


def _show(account: Account, tenants: Sequence[str]) -> dict[str, Any]:
    grants = {tenant: account.grants[tenant].value for tenant in tenants if tenant in account.grants}
    hidden = [tenant for tenant in tenants if tenant in account.hides_payloads]
    shown: dict[str, Any] = {"grants": grants, "is_disabled": account.is_disabled}
    return shown | {"hides_payloads": hidden} if hidden else shown
