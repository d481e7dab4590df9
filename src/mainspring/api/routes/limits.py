"""Limits that jobs share."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.errors import Rejected
from mainspring.core.ids import KeyId
from mainspring.core.limits import CLUSTER
from mainspring.core.rights import Right
from mainspring.errors import InvalidInput
from mainspring.wire import operations
from mainspring.wire.limits import KeyPage, LimitPage, LimitView, view_key, view_limit
from mainspring.wire.views import Deleted

_LONGEST_NUMBER = 19
"""Digits that a store's number may no longer have."""


@handles(operations.LIST_LIMITS)
async def list_limits(call: Call) -> LimitPage:
    limit: int = call.query["limit"]
    rules = await call.engine.limits.list_page(_owner_of(call), after=call.query.get("after"), limit=limit)
    following = rules[-1].name if len(rules) == limit else None
    return LimitPage([view_limit(rule) for rule in rules], following)


@handles(operations.GET_LIMIT)
async def get_limit(call: Call) -> LimitView:
    return view_limit(await call.engine.limits.get(_owner_of(call), call.key))


@handles(operations.UPSERT_LIMIT)
async def upsert_limit(call: Call, body: dict[str, Any]) -> Answer[LimitView]:
    rule, is_new = await call.engine.limits.put(_owner_of(call), call.key, body, by=call.actor)
    return Answer(view_limit(rule), status=201 if is_new else 200)


@handles(operations.DELETE_LIMIT)
async def delete_limit(call: Call) -> Deleted:
    await call.engine.limits.delete(_owner_of(call), call.key, by=call.actor)
    return Deleted()


@handles(operations.LIST_LIMIT_KEYS)
async def list_limit_keys(call: Call) -> KeyPage:
    limit: int = call.query["limit"]
    owner, after = _owner_of(call), call.query.get("after")
    if call.principal.hides_payloads:
        return await _list_hidden_keys(call, owner, None if after is None else _place(after), limit)
    keys = await call.engine.limits.keys(owner, call.key, after=after, limit=limit)
    following = keys[-1].key if len(keys) == limit else None
    return KeyPage([view_key(key) for key in keys], following)


async def _list_hidden_keys(call: Call, owner: str, after: KeyId | None, limit: int) -> KeyPage:
    """Answer who may not see keys: neither their order nor where a page begins tells what they are."""
    keys = await call.engine.limits.keys_by_age(owner, call.key, after=after, limit=limit)
    following = str(keys[-1].id) if len(keys) == limit else None
    return KeyPage([view_key(key) for key in keys], following)


def _place(text: str) -> KeyId:
    if not (text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER):
        raise InvalidInput(
            "after",
            f"{text[:60]!r} is not the `next` of a page; keys are hidden from this account, so it cannot ask by them",
        )
    return KeyId(int(text))


def _owner_of(call: Call) -> str:
    """Return whose limits a request is about: those of its tenant, or those of the cluster."""
    scope = call.query["scope"]
    if scope not in {"tenant", "cluster"}:
        raise InvalidInput("scope", f"must be tenant or cluster, not {scope!r}")
    if scope == "tenant":
        return call.tenant
    if Right.ADMIN not in call.principal.shared_rights:
        needed = Right.ADMIN.value
        raise Rejected(
            403, f"{call.principal.name} may not do this for the cluster: it needs the right {needed!r}"
        )
    return CLUSTER


ROUTES: list[Endpoint] = [list_limits, get_limit, upsert_limit, delete_limit, list_limit_keys]
