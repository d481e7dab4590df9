"""What rules of alerts look at besides: sessions that were lost, and tokens that end."""

from __future__ import annotations

from mainspring.core.access import AccessToken, Account
from mainspring.core.rights import AccessRole
from mainspring.ports.store import Store
from mainspring.ports.store.access import NewToken
from mainspring.ports.store.alerts import LostSession
from mainspring.testing.factories import add_session, at


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
        assert [token.prefix for token in found] == ["bbbbbbbb", "aaaaaaaa"]
        assert found[1] == first
        one = await store.list_expiring_tokens(after=at(30), before=at(60), limit=1)
        assert [token.prefix for token in one] == ["bbbbbbbb"]
        assert await store.list_expiring_tokens(after=at(50), before=at(60), limit=10) == []


def make_token(prefix: str, expires: float | None, replaces: str | None = None) -> AccessToken:
    """Return a token that expires so many seconds after the start."""
    return AccessToken(
        prefix=prefix,
        account="ann",
        name="ci",
        role=AccessRole.VIEWER,
        tenant="*",
        created_at=at(0),
        expires_at=None if expires is None else at(expires),
        replaces=replaces,
    )
