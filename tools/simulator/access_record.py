"""Records what the rules about the audit, tenants, tokens and counters are judged by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mainspring.core.audit import AuditEntry
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import JobId, SessionId
from mainspring.core.states import RunState
from mainspring.core.usage import QueueKey, Usage
from mainspring.ports.store.jobs import AddResult
from mainspring.ports.store.sessions import NewSession
from tools.judge import ChangeRequest, TokenUse

CHANGES = frozenset({"add_jobs", "edit_jobs", "pause_jobs", "resume_jobs", "delete_jobs"})
"""The calls whose rows in the audit are judged."""
_DONE = frozenset({AddResult.ADDED, ChangeVerdict.DONE})


class AccessRecord:
    """What was asked for and by whom, and what became of it.

    Attributes:
        requests: changes of jobs that clients asked for.
        committed: how often each took place.
        bound: the tenants of sessions that are bound to one.
        uses: when servers were shown tokens.
        revoked: when tokens were revoked.
    """

    def __init__(self, time: Callable[[], datetime]) -> None:
        self._time = time
        self.requests: list[ChangeRequest] = []
        self.committed: Counter[str] = Counter()
        self.bound: dict[SessionId, str] = {}
        self.uses: list[TokenUse] = []
        self.revoked: dict[str, datetime] = {}
        self._paused: set[JobId] = set()

    def note(self, verb: str, first: Any, given: Mapping[str, Any], result: Any) -> None:
        """Note a store call that was committed."""
        if verb in CHANGES:
            changed = [self._has_changed(verb, one, each) for one, each in zip(first, result, strict=True)]
            self._note_changes(given.get("audit", ()), changed)
        elif verb == "pause_failing":
            self._paused.update(result)
        elif verb == "add_sessions":
            self._note_sessions(first, result)
        elif verb == "revoke_token" and result:
            self.revoked.setdefault(first, self._time())

    def _has_changed(self, verb: str, one: Any, result: AddResult | ChangeVerdict) -> bool:
        """Say whether a job has changed: a pause of one that is paused is done, and changes nothing."""
        if result not in _DONE:
            return False
        if verb == "pause_jobs":
            was_paused = one.job_id in self._paused
            self._paused.add(one.job_id)
            return not was_paused
        if verb == "resume_jobs":
            was_paused = one.job_id in self._paused
            self._paused.discard(one.job_id)
            return was_paused
        return True

    def _note_changes(self, audit: Sequence[AuditEntry], changed: Sequence[bool]) -> None:
        """Count, for each request of which a call says it is made, whether any of what it is about has changed."""
        for entry in audit:
            if entry.request_id is not None:
                places = [item.place for item in entry.items] or range(len(changed))
                self.committed[entry.request_id] += any(changed[place] for place in places)

    def _note_sessions(self, sessions: Sequence[NewSession], ids: Sequence[SessionId]) -> None:
        for session, session_id in zip(sessions, ids, strict=True):
            if session.tenant is not None:
                self.bound[session_id] = session.tenant


def add_up(usages: Iterable[tuple[QueueKey, Usage]]) -> dict[RunState, int]:
    """Return how many runs the counters of processes say have ended, by their states."""
    found: Counter[RunState] = Counter()
    for _, usage in usages:
        found[RunState.SUCCEEDED] += usage.succeeded
        found[RunState.FAILED] += usage.failed
    return dict(found)
