"""What a job's history keeps besides runs: its fire ranges, and the balance of its fires."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.ids import format_job_id
from mainspring.core.ledger import Ledger
from mainspring.core.ledger_check import LedgerCheck
from mainspring.core.model import FireRange
from mainspring.wire.views import Instant, JobIdText


class FireRangeView(Struct, kw_only=True):
    """A range of fire times that is kept as one record."""

    kind: str
    reason: str
    job_version: int
    from_time: Instant
    to_time: Instant | None
    cursor: Instant | None
    is_open: bool
    created_at: Instant


class FireRangeList(Struct):
    """A job's fire ranges, the newest first."""

    items: list[FireRangeView]


class ReasonView(Struct, kw_only=True):
    """Why so many fires made no run, with the first of them."""

    reason: str
    count: int
    examples: list[Instant]


class LedgerView(Struct, kw_only=True):
    """The expected and the recorded fires of a job over a period. It is a bug if any are missing or surplus."""

    job_id: JobIdText
    job: str = ""
    from_time: Instant
    to_time: Instant
    expected: int
    missing: list[Instant]
    surplus: list[Instant]
    recorded: Annotated[int, Meta(description="How many of the expected fires are on record.")] = 0
    reasons: Annotated[
        list[ReasonView],
        Meta(description="Why recorded fires made no run, the most frequent reason first."),
    ] = []


class LedgerPage(Struct):
    """The ledgers of a page of jobs; `next` is the value of `after` for the page that follows."""

    items: list[LedgerView]
    next: str | None


class UnevenJobView(Struct, kw_only=True):
    """A job of the tenant whose recorded fires differ from those that it owed."""

    job_id: JobIdText
    job: str
    missing: int
    surplus: int
    first: Annotated[Instant, Meta(description="The earliest fire that is missing or surplus.")]


class LedgerCheckView(Struct, kw_only=True):
    """What the last check of all jobs came to: the server compares them once a day. Counts are of all tenants."""

    began_at: Instant
    ended_at: Instant
    since: Annotated[Instant, Meta(description="The start of the period that was compared.")]
    jobs: int
    expected: Annotated[int, Meta(description="Fires that were owed.")]
    without_work: Annotated[int, Meta(description="Of these, how many made no run, for a known reason.")]
    missing: int
    surplus: int
    uneven_jobs: Annotated[int, Meta(description="Jobs with missing or surplus fires.")]
    examples: Annotated[list[UnevenJobView], Meta(description="Some of them, of this tenant.")]


def view_ledger_check(check: LedgerCheck, tenant: str) -> LedgerCheckView:
    """Show what a check of all jobs came to, to a tenant."""
    return LedgerCheckView(
        began_at=check.began_at,
        ended_at=check.ended_at,
        since=check.since,
        jobs=check.jobs,
        expected=check.expected,
        without_work=check.without_work,
        missing=check.missing,
        surplus=check.surplus,
        uneven_jobs=check.uneven,
        examples=[
            UnevenJobView(
                job_id=format_job_id(one.job_id),
                job=one.name,
                missing=one.missing,
                surplus=one.surplus,
                first=one.first_at,
            )
            for one in check.examples
            if one.tenant == tenant
        ],
    )


def view_fire_range(fire_range: FireRange) -> FireRangeView:
    """Show a fire range."""
    return FireRangeView(
        kind=fire_range.kind.value,
        reason=fire_range.reason,
        job_version=fire_range.version,
        from_time=fire_range.from_at,
        to_time=fire_range.to_at,
        cursor=fire_range.cursor_at,
        is_open=fire_range.is_open,
        created_at=fire_range.created_at,
    )


def view_ledger(ledger: Ledger) -> LedgerView:
    """Show a job's ledger."""
    return LedgerView(
        job_id=format_job_id(ledger.job.id),
        job=ledger.job.spec.name,
        from_time=ledger.from_at,
        to_time=ledger.to_at,
        expected=ledger.balance.expected,
        missing=list(ledger.balance.missing),
        surplus=list(ledger.balance.surplus),
        recorded=ledger.balance.recorded,
        reasons=[
            ReasonView(reason=each.reason, count=each.count, examples=list(each.examples))
            for each in ledger.balance.reasons()
        ],
    )
