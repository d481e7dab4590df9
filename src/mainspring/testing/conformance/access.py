"""Accounts and access tokens are kept, and every change of them shows in the revision."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from mainspring.core.access import AccessToken, Account, Identity, hash_token
from mainspring.core.rights import AccessRole
from mainspring.ports.store import Store
from mainspring.ports.store.access import AccountWritten, FoundToken, NewToken
from mainspring.testing.conformance.audit import note, noted
from mainspring.testing.factories import at

ROOT = Account(name="root", grants={"*": AccessRole.ADMIN}, created_at=at(0.5))
ANN = Account(
    name="ann",
    grants={"shop": AccessRole.OPERATOR, "*": AccessRole.VIEWER},
    hides_payloads=frozenset({"shop", "*"}),
    created_at=at(1),
)


def make_token(prefix: str, **fields: Any) -> NewToken:
    """Make a token of `root`."""
    values: dict[str, Any] = {
        "account": "root",
        "name": "ci",
        "role": AccessRole.ADMIN,
        "tenant": "*",
        "created_at": at(2),
        **fields,
    }
    return NewToken(AccessToken(prefix=prefix, **values), hash_token(prefix))


async def rewrite(store: Store, account: Account, **given: Any) -> AccountWritten:
    """Write an account in place of what it is now."""
    return await store.write_account(account, expected=await store.get_account(account.name), **given)


async def found(store: Store, prefix: str) -> AccessToken:
    """Return a token that exists."""
    token = await store.find_token(prefix)
    assert token is not None
    return token.identity.token


class Accounts:
    """Accounts are written by name, and one of them can always administer everything."""

    __test__ = False

    async def test_a_new_store_is_of_revision_zero_and_has_no_account(self, store: Store) -> None:
        assert await store.read_access_revision() == 0
        assert await store.list_accounts() == []
        assert await store.get_account("root") is None

    async def test_an_account_is_as_it_was_written(self, store: Store) -> None:
        assert await store.write_account(ROOT) is AccountWritten.NEW
        assert await store.write_account(ANN) is AccountWritten.NEW
        assert await store.get_account("ann") == ANN
        assert await store.list_accounts() == [ANN, ROOT]

    async def test_an_account_changes_but_for_the_time_of_its_creation(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.write_account(ANN)
        other = replace(
            ANN,
            grants={"mail": AccessRole.EDITOR},
            hides_payloads=frozenset(),
            is_disabled=True,
            created_at=at(9),
        )
        assert await store.write_account(other, expected=ANN) is AccountWritten.CHANGED
        assert await store.get_account("ann") == replace(other, created_at=at(1))

    async def test_a_page_of_accounts_goes_by_name(self, store: Store) -> None:
        for name in ("root", "c", "a", "b"):
            await store.write_account(replace(ROOT, name=name))
        assert [one.name for one in await store.list_accounts(limit=2)] == ["a", "b"]
        assert [one.name for one in await store.list_accounts(after="b")] == ["c", "root"]

    async def test_the_last_administrator_stays(self, store: Store) -> None:
        assert await store.write_account(ANN) is AccountWritten.REFUSED
        await store.write_account(ROOT)
        for other in (
            replace(ROOT, is_disabled=True),
            replace(ROOT, grants={"*": AccessRole.EDITOR}),
            replace(ROOT, grants={"shop": AccessRole.ADMIN}),
        ):
            assert await store.write_account(other, expected=ROOT) is AccountWritten.REFUSED
        assert await store.list_accounts() == [ROOT]
        await store.write_account(replace(ROOT, name="second"))
        assert await rewrite(store, replace(ROOT, is_disabled=True)) is AccountWritten.CHANGED

    async def test_two_administrators_cannot_disable_each_other_at_once(self, store: Store) -> None:
        pair = [ROOT, replace(ROOT, name="second")]
        for one in pair:
            await store.write_account(one)
        written = await asyncio.gather(
            *(store.write_account(replace(one, is_disabled=True), expected=one) for one in pair)
        )
        assert sorted(written) == [AccountWritten.CHANGED, AccountWritten.REFUSED]

    async def test_a_change_of_what_is_no_more_as_expected_is_not_made(self, store: Store) -> None:
        """A login must not undo that an administrator disables the account, nor the other way round."""
        await store.write_account(ROOT)
        assert await store.write_account(ANN, expected=ROOT) is AccountWritten.STALE
        assert await store.get_account("ann") is None
        await store.write_account(ANN)
        for change in (
            {"grants": {"*": AccessRole.VIEWER}},
            {"hides_payloads": frozenset({"*"})},
            {"is_disabled": True},
        ):
            changed = replace(ANN, **change)
            assert await rewrite(store, changed) is AccountWritten.CHANGED
            before = await store.read_access_revision()
            mine = replace(ANN, grants={"mail": AccessRole.EDITOR}, hides_payloads=frozenset())
            for expected in (ANN, None):
                written = await store.write_account(mine, expected=expected, audit=note("stale"))
                assert written is AccountWritten.STALE
            assert await store.get_account("ann") == changed
            assert await store.read_access_revision() == before
            assert await rewrite(store, ANN) is AccountWritten.CHANGED
        assert await noted(store) == []

    async def test_of_changes_at_once_one_is_made(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.write_account(ANN)
        changes = (replace(ANN, is_disabled=True), replace(ANN, grants={}, hides_payloads=frozenset()))
        written = await asyncio.gather(*(store.write_account(one, expected=ANN) for one in changes))
        assert sorted(written) == [AccountWritten.CHANGED, AccountWritten.STALE]

    async def test_changes_of_accounts_raise_the_revision(self, store: Store) -> None:
        revisions = [await store.read_access_revision()]
        for account in (ROOT, ANN, replace(ANN, is_disabled=True)):
            await rewrite(store, account)
            revisions.append(await store.read_access_revision())
        assert sorted(set(revisions)) == revisions


class Tokens:
    """Tokens are found by their prefixes with their accounts, and revoked for good."""

    __test__ = False

    async def test_a_token_is_found_with_its_account_and_the_revision(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.write_account(ANN)
        new = make_token(
            "abcdefgh",
            account="ann",
            name="nightly build",
            role=AccessRole.OPERATOR,
            tenant="shop",
            queues=("mail", "é"),
            rate=200,
            expires_at=at(100.000001),
        )
        assert await store.add_token(new)
        revision = await store.read_access_revision()
        assert await store.find_token("abcdefgh") == FoundToken(Identity(new.token, ANN, revision), new.hash)
        assert await store.find_token("zzzzzzzz") is None

    async def test_a_prefix_is_taken_once(self, store: Store) -> None:
        await store.write_account(ROOT)
        assert await store.add_token(make_token("abcdefgh"))
        assert not await store.add_token(make_token("abcdefgh", name="other"))
        assert (await found(store, "abcdefgh")).name == "ci"

    async def test_the_first_token_comes_with_the_first_account(self, store: Store) -> None:
        firsts = [
            store.add_first_token(replace(ROOT, name=name), make_token(prefix, account=name))
            for name, prefix in (("root", "abcdefgh"), ("other", "bbbbbbbb"))
        ]
        stored = await asyncio.gather(*firsts)
        assert sorted(stored) == [False, True]
        assert len(await store.list_accounts()) == len(await store.list_tokens()) == 1
        assert await store.read_access_revision() > 0

    async def test_a_page_of_tokens_is_of_one_account_or_of_all(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.write_account(ANN)
        for prefix, account in (("a", "root"), ("b", "ann"), ("c", "root"), ("d", "root")):
            await store.add_token(make_token(prefix * 8, account=account))
        for given, expected in (
            ({}, "abcd"),
            ({"limit": 2}, "ab"),
            ({"after": "b" * 8}, "cd"),
            ({"account": "root"}, "acd"),
            ({"account": "root", "after": "a" * 8, "limit": 1}, "c"),
            ({"account": "nobody"}, ""),
        ):
            page = await store.list_tokens(**given)
            assert "".join(token.prefix[0] for token in page) == expected

    async def test_a_token_is_revoked_for_good(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.add_token(make_token("abcdefgh"))
        before = await store.read_access_revision()
        assert await store.revoke_token("abcdefgh", now=at(5))
        assert await store.read_access_revision() > before
        assert await store.revoke_token("abcdefgh", now=at(6))
        assert (await found(store, "abcdefgh")).revoked_at == at(5)
        assert not await store.revoke_token("zzzzzzzz", now=at(5))

    async def test_what_was_begun_with_a_token_ends_with_it(self, store: Store) -> None:
        await store.write_account(ROOT)
        for prefix, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", None), ("e", "d")):
            new = make_token(prefix * 8, parent=parent and parent * 8)
            assert await store.add_token(new)
            assert await found(store, prefix * 8) == new.token
        await store.revoke_token("cccccccc", now=at(4))
        await store.revoke_token("aaaaaaaa", now=at(5))
        ended = {prefix: (await found(store, prefix * 8)).revoked_at for prefix in "abcde"}
        assert ended == {"a": at(5), "b": at(5), "c": at(4), "d": None, "e": None}

    async def test_none_begins_with_what_works_no_more_or_not_as_long(self, store: Store) -> None:
        await store.write_account(ROOT)
        for prefix, ends in (("aaaaaaaa", None), ("bbbbbbbb", at(50))):
            assert await store.add_token(make_token(prefix, expires_at=ends))
        assert await store.add_token(make_token("cccccccc", parent="bbbbbbbb", expires_at=at(50)))
        await store.revoke_token("aaaaaaaa", now=at(5))
        for parent, ends in (
            ("aaaaaaaa", at(9)),
            ("zzzzzzzz", at(9)),
            ("bbbbbbbb", at(51)),
            ("bbbbbbbb", None),
        ):
            new = make_token("dddddddd", parent=parent, expires_at=ends)
            assert not await store.add_token(new, audit=note("stale"))
        assert await store.find_token("dddddddd") is None
        assert await noted(store) == []

    async def test_the_latest_use_of_a_token_is_kept(self, store: Store) -> None:
        await store.write_account(ROOT)
        for prefix in ("abcdefgh", "bbbbbbbb"):
            await store.add_token(make_token(prefix))
        await store.note_token_uses({"bbbbbbbb": at(9), "abcdefgh": at(8), "zzzzzzzz": at(8)})
        await store.note_token_uses({"bbbbbbbb": at(7), "abcdefgh": at(10)})
        await store.note_token_uses({})
        assert [(await found(store, prefix)).last_used_at for prefix in ("abcdefgh", "bbbbbbbb")] == [
            at(10),
            at(9),
        ]


class TokensAreReplaced:
    """A token in place of another one leaves that a while."""

    __test__ = False

    async def test_the_old_token_ends_a_while_after_the_new_one_was_made(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.add_token(make_token("abcdefgh"))
        before = await store.read_access_revision()
        new = make_token("bbbbbbbb", replaces="abcdefgh")
        assert await store.rotate_token(new, ends_at=at(50))
        assert await store.read_access_revision() > before
        assert (await found(store, "abcdefgh")).expires_at == at(50)
        assert await found(store, "bbbbbbbb") == new.token

    async def test_a_token_that_ends_sooner_does_so(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.add_token(make_token("abcdefgh", expires_at=at(20)))
        assert await store.rotate_token(make_token("bbbbbbbb", replaces="abcdefgh"), ends_at=at(50))
        assert (await found(store, "abcdefgh")).expires_at == at(20)

    async def test_what_is_unknown_or_revoked_is_not_replaced(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.add_token(make_token("abcdefgh"))
        await store.revoke_token("abcdefgh", now=at(3))
        for old in ("abcdefgh", "zzzzzzzz"):
            assert not await store.rotate_token(make_token("bbbbbbbb", replaces=old), ends_at=at(50))
        assert await store.find_token("bbbbbbbb") is None

    async def test_of_two_at_once_one_replaces_it(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.add_token(make_token("abcdefgh"))
        new = [make_token(letter * 8, replaces="abcdefgh") for letter in "bcde"]
        done = await asyncio.gather(*(store.rotate_token(one, ends_at=at(50)) for one in new))
        assert sorted(done) == [False, False, False, True]
        assert len(await store.list_tokens()) == 2

    async def test_what_replaced_it_and_is_over_is_no_obstacle(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.add_token(make_token("abcdefgh"))
        assert await store.rotate_token(
            make_token("bbbbbbbb", replaces="abcdefgh", expires_at=at(9)), ends_at=at(50)
        )
        late = make_token("cccccccc", replaces="abcdefgh", created_at=at(9))
        assert not await store.rotate_token(make_token("cccccccc", replaces="abcdefgh"), ends_at=at(50))
        assert await store.rotate_token(late, ends_at=at(50))
        await store.revoke_token("cccccccc", now=at(10))
        assert await store.rotate_token(
            make_token("dddddddd", replaces="abcdefgh", created_at=at(11)), ends_at=at(50)
        )

    async def test_what_was_begun_with_it_does_not_outlast_it(self, store: Store) -> None:
        await store.write_account(ROOT)
        for prefix, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", None)):
            await store.add_token(make_token(prefix * 8, parent=parent and parent * 8))
        assert await store.rotate_token(make_token("eeeeeeee", replaces="aaaaaaaa"), ends_at=at(50))
        ends = {prefix: (await found(store, prefix * 8)).expires_at for prefix in "abcde"}
        assert ends == {"a": at(50), "b": at(50), "c": at(50), "d": None, "e": None}

    async def test_a_prefix_that_is_taken_replaces_nothing(self, store: Store) -> None:
        await store.write_account(ROOT)
        for prefix in ("abcdefgh", "bbbbbbbb"):
            await store.add_token(make_token(prefix))
        assert not await store.rotate_token(make_token("bbbbbbbb", replaces="abcdefgh"), ends_at=at(50))
        assert (await found(store, "abcdefgh")).expires_at is None
