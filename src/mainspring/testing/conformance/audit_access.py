"""The audit: what changes accounts and access tokens has an entry."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from mainspring.core.audit import cut_all
from mainspring.core.rights import AccessRole
from mainspring.ports.store import Store
from mainspring.ports.store.access import AccountWritten
from mainspring.testing.conformance.access import ANN, ROOT, make_token, rewrite
from mainspring.testing.conformance.audit import kept, note, noted
from mainspring.testing.factories import at

SHOP = AccessRole.EDITOR


class AccessIsAudited:
    """What changes accounts and tokens has an entry; what is refused has none."""

    __test__ = False

    async def test_accounts(self, store: Store) -> None:
        await store.write_account(ANN, audit=note("refused"))
        await store.write_account(ROOT, audit=note("new"))
        for subject in ("changed", "as it was"):
            await rewrite(store, replace(ROOT, grants={**ROOT.grants, "shop": SHOP}), audit=note(subject))
        await store.write_account(replace(ROOT, name="root2"), audit=note("other"))
        await rewrite(store, replace(ROOT, is_disabled=True), audit=note("disabled"))
        assert await noted(store) == ["new", "changed", "other", "disabled"]

    async def test_an_entry_shows_what_changes_of_an_account(self, store: Store) -> None:
        await store.write_account(ROOT, audit=note())
        wider = replace(ROOT, grants={**ROOT.grants, "shop": SHOP})
        await rewrite(store, wider, audit=note())
        await rewrite(store, replace(ROOT, grants={"*": AccessRole.ADMIN}, is_disabled=False), audit=note())
        shown = [(one.entry.before, one.entry.after) for one in await kept(store)]
        none: dict[str, Any] = {"grants": {}, "is_disabled": False}
        shop = none | {"grants": {"shop": "editor"}}
        assert shown == [(None, none | {"grants": {"*": "admin"}}), (none, shop), (shop, none)]

    async def test_of_many_grants_none_is_left_out(self, store: Store) -> None:
        await store.write_account(ROOT)
        many = {f"{number:0>64}": SHOP for number in range(120)}
        await rewrite(store, replace(ROOT, grants={**ROOT.grants, **many}), audit=note())
        entries = [one.entry for one in await kept(store)]
        assert len(entries) == 3
        found = [tenant for entry in entries for tenant in (entry.after or {})["grants"]]
        assert found == sorted(many)
        assert all(cut_all(entry.after) == entry.after for entry in entries)

    async def test_of_writes_at_once_each_shows_what_the_one_before_left(self, store: Store) -> None:
        await store.write_account(ROOT)

        async def write(number: int) -> None:
            changed = replace(ROOT, grants={**ROOT.grants, f"t{number}": SHOP})
            while await rewrite(store, changed, audit=note()) is AccountWritten.STALE:
                pass

        await asyncio.gather(*map(write, range(4)))
        found = [one.entry for one in await kept(store)]
        assert len(found) == 4
        left: dict[str, Any] = {}
        for entry in found:
            assert entry.before is not None
            assert entry.before["grants"] == left
            assert entry.after is not None
            left = entry.after["grants"]
            assert len(left) == 1

    async def test_of_revokes_at_once_one_has_an_entry(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.add_token(make_token("aaaaaaaa"))
        calls = [
            store.revoke_token("aaaaaaaa", now=at(number), audit=note(str(number))) for number in range(4)
        ]
        assert await asyncio.gather(*calls) == [True] * 4
        [one] = await noted(store)
        found = await store.find_token("aaaaaaaa")
        assert found is not None
        assert found.identity.token.revoked_at == at(int(one))

    async def test_the_first_token(self, store: Store) -> None:
        for subject, prefix in (("first", "first000"), ("not the first", "second00")):
            await store.add_first_token(ROOT, make_token(prefix), audit=note(subject))
        assert await noted(store) == ["first"]

    async def test_tokens(self, store: Store) -> None:
        await store.write_account(ROOT)
        for subject in ("made", "taken"):
            await store.add_token(make_token("aaaaaaaa"), audit=note(subject))
        new = make_token("bbbbbbbb", replaces="aaaaaaaa")
        for subject in ("rotated", "taken"):
            await store.rotate_token(new, ends_at=at(9), audit=note(subject))
        for subject, prefix in (("revoked", "aaaaaaaa"), ("unknown", "zzzzzzzz")):
            await store.revoke_token(prefix, now=at(5), audit=note(subject))
        assert await noted(store) == ["made", "rotated", "revoked"]
