"""Redrives and their steps, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from mainspring.core.audit import AuditEntry
from mainspring.core.dead_letters import DeadFilter, Settlement, group_of
from mainspring.core.ids import RedriveId, RunId
from mainspring.core.redrives import DeadVersion, Redrive, RedriveChange, RedriveState
from mainspring.core.states import RunState
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.redrives import DeadWindow, NewRedrive, RedriveStep
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.rows import RunRow
from mainspring.stores.memory.tables import Tables


class MemoryRedriveStore:
    """`RedriveStore` in memory."""

    _tables: Tables

    async def count_dead_versions(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadVersion]:
        meant = (row for row in self._open_letters(tenant, RunId(0)) if _is_meant(row, wanted))
        counts = Counter((row.job_id, row.version) for row in meant)
        found = [
            DeadVersion(job_id=job_id, version=version, count=count)
            for (job_id, version), count in counts.items()
        ]
        return sorted(found, key=lambda one: (-one.count, one.job_id, one.version))[:limit]

    async def add_redrive(self, new: NewRedrive, *, now: datetime, audit: Sequence[AuditEntry] = ()) -> None:
        self._tables.redrives[new.id] = Redrive(
            id=new.id,
            tenant=new.tenant,
            wanted=new.wanted,
            is_newest=new.is_newest,
            rate=new.rate,
            state=RedriveState.RUNNING,
            cursor=RunId(0),
            total=new.total,
            done=0,
            created_at=now,
            closed_at=None,
        )
        write_audit(self._tables, audit, [True])

    async def get_redrive(self, redrive_id: RedriveId) -> Redrive | None:
        return self._tables.redrives.get(redrive_id)

    async def list_redrives(
        self, tenant: str, *, before: RedriveId | None = None, limit: int = 100
    ) -> list[Redrive]:
        found = [
            redrive
            for redrive in self._tables.redrives.values()
            if redrive.tenant == tenant and (before is None or redrive.id < before)
        ]
        return sorted(found, key=lambda redrive: redrive.id, reverse=True)[:limit]

    async def change_redrive(
        self, redrive_id: RedriveId, change: RedriveChange, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        redrive = self._tables.redrives.get(redrive_id)
        if redrive is None or redrive.state not in change.starts_from:
            return False
        closed_at = redrive.closed_at
        if change is RedriveChange.CANCEL:
            closed_at = closed_at or now
        self._tables.redrives[redrive_id] = replace(redrive, state=change.leads_to, closed_at=closed_at)
        write_audit(self._tables, audit, [redrive.state is not change.leads_to])
        return True

    async def list_running_redrives(self, *, limit: int) -> list[Redrive]:
        running = [one for one in self._tables.redrives.values() if one.state is RedriveState.RUNNING]
        return sorted(running, key=lambda redrive: redrive.id)[:limit]

    async def find_dead_to_redrive(
        self, tenant: str, wanted: DeadFilter, *, after: RunId, limit: int
    ) -> DeadWindow:
        looked = list(islice(self._open_letters(tenant, after), limit))
        return DeadWindow(
            [row.id for row in looked if _is_meant(row, wanted)], looked[-1].id if looked else None
        )

    async def advance_redrives(self, steps: Sequence[RedriveStep], *, epochs: Epochs, now: datetime) -> bool:
        if steps and epochs.get(0) != self._tables.shards[0].epoch:
            return False
        for step in steps:
            redrive = self._tables.redrives[step.redrive.id]
            if redrive.state is not RedriveState.RUNNING or redrive.cursor != step.redrive.cursor:
                continue
            redriven = sum(1 for _ in self._redriven(redrive, step.cursor_to))
            self._tables.redrives[redrive.id] = replace(
                redrive,
                cursor=step.cursor_to,
                done=redrive.done + redriven,
                state=RedriveState.DONE if step.is_done else redrive.state,
                closed_at=now if step.is_done else None,
            )
        return True

    def _open_letters(self, tenant: str, after: RunId) -> Iterator[RunRow]:
        """Yield a tenant's open dead letters above one, in order of id."""
        for row in self._above(tenant, after):
            if row.state is RunState.FAILED and row.settled is None:
                yield row

    def _redriven(self, redrive: Redrive, cursor_to: RunId) -> Iterator[RunRow]:
        """Yield what was redriven of what a step passes."""
        for row in self._above(redrive.tenant, redrive.cursor):
            if row.id > cursor_to:
                return
            if (
                row.settled is not None
                and row.settled.settlement is Settlement.REDRIVEN
                and row.settled.at >= redrive.created_at
                and _is_meant(row, redrive.wanted)
            ):
                yield row

    def _above(self, tenant: str, after: RunId) -> Iterator[RunRow]:
        for key in self._tables.runs_of_tenant[tenant].above((after,)):
            yield self._tables.runs[key[0]]


def _is_meant(row: RunRow, wanted: DeadFilter) -> bool:
    """Say whether a dead letter is among those that are meant, whether it is settled or not."""
    return wanted.admits(row.view(), group_of(row.error), is_settled=wanted.is_settled)
