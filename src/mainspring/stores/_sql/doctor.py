"""Makes the facts of a cluster from rows that both dialects have alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from mainspring.core.access import EndingToken
from mainspring.core.archive import start_of_day
from mainspring.core.doctor import ChannelLook, ClusterLook, NodeLook, TokenLook, WaitingQueue
from mainspring.stores._sql.ledger_check import decode_ledger_check

LOGINS_SINCE, ARCHIVED_SINCE, INSTALLED_SINCE = 40, 42, 45
"""The migrations that brought sessions, the archive, and whose archive it is. A store may be older."""
Rows = Sequence[Mapping[str, Any]]
SOON, MOST_TOKENS = timedelta(days=14), 20
"""How soon tokens end that are told of, and how many of them are looked at."""


def look_at_tokens(ending: Sequence[EndingToken], now: datetime) -> list[TokenLook]:
    """Return what is told of tokens that end soon."""
    return [
        TokenLook(
            name=each.token.name,
            account=each.token.account,
            ends_in=(each.ends_at - now).total_seconds(),
            is_renewed_by_login=each.is_renewed_by_login,
        )
        for each in ending
    ]


def make_cluster_look(
    cluster: Mapping[str, Any],
    *,
    nodes: Rows,
    queues: Rows,
    tokens: Sequence[TokenLook],
    channels: Rows,
    ledger: str | None,
    unarchived: date | None,
    keys: Rows,
    home: Mapping[str, Any],
    now: datetime,
) -> ClusterLook:
    """Return what rows say.

    Args:
        ledger: the stored result of the last check.
        unarchived: the oldest day of the history that is over, and not in the archive.
        home: which installation it is, and where its days of the history go.
    """
    check = None if ledger is None else decode_ledger_check(ledger)
    return ClusterLook(
        **cluster,
        **home,
        nodes=[NodeLook(**row) for row in nodes],
        queues=[WaitingQueue(**row) for row in queues],
        tokens=tokens,
        channels=[ChannelLook(**row) for row in channels],
        ledger=check,
        ledger_age=None if check is None else (now - check.ended_at).total_seconds(),
        unarchived_for=None
        if unarchived is None
        else (now - start_of_day(unarchived + timedelta(days=1))).total_seconds(),
        keys=[row["id"] for row in keys],
        key_checks={row["id"]: row["key_check"] for row in keys},
    )
