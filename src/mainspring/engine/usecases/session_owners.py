"""Whose the sessions of workers are: only their own accounts may use them, within the bounds of their tokens."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.access import is_within
from mainspring.core.ids import SessionId
from mainspring.ports.store import Store
from mainspring.ports.store.sessions import SessionOwner

MOST_KNOWN = 100_000


class SessionOwners:
    """Knows the owners of sessions. Whose a session is never changes, so each is asked for once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owners: dict[SessionId, SessionOwner] = {}

    async def is_of(
        self, session_id: SessionId, account: str, *, tenant: str | None = None, queues: Sequence[str] = ()
    ) -> bool:
        """Return whether a session is an account's, and reaches no further than a token of it.

        One that the store does not have is nobody's.

        Args:
            tenant: the only one that the token may work for; None means all.
            queues: the only ones that it may work for; empty means all.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        known = self._owners
        owner = known.get(session_id)
        if owner is None:
            found = await self._store.find_session_owners([session_id])
            if session_id not in found:
                return False
            if len(known) >= MOST_KNOWN:
                known.clear()
            owner = known[session_id] = found[session_id]
        if owner.account != account or (tenant is not None and owner.tenant != tenant):
            return False
        return is_within(owner.queues, queues)
