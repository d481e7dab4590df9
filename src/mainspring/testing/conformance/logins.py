"""Passwords, subjects of identity providers, and sessions are kept; what they began with decides whether they begin."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainspring.core.access import Account, LoginWay
from mainspring.core.rights import AccessRole
from mainspring.ports.store import Store
from mainspring.ports.store.access import AccountWritten, NewToken
from mainspring.ports.store.logins import SessionAdded
from mainspring.testing.conformance.access import ANN, ROOT, found, make_token, rewrite
from mainspring.testing.conformance.audit import note, noted
from mainspring.testing.factories import START, at

KEPT, FORMER = "kept", "former"
BEA = Account(
    name="bea.k3v9q2xa",
    grants={"shop": AccessRole.VIEWER},
    created_at=at(3),
    issuer="https://login.example.com",
    subject="248289761001",
)


def make_session(prefix: str, **fields: Any) -> NewToken:
    """Make a session of `ann` that began with a password."""
    values: dict[str, Any] = {"account": "ann", "login": LoginWay.PASSWORD, "expires_at": at(1000)}
    return make_token(prefix, **{**values, **fields})


async def begin(
    store: Store, new: NewToken, *, password: str | None = KEPT, forgets: datetime = START
) -> SessionAdded:
    """Begin a session."""
    return await store.add_session(new, password=password, forgets=forgets)


async def set_password(
    store: Store, text: str, *, account: str = "ann", expected: str | None = None, spares: str | None = None
) -> bool:
    """Set a password of `ann`."""
    return await store.write_password(
        account, text, expected=expected, spares=spares, now=at(5), audit=note()
    )


async def people(store: Store) -> None:
    """Write `root`, and `ann` with a password."""
    await store.write_account(ROOT)
    await store.write_account(ANN)
    assert await set_password(store, "kept")


class LoginPasswords:
    """A password replaces the one that is expected, and ends sessions."""

    __test__ = False

    async def test_a_password_is_kept(self, store: Store) -> None:
        await people(store)
        assert await store.find_password("ann") == "kept"
        assert await store.find_password("root") is None
        assert await store.find_password("") is None

    async def test_only_the_expected_one_is_replaced(self, store: Store) -> None:
        await people(store)
        assert not await set_password(store, "other")
        assert not await set_password(store, "other", expected="another")
        assert await set_password(store, "other", expected="kept")
        assert await store.find_password("ann") == "other"
        assert len(await noted(store)) == 2

    async def test_of_two_at_once_one_is_set(self, store: Store) -> None:
        await people(store)
        written = await asyncio.gather(*(set_password(store, text, expected="kept") for text in "ab"))
        assert sorted(written) == [False, True]

    async def test_no_password_without_an_account_of_this_store(self, store: Store) -> None:
        await people(store)
        await store.write_account(BEA)
        assert not await set_password(store, "x", account="nobody")
        assert not await set_password(store, "x", account=BEA.name)
        assert await store.find_password(BEA.name) is None

    async def test_it_ends_the_sessions_that_began_with_one_but_the_one_that_asks(self, store: Store) -> None:
        await people(store)
        assert await store.add_token(make_token("tttttttt", account="ann"))
        for prefix in ("aaaaaaaa", "bbbbbbbb"):
            assert await begin(store, make_session(prefix)) is SessionAdded.ADDED
        by_token = make_session("cccccccc", login=LoginWay.TOKEN, parent="tttttttt")
        assert await begin(store, by_token, password=None) is SessionAdded.ADDED
        before = await store.read_access_revision()
        assert await set_password(store, "other", expected="kept", spares="bbbbbbbb")
        assert await store.read_access_revision() > before
        ended = {prefix: (await found(store, prefix * 8)).revoked_at for prefix in "abct"}
        assert ended == {"a": at(5), "b": None, "c": None, "t": None}

    async def test_it_ends_what_was_begun_in_those_sessions(self, store: Store) -> None:
        await people(store)
        for prefix in "ab":
            assert await begin(store, make_session(prefix * 8)) is SessionAdded.ADDED
        for prefix, parent in (("c", "a"), ("d", "b"), ("e", "c"), ("f", None)):
            new = make_token(prefix * 8, account="ann", parent=parent and parent * 8, expires_at=at(1000))
            assert await store.add_token(new)
        assert await set_password(store, "other", expected="kept", spares="bbbbbbbb")
        ended = {prefix: (await found(store, prefix * 8)).revoked_at for prefix in "abcdef"}
        assert ended == {"a": at(5), "b": None, "c": at(5), "d": None, "e": at(5), "f": None}


class LoginSessions:
    """A session begins only as long as what somebody signed in with holds."""

    __test__ = False

    async def test_a_session_is_a_token_with_what_it_came_of(self, store: Store) -> None:
        await people(store)
        new = make_session("aaaaaaaa")
        assert await store.add_session(new, password=KEPT, forgets=START, audit=note("begun"))
        assert await found(store, "aaaaaaaa") == new.token
        account = await store.get_account("ann")
        assert account is not None
        assert account.last_login_at == at(2)
        assert "begun" in await noted(store)

    async def test_a_prefix_is_taken_once(self, store: Store) -> None:
        await people(store)
        assert await begin(store, make_session("aaaaaaaa")) is SessionAdded.ADDED
        assert await begin(store, make_session("aaaaaaaa", name="other")) is SessionAdded.TAKEN
        assert (await found(store, "aaaaaaaa")).name == "ci"

    async def test_none_begins_with_what_holds_no_more(self, store: Store) -> None:
        await people(store)
        assert await store.add_token(make_token("tttttttt", account="ann"))
        assert await store.revoke_token("tttttttt", now=at(4))
        by_token = make_session("cccccccc", login=LoginWay.TOKEN, parent="tttttttt")
        assert await begin(store, by_token, password=None) is SessionAdded.STALE
        assert await begin(store, make_session("aaaaaaaa"), password=FORMER) is SessionAdded.STALE
        await rewrite(store, replace(ANN, is_disabled=True))
        assert await begin(store, make_session("aaaaaaaa")) is SessionAdded.STALE
        assert await begin(store, make_session("aaaaaaaa", account="nobody")) is SessionAdded.STALE
        assert await store.find_token("aaaaaaaa") is None

    async def test_it_takes_the_place_of_another_one_once(self, store: Store) -> None:
        await people(store)
        assert await begin(store, make_session("aaaaaaaa")) is SessionAdded.ADDED
        assert await begin(store, make_session("bbbbbbbb")) is SessionAdded.ADDED
        taken = make_session("bbbbbbbb", replaces="aaaaaaaa")
        assert await begin(store, taken, password=None) is SessionAdded.TAKEN
        assert (await found(store, "aaaaaaaa")).revoked_at is None
        begun = await asyncio.gather(
            *(
                begin(store, make_session(prefix, replaces="aaaaaaaa", created_at=at(7)), password=None)
                for prefix in ("cccccccc", "dddddddd")
            )
        )
        assert sorted(begun) == [SessionAdded.ADDED, SessionAdded.STALE]
        assert (await found(store, "aaaaaaaa")).revoked_at == at(7)
        assert (await found(store, "bbbbbbbb")).revoked_at is None
        unknown = make_session("eeeeeeee", replaces="zzzzzzzz")
        assert await begin(store, unknown, password=None) is SessionAdded.STALE

    async def test_it_ends_with_the_token_that_it_began_with(self, store: Store) -> None:
        await people(store)
        assert await store.add_token(make_token("tttttttt", account="ann"))
        for prefix, parent in (("cccccccc", "tttttttt"), ("dddddddd", None)):
            way = LoginWay.PASSWORD if parent is None else LoginWay.TOKEN
            assert await begin(store, make_session(prefix, login=way, parent=parent), password=None)
        assert await store.revoke_token("tttttttt", now=at(9))
        assert (await found(store, "cccccccc")).revoked_at == at(9)
        assert (await found(store, "dddddddd")).revoked_at is None

    async def test_it_does_not_outlast_a_token_that_is_replaced(self, store: Store) -> None:
        await people(store)
        assert await store.add_token(make_token("tttttttt", account="ann"))
        for prefix, parent, second in (
            ("cccccccc", "tttttttt", 1000),
            ("eeeeeeee", "tttttttt", 20),
            ("dddddddd", None, 1000),
        ):
            way = LoginWay.PASSWORD if parent is None else LoginWay.TOKEN
            new = make_session(prefix, login=way, parent=parent, expires_at=at(second))
            assert await begin(store, new, password=None) is SessionAdded.ADDED
        replacing = make_token("nnnnnnnn", account="ann", replaces="tttttttt")
        assert await store.rotate_token(replacing, ends_at=at(50))
        ends = {prefix: (await found(store, prefix * 8)).expires_at for prefix in "tcedn"}
        assert ends == {"t": at(50), "c": at(50), "e": at(20), "d": at(1000), "n": None}

    async def test_none_begins_that_would_outlast_a_token_that_was_replaced_meanwhile(
        self, store: Store
    ) -> None:
        await people(store)
        assert await store.add_token(make_token("tttttttt", account="ann"))
        assert await store.rotate_token(
            make_token("nnnnnnnn", account="ann", replaces="tttttttt"), ends_at=at(50)
        )
        late = make_session("cccccccc", login=LoginWay.TOKEN, parent="tttttttt", expires_at=at(51))
        assert await begin(store, late, password=None) is SessionAdded.STALE
        assert await store.find_token("cccccccc") is None
        timely = make_session("cccccccc", login=LoginWay.TOKEN, parent="tttttttt", expires_at=at(50))
        assert await begin(store, timely, password=None) is SessionAdded.ADDED

    async def test_of_a_login_and_a_replacement_at_once_none_outlasts_the_other(self, store: Store) -> None:
        await people(store)
        for number in range(8):
            old, new, session = (f"{letter}{number:07d}" for letter in "tns")
            assert await store.add_token(make_token(old, account="ann"))
            late = make_session(session, login=LoginWay.TOKEN, parent=old, expires_at=at(1000))
            await asyncio.gather(
                store.rotate_token(make_token(new, account="ann", replaces=old), ends_at=at(50)),
                begin(store, late, password=None),
            )
            left = await store.find_token(session)
            assert left is None or left.identity.token.expires_at == at(50)

    async def test_those_that_are_long_over_are_forgotten(self, store: Store) -> None:
        await people(store)
        over = [
            make_session("aaaaaaaa", expires_at=at(10)),
            make_session("bbbbbbbb", expires_at=at(20)),
            make_session("rrrrrrrr", account="root", expires_at=at(10)),
        ]
        for new in over:
            assert await begin(store, new, password=None)
        assert await store.add_token(make_token("tttttttt", account="ann", expires_at=at(10)))
        assert await begin(store, make_session("cccccccc"), forgets=at(20))
        kept = [token.prefix[0] for token in await store.list_tokens()]
        assert kept == ["b", "c", "r", "t"]

    async def test_a_token_renews_nothing(self, store: Store) -> None:
        """Else it would keep itself alive, though nobody shows at the provider who he is."""
        await people(store)
        await store.write_account(BEA)
        assert await store.add_token(make_token("tttttttt", account=BEA.name))
        before = await store.read_access_revision()
        new = make_session("cccccccc", account=BEA.name, login=LoginWay.TOKEN, parent="tttttttt")
        assert await begin(store, new, password=None) is SessionAdded.ADDED
        assert await store.get_account(BEA.name) == BEA
        assert await store.read_access_revision() == before

    async def test_nobody_is_warned_of_a_session_that_expires(self, store: Store) -> None:
        await people(store)
        assert await begin(store, make_session("aaaaaaaa", expires_at=at(10)))
        assert await store.add_token(make_token("tttttttt", account="ann", expires_at=at(10)))
        expiring = await store.list_expiring_tokens(after=at(1), before=at(20), limit=10)
        assert [each.token.prefix for each in expiring] == ["tttttttt"]

    async def test_entries_are_written_about_what_changes_nothing(self, store: Store) -> None:
        await store.add_audit([*note("one"), *note("two")])
        await store.add_audit([])
        assert await noted(store) == ["one", "two"]


class LoginSubjects:
    """An account of an identity provider is found by its subject, and is nobody else's."""

    __test__ = False

    async def test_it_is_found_by_issuer_and_subject(self, store: Store) -> None:
        await store.write_account(ROOT)
        assert await store.write_account(BEA) is AccountWritten.NEW
        assert BEA.issuer is not None
        assert BEA.subject is not None
        assert await store.find_subject(BEA.issuer, BEA.subject) == BEA
        assert await store.find_subject(BEA.issuer, "other") is None
        assert await store.find_subject("https://other.example.com", BEA.subject) is None
        assert await store.get_account(BEA.name) == BEA

    async def test_where_it_signs_in_stays(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.write_account(BEA)
        plain = replace(BEA, issuer=None, subject=None, grants={"shop": AccessRole.EDITOR})
        assert await rewrite(store, plain) is AccountWritten.CHANGED
        assert await store.get_account(BEA.name) == replace(BEA, grants=plain.grants)

    async def test_no_account_of_another_gets_its_grants(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.write_account(ANN)
        await store.write_account(BEA)
        for name, subject in (("ann", BEA.subject), ("root", "1"), (BEA.name, "other")):
            wrong = replace(BEA, name=name, subject=subject, grants={"*": AccessRole.ADMIN})
            assert await rewrite(store, wrong, audit=note()) is AccountWritten.TAKEN
        assert await store.list_accounts() == [ANN, BEA, ROOT]
        assert await noted(store) == []

    async def test_a_login_after_a_while_is_told_to_other_servers(self, store: Store) -> None:
        await store.write_account(ROOT)
        await store.write_account(ANN)
        await store.write_account(BEA)
        told = []
        for account, prefix, second in (
            ("ann", "aaaaaaaa", 10),
            (BEA.name, "bbbbbbbb", 10),
            (BEA.name, "cccccccc", 20),
            (BEA.name, "dddddddd", 20 + 86_400),
        ):
            before = await store.read_access_revision()
            new = make_session(prefix, account=account, created_at=at(second), login=LoginWay.OIDC)
            assert await begin(store, new, password=None) is SessionAdded.ADDED
            told.append(await store.read_access_revision() > before)
        assert told == [False, True, False, True]
