"""What rules of alerts look at besides: sessions that were lost, and tokens that end."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mainspring.core.access import LAST_LOGIN, AccessToken, Account, EndingToken, LoginWay
from mainspring.core.rights import AccessRole
from mainspring.ports.store import Store
from mainspring.ports.store.access import NewToken
from mainspring.ports.store.alerts import LostSession
from mainspring.ports.store.logins import SessionAdded
from mainspring.testing.factories import add_session, at

MONTH = LAST_LOGIN.total_seconds()


class AlertsLookAtOthers:
    """What rules look for in other tables."""

    __test__ = False

    async def test_lost_sessions_are_those_that_were_declared_dead(self, store: Store) -> None:
        lost = await add_session(store, worker="w1", host="h1")
        left = await add_session(store, worker="w2")
        early = await add_session(store, worker="w3")
        await add_session(store, worker="w4")
        await store.expire_sessions([(early, 0)], now=at(9))
        await store.expire_sessions([(lost, 0)], now=at(10))
        await store.close_sessions([left], now=at(11))
        found = await store.list_lost_sessions(since=at(10))
        assert found == [LostSession(id=lost, worker="w1", host="h1", ended_at=at(10))]

    async def test_expiring_tokens_are_those_that_nothing_follows(self, store: Store) -> None:
        account = Account(name="ann", grants={"*": AccessRole.ADMIN}, is_disabled=False, created_at=at(0))
        first = make_token("aaaaaaaa", 50)
        assert await store.add_first_token(account, NewToken(first, b"a" * 32))
        for number, token in enumerate(
            (
                make_token("bbbbbbbb", 40),
                make_token("cccccccc", 40),
                make_token("dddddddd", 60),
                make_token("eeeeeeee", 30),
                make_token("ffffffff", None),
                make_token("gggggggg", 90, replaces="cccccccc"),
            )
        ):
            await store.add_token(NewToken(token, bytes([number]) * 32))
        await store.revoke_token("eeeeeeee", now=at(1))
        found = await store.list_expiring_tokens(after=at(30), before=at(60), limit=10)
        assert [each.token.prefix for each in found] == ["bbbbbbbb", "aaaaaaaa"]
        assert found[1] == EndingToken(token=first, ends_at=at(50))
        assert not found[1].is_renewed_by_login
        one = await store.list_expiring_tokens(after=at(30), before=at(60), limit=1)
        assert [each.token.prefix for each in one] == ["bbbbbbbb"]
        assert await store.list_expiring_tokens(after=at(50), before=at(60), limit=10) == []

    async def test_tokens_also_end_with_an_account_that_does_not_sign_in(self, store: Store) -> None:
        """At its provider, it may be long gone."""
        await add_silent_accounts(store)
        first = [("b", at(MONTH - 5), False), *((name, at(MONTH), True) for name in "aci")]
        assert await find_ending(store, -10, 10) == first
        assert await find_ending(store, -10, 10, limit=2) == first[:2]
        assert await find_ending(store, 0, 101) == [
            ("d", at(MONTH + 15), False),
            ("g", at(MONTH + 90), True),
            ("e", at(MONTH + 100), True),
        ]

    async def test_nobody_is_told_of_the_tokens_of_a_disabled_account(self, store: Store) -> None:
        await add_silent_accounts(store)
        account = await store.get_account("ann")
        assert account is not None
        await store.write_account(replace(account, is_disabled=True), expected=account)
        assert await find_ending(store, -10, 10) == []


async def add_silent_accounts(store: Store) -> None:
    """Add accounts of a provider that joined at different times, of which `kim` has signed in later, with tokens."""
    assert await store.write_account(Account(name="root", grants={"*": AccessRole.ADMIN}, created_at=at(0)))
    for name, joined in (("ann", 0), ("bea", 100), ("kim", 0)):
        account = Account(
            name=name, grants={}, created_at=at(joined), issuer="https://login.example.com", subject=name
        )
        assert await store.write_account(account)
    for number, token in enumerate(
        (
            make_token("aaaaaaaa", None),
            make_token("bbbbbbbb", MONTH - 5),
            make_token("cccccccc", MONTH + 5),
            make_token("dddddddd", MONTH + 15, account="bea"),
            make_token("eeeeeeee", None, account="bea"),
            make_token("ffffffff", None, account="root"),
            make_token("gggggggg", None, account="kim"),
            make_token("hhhhhhhh", None),
            make_token("iiiiiiii", None, replaces="hhhhhhhh"),
        )
    ):
        assert await store.add_token(NewToken(token, bytes([number]) * 32))
    session = replace(make_token("jjjjjjjj", MONTH + 10, account="kim"), login=LoginWay.OIDC)
    login = NewToken(replace(session, created_at=at(90)), b"j" * 32)
    assert await store.add_session(login, password=None, forgets=at(0)) is SessionAdded.ADDED


async def find_ending(
    store: Store, after: float, before: float, limit: int = 10
) -> list[tuple[str, datetime, bool]]:
    """Return the first letters of the tokens that end so many seconds around a month from the start."""
    found = await store.list_expiring_tokens(after=at(MONTH + after), before=at(MONTH + before), limit=limit)
    return [(each.token.prefix[0], each.ends_at, each.is_renewed_by_login) for each in found]


def make_token(
    prefix: str, expires: float | None, replaces: str | None = None, account: str = "ann"
) -> AccessToken:
    """Return a token that expires so many seconds after the start."""
    return AccessToken(
        prefix=prefix,
        account=account,
        name="ci",
        role=AccessRole.VIEWER,
        tenant="*",
        created_at=at(0),
        expires_at=None if expires is None else at(expires),
        replaces=replaces,
    )
