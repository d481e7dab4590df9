"""All that one apply of definitions changes, at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.audit import AuditEntry
from mainspring.core.clocks import ChangeVerdict, decide_delete, decide_pause
from mainspring.core.owners import OwnerChange
from mainspring.ports.store.applying import JobsChange
from mainspring.ports.store.jobs import AddResult
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.jobs import MemoryJobStore, judge_add, judge_edit
from mainspring.stores.memory.owners import MemoryOwnerStore


class MemoryApplyStore(MemoryJobStore, MemoryOwnerStore):
    """`ApplyStore` in memory."""

    async def apply_jobs(
        self, change: JobsChange, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[OwnerChange] | None:
        if not self._fits(change):  # nothing can be taken back later
            return None
        await self.add_jobs(change.adds, now=now)
        await self.edit_jobs(change.edits, now=now)
        await self.pause_jobs(change.pauses, now=now)
        await self.delete_jobs(change.deletes, now=now)
        owned = [
            await self.own_jobs(change.tenant, each.owner, each.names, now=now) for each in change.owners
        ]
        write_audit(self._tables, audit, [change.changes_jobs or any(one.is_change for one in owned)])
        return owned

    def _fits(self, change: JobsChange) -> bool:
        tables = self._tables
        new = {job.id for job in change.adds}
        gone = {each.job_id for each in change.deletes}
        names = {job.spec.name for job in change.adds}
        names |= {
            name
            for (tenant, name), job_id in tables.names.items()
            if tenant == change.tenant and job_id not in gone
        }
        verdicts = [
            *(judge_edit(tables, edit).verdict for edit in change.edits),
            *(
                decide_pause(
                    tables.jobs.get(each.job_id), revision=each.revision, fire_at=each.fire_at
                ).verdict
                for each in change.pauses
                if each.job_id not in new
            ),
            *(
                decide_delete(
                    tables.jobs.get(each.job_id), revision=each.revision, fire_at=each.fire_at
                ).verdict
                for each in change.deletes
            ),
        ]
        return (
            all(judge_add(tables, job) is AddResult.ADDED for job in change.adds)
            and all(verdict is ChangeVerdict.DONE for verdict in verdicts)
            and names.issuperset(name for each in change.owners for name in each.names)
        )
