"""Proves that a restored store is what it was: its audit is whole, and its ledger even."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.core.backups import Proof
from mainspring.core.ids import JobId
from mainspring.core.ledger import Ledger
from mainspring.core.model import Job
from mainspring.core.triggers import UnknownTrigger
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.ledger import LONGEST, LedgerPeriod, read_ledger
from mainspring.engine.usecases.audit_trail import AuditTrail
from mainspring.ports.store import Store

_PAGE = 100
_MOST_NAMED = 5


async def prove(
    store: Store, *, as_of: datetime, kept: timedelta, keep_audit: timedelta, differences: Sequence[str]
) -> Proof:
    """Check all seals of the audit, and compare the fires of every job with those it owed in the week before.

    Args:
        as_of: the instant as of which the store is.
        kept: how long ended runs are kept.
        keep_audit: how long entries of the audit are kept.
        differences: what was found before.
    """
    seals, entries, broken = await _check_seals(AuditTrail(store, keep=keep_audit), as_of)
    ledgers, unknown = await _read_ledgers(store, as_of, kept)
    uneven = [ledger for ledger in ledgers if not ledger.balance.is_even]
    return Proof(
        differences=differences,
        seals=seals,
        entries=entries,
        broken_seal=broken,
        jobs=len(ledgers),
        owed=sum(ledger.balance.expected for ledger in ledgers),
        missing=sum(len(ledger.balance.missing) for ledger in ledgers),
        surplus=sum(len(ledger.balance.surplus) for ledger in ledgers),
        uneven=[ledger.job.spec.name for ledger in uneven[:_MOST_NAMED]],
        unknown=unknown,
    )


async def _check_seals(trail: AuditTrail, as_of: datetime) -> tuple[int, int, str | None]:
    """Return how many seals and entries fit, and what is wrong with the first that does not."""
    seals = entries = after = 0
    while True:
        check = await trail.verify(now=as_of, after=after)
        seals, entries = seals + check.seals, entries + check.entries
        if check.broken is not None:
            return seals, entries, f"seal {check.broken.seal_id}: {check.broken.reason}"
        if check.is_complete or check.last is None:
            return seals, entries, None
        after = check.last.id


async def _read_ledgers(store: Store, as_of: datetime, kept: timedelta) -> tuple[list[Ledger], int]:
    """Return the ledgers of all jobs of all tenants, and how many cannot be known here."""
    calendars, period = CalendarReader(store), LedgerPeriod(as_of - LONGEST)
    found: list[Ledger] = []
    unknown = 0
    after: tuple[str, JobId] | None = None
    while True:
        page = await store.page_jobs(after=after, limit=_PAGE)
        for job in page:
            ledger = await _read_one(store, calendars, job, as_of, kept, period)
            if ledger is None:
                unknown += 1
            else:
                found.append(ledger)
        if len(page) < _PAGE:
            return found, unknown
        after = page[-1].tenant, page[-1].id


async def _read_one(
    store: Store, calendars: CalendarReader, job: Job, as_of: datetime, kept: timedelta, period: LedgerPeriod
) -> Ledger | None:
    try:
        [spec] = await calendars.apply_to_jobs([(job.id, job.tenant, job.spec)])
    except ValueError:  # a calendar or a zone is unknown here
        return None
    if isinstance(spec.trigger, UnknownTrigger):
        return None
    return await read_ledger(store, job, spec.trigger, now=as_of, kept=kept, period=period)
