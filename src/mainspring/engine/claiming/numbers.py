"""Which numbers of claim requests the store has answered, so that a call is not taken for a repeat without need."""

from __future__ import annotations

from collections.abc import Container

from mainspring.core.ids import SessionId
from mainspring.ports.gateway import ClaimCall


class LastNumbers:
    """The last answered number of each session for which it is known."""

    def __init__(self) -> None:
        self._numbers: dict[SessionId, int] = {}

    def may_repeat(self, call: ClaimCall) -> bool:
        """Return whether the store may have given leases to this number already. Then ask it, ready runs or not."""
        last = self._numbers.get(call.session_id)
        # A call with limit 0 asks for what an earlier call got, here or at another server.
        return last is None or call.number != last + 1 or call.limit == 0

    def note(self, session_id: SessionId, number: int) -> None:
        """Note that a session's number was answered, or that nothing above it was used."""
        self._numbers[session_id] = number

    def forget(self, session_id: SessionId) -> None:
        """Drop what is known of a session: another process may serve it, or the store is being asked for it."""
        self._numbers.pop(session_id, None)

    def keep(self, live: Container[SessionId]) -> None:
        """Drop what is known of all other sessions."""
        self._numbers = {key: number for key, number in self._numbers.items() if key in live}
