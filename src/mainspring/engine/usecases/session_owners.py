"""Whose the sessions of workers are: only their own accounts may use them."""

from __future__ import annotations

from mainspring.core.ids import SessionId
from mainspring.ports.store import Store

MOST_KNOWN = 100_000


class SessionOwners:
    """Knows the accounts of sessions. Whose a session is never changes, so each is asked for once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._accounts: dict[SessionId, str | None] = {}

    async def is_of(self, session_id: SessionId, account: str) -> bool:
        """Return whether a session is that account's. One that the store does not have is nobody's.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        known = self._accounts
        if session_id not in known:
            found = await self._store.find_session_accounts([session_id])
            if session_id not in found:
                return False
            if len(known) >= MOST_KNOWN:
                known.clear()
            known.update(found)
        return known[session_id] == account
