"""Answers claim calls, and keeps what is known of their numbers: whether the store may have given something to one."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.ids import SessionId
from mainspring.engine.claiming.abilities import KnownSessions
from mainspring.engine.claiming.lane_choices import LaneChooser
from mainspring.engine.claiming.numbers import LastNumbers
from mainspring.engine.claiming.waiting import ClaimAnswer, Waiting, WaitingCalls
from mainspring.ports.gateway import ClaimCall
from mainspring.ports.store.claims import ClaimResult
from mainspring.ports.store.limits import LineClaimResult

QUARANTINE_PATIENCE = timedelta(seconds=2)
"""How long a quarantined run may wait for an idle worker before busy workers are asked to drain."""


class Answers:
    """Gives calls their answers. A call leaves the queue with its answer."""

    def __init__(
        self, waiting: WaitingCalls, sessions: KnownSessions, numbers: LastNumbers, chooser: LaneChooser
    ) -> None:
        self._waiting = waiting
        self._sessions = sessions
        self._numbers = numbers
        self._chooser = chooser

    def put_in_doubt(self, item: Waiting) -> None:
        """Note that the store is asked for a call. If that fails, it is unknown what the store has given to it."""
        item.is_in_doubt = True
        self._numbers.forget(item.call.session_id)
        self._waiting.renew(item.call.session_id)  # ask again for it, even if nothing is ready

    def put_beyond_doubt(self, item: Waiting) -> None:
        """Note that the store has given nothing to a call, and that its number is not used."""
        item.is_in_doubt, call = False, item.call
        # If its caller has left, another process may have served it since.
        if not item.future.done() and call.session_id in self._sessions:
            self._numbers.note(call.session_id, call.number - 1)

    def give(self, item: Waiting, result: ClaimResult | LineClaimResult, now: datetime) -> None:
        """Answer a call with what the store has said."""
        if result.is_session_live:
            self._numbers.note(item.call.session_id, item.call.number)
        else:
            self.forget(item.call.session_id)
        keys = result.keys if isinstance(result, LineClaimResult) else {}
        wanted = self._is_drain_wanted(item.call, now)
        self.resolve(item, ClaimAnswer(result.runs, result.is_session_live, wanted, keys))

    def give_if_over(self, item: Waiting, at: float, now: datetime) -> None:
        """Answer a call with nothing if its wait is over, or if its worker is to drain."""
        is_drain_wanted = self._is_drain_wanted(item.call, now)
        if is_drain_wanted or item.until <= at:
            # So the next call does not count as a repeat of this one, and may wait.
            self._numbers.note(item.call.session_id, item.call.number)
            self.resolve(item, ClaimAnswer(is_quarantined_waiting=is_drain_wanted))

    def dismiss(self, item: Waiting) -> None:
        """Answer a call with nothing before its wait is over, unless the store may have given it something."""
        if not item.is_in_doubt and item.call.limit:
            self._numbers.note(item.call.session_id, item.call.number)
            self.resolve(item, ClaimAnswer())

    def resolve(self, item: Waiting, answer: ClaimAnswer) -> None:
        """Answer a call, unless it has its answer already."""
        # A call that was replaced is answered already. The newer call of its session, a repeat, gets the runs.
        self._waiting.remove(item)
        if not item.future.done():
            item.future.set_result(answer)

    def forget(self, session_id: SessionId) -> None:
        """Drop what is kept about a session that has ended."""
        self._sessions.forget(session_id)
        self._numbers.forget(session_id)
        self._waiting.renew(session_id)

    def _is_drain_wanted(self, call: ClaimCall, now: datetime) -> bool:
        abilities = self._sessions.get(call.session_id)
        return (
            not call.is_idle
            and abilities is not None
            and self._chooser.is_drain_wanted(abilities, now - QUARANTINE_PATIENCE)
        )
