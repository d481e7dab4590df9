"""L11: a tenant that has work and fewer slots than are reserved for it gets the next free seats."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.core.ids import RunId
from mainspring.core.states import RunState
from tools.judge.model import Event, History, Violation
from tools.judge.runs import Runs

KNOWN_AFTER = timedelta(seconds=3)
"""By then, each process has seen what waits, and has counted what runs."""


class _Tenant:
    """What a tenant has, event by event."""

    def __init__(self, reserved: int) -> None:
        self._reserved = reserved
        self._ready: set[RunId] = set()
        self._running: set[RunId] = set()
        self._lost: set[RunId] = set()
        self._missing: deque[datetime] = deque()  # one for each seat that it is short of: since when

    @property
    def short_since(self) -> datetime | None:
        """Since when it has been short of a seat that it still has not got; None: it has enough.

        A seat that it gets is that of which it has been short for longest: processes know of the others later.
        """
        return self._missing[0] if self._missing else None

    def note(self, event: Event, at: datetime) -> bool:
        """Note an event of one of its runs. Return whether a run was claimed that the reserve was for."""
        assert event.run_id is not None
        was_short = bool(self._missing)
        self._ready.discard(event.run_id)
        self._running.discard(event.run_id)
        if event.what == "lost":
            self._lost.add(event.run_id)  # it waits for an idle worker from now on
        if event.target is RunState.RUNNING:
            self._running.add(event.run_id)
        elif event.target is RunState.PENDING and event.run_id not in self._lost:
            self._ready.add(event.run_id)
        short = max(min(self._reserved - len(self._running), len(self._ready)), 0)
        while len(self._missing) > short:
            self._missing.popleft()
        self._missing.extend([at] * (short - len(self._missing)))
        return was_short and event.what == "claimed"


def judge_reserves(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L11: while a tenant has been short of reserved slots for as long as processes need to know it, no seat goes to
    another tenant that has none reserved.

    For each fault meanwhile, some may: what each process hands out in one claim from what it saw before. A run that was
    lost takes no seat from the tenant: it is claimed alone, by a worker that was emptied for it.
    """
    if not history.reserves:
        return
    tenants = {tenant: _Tenant(slots) for tenant, slots in history.reserves.items()}
    passed: dict[tuple[str, datetime], list[tuple[datetime, str]]] = {}
    lost: set[RunId] = set()
    for event in history.events:
        run = None if event.run_id is None or event.is_stale else runs.by_id.get(event.run_id)
        if run is None:
            continue
        at = event.committed_at or event.at
        if event.what == "lost":
            lost.add(run.id)
        if run.tenant in tenants:
            counts["seats_of_reserves"] += tenants[run.tenant].note(event, at)
        elif event.what == "claimed" and run.id not in lost:
            for name, tenant in tenants.items():
                if tenant.short_since is not None:
                    counts["seats_beside_reserves"] += 1
                    if tenant.short_since + KNOWN_AFTER < at:
                        passed.setdefault((name, tenant.short_since), []).append((at, run.tenant))
    for (name, since), seats in passed.items():
        slack = history.count_faults(since - KNOWN_AFTER, seats[-1][0])
        slack *= history.matchers * history.claim
        if len(seats) > slack:
            why = f"short since {since.isoformat()}; {len(seats)} seats went to others, and {slack} may"
            lines = (f"{at.isoformat()} {tenant} got one" for at, tenant in seats[:5])
            yield Violation("L11", f"tenant {name}", (why, *lines))
