"""What claims of all kinds have in common: rows that become leases, repeats, and the tenants of lanes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import itemgetter

from asyncpg import Record

from mainspring.core.ids import LaneId
from mainspring.ports.store.claims import ClaimedRun, ClaimRequest
from mainspring.ports.store.limits import LineClaim
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction

_FIELDS = len(fields(ClaimedRun)) - 1
"""How many of a row's first columns are fields of `ClaimedRun`. The tenant comes from the lane."""
LANE = _FIELDS
"""The column with a row's lane; `ready_at` comes next."""
_MOST_TENANTS = 100_000

lane_of: itemgetter[int] = itemgetter(LANE)


class RepeatedRows(list[Record]):
    """The rows of an answer that was given before."""


class OutdatedRows(list[Record]):
    """The empty answer to a request under an old policy epoch."""


class LaneTenants(dict[LaneId, str]):
    """Tenants of the lanes that were claimed from.

    Only after a failover can an id belong to another lane, and a failover clears this.
    """

    async def learn(self, connections: Connections, lane_ids: set[LaneId]) -> None:
        """Look up the tenants of lanes that are not known."""
        if lane_ids <= self.keys():
            return
        if len(self) > _MOST_TENANTS:
            self.clear()
        # A lane lasts as long as it has live runs.
        for row in await connections.fetch(
            Role.WATCH, "list_tenants", is_repeatable=True, lane_ids=sorted(lane_ids)
        ):
            self[row["id"]] = row["tenant"]


def claimed_of(rows: Iterable[Record], tenants: Mapping[LaneId, str]) -> tuple[ClaimedRun, ...]:
    """Return the leases of rows."""
    return tuple([ClaimedRun(*(*row[:_FIELDS], tenants[row[LANE]])) for row in rows])


async def repeat_claim(transaction: Transaction, request: ClaimRequest | LineClaim) -> list[Record] | None:
    """Return the rows of the leases that the same request got before, or why it got none.

    None if the session is not live, or the request is a new one that may get runs.
    """
    rows = await transaction.fetch(
        "repeat_claim",
        session_id=request.session_id,
        number=request.number,
        policy_epoch=request.policy_epoch,
    )
    if not rows:
        return None
    if rows[0]["is_policy_old"]:
        return OutdatedRows()
    return [] if rows[0]["id"] is None else RepeatedRows(rows)
