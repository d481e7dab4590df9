"""The audit: what changes accounts and access tokens has an entry."""

from __future__ import annotations

from mainspring.ports.store import Store
from mainspring.testing.conformance.access import ANN, ROOT, make_token
from mainspring.testing.conformance.audit import note, noted
from mainspring.testing.factories import at


class AccessIsAudited:
    """What changes accounts and tokens has an entry; what is refused has none."""

    __test__ = False

    async def test_accounts(self, store: Store) -> None:
        await store.write_account(ANN, audit=note("refused"))
        await store.write_account(ROOT, audit=note("new"))
        await store.write_account(ROOT, audit=note("changed"))
        assert await noted(store) == ["new", "changed"]

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
