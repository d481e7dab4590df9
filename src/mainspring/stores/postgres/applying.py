"""All that one apply of definitions changes, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.audit import AuditEntry
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.owners import OwnerChange, judge_owner
from mainspring.ports.store.applying import JobsChange
from mainspring.ports.store.jobs import AddResult
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.job_clocks import lock_jobs
from mainspring.stores.postgres.jobs import add_jobs, delete_jobs, edit_jobs, pause_jobs
from mainspring.stores.postgres.owners import own, owned_jobs


class PostgresApplyStore:
    """`ApplyStore` on PostgreSQL."""

    _connections: Connections

    async def apply_jobs(
        self, change: JobsChange, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[OwnerChange] | None:
        if change.is_empty:
            return []

        async def work(transaction: Transaction) -> list[OwnerChange]:
            owned = await _apply(transaction, change, now)
            is_change = change.changes_jobs or any(one.is_change for one in owned)
            await write_audit(transaction, audit, [is_change])
            return owned

        try:
            return await self._connections.transact(Role.EDIT, work)
        except _Unfit:
            return None


class _Unfit(Exception):
    """A part does not fit any more, so that the transaction is rolled back."""


async def _apply(transaction: Transaction, change: JobsChange, now: datetime) -> list[OwnerChange]:
    await _lock(transaction, change)
    if change.adds and set(await add_jobs(transaction, change.adds, now)) != {AddResult.ADDED}:
        raise _Unfit
    verdicts: list[ChangeVerdict] = []
    if change.edits:
        verdicts += await edit_jobs(transaction, change.edits, now)
    if change.pauses:
        verdicts += [one.verdict for one in await pause_jobs(transaction, change.pauses, now)]
    if change.deletes:
        verdicts += [one.verdict for one in await delete_jobs(transaction, change.deletes, now)]
    if any(verdict is not ChangeVerdict.DONE for verdict in verdicts):
        raise _Unfit
    owned = [await own(transaction, change.tenant, each.owner, each.names, now) for each in change.owners]
    if any(one.missing for one in owned):
        raise _Unfit
    return owned


async def _lock(transaction: Transaction, change: JobsChange) -> None:
    """Lock all jobs that are there in id order, then the clocks that change, as fires do.

    Names of new jobs come after that, as for whoever renames a job.
    """
    owners = sorted(each.owner for each in change.owners)
    if owners:
        await transaction.fetch("lock_owners", tenant=change.tenant, owners=owners)
    changed = {edit.job_id for edit in change.edits}
    changed |= {each.job_id for each in (*change.pauses, *change.deletes)}
    rows = await transaction.fetch(
        "lock_owned",
        tenant=change.tenant,
        owners=owners,
        names=sorted({name for each in change.owners for name in each.names}),
        job_ids=list(changed),
    )
    jobs = owned_jobs(rows)
    for each in change.owners:
        changed.update(judge_owner(each.owner, each.names, jobs).defined)
    if changed:
        await lock_jobs(transaction, list(changed))
