"""Sums up the ledgers of all jobs: a bounded result, however many jobs there are."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.ids import JobId
from mainspring.core.ledger import Ledger
from mainspring.core.values import value

EVERY = timedelta(days=1)
"""From the start of one check to the start of the next."""
OVERLAP = timedelta(hours=1)
"""How far a check reaches back beyond the start of the one before, so that no fire falls between two."""
MOST_EXAMPLES = 20


@value(kw_only=True)
class UnevenJob:
    """A job whose recorded fires differ from those that its schedule owed.

    Attributes:
        missing: fires without any record.
        surplus: records that the schedule does not explain.
        first_at: the earliest of both.
    """

    tenant: str
    job_id: JobId
    name: str
    missing: int
    surplus: int
    first_at: datetime


@value(kw_only=True)
class LedgerCheck:
    """What came of the last comparison of all jobs' owed fires with their records.

    Attributes:
        began_at, ended_at: when the comparison was made.
        since: the start of the period that was compared; for a job that was changed later, only from then on.
        jobs: how many were compared: all but those whose calendar or type of trigger is unknown here.
        uneven: how many of them differ.
        expected: fires that were owed; `without_work` is how many of them made no run, for a known reason.
        examples: jobs that differ, at most `MOST_EXAMPLES`.
    """

    began_at: datetime
    ended_at: datetime
    since: datetime
    jobs: int
    uneven: int
    expected: int
    without_work: int
    missing: int
    surplus: int
    examples: tuple[UnevenJob, ...] = ()

    @property
    def is_even(self) -> bool:
        """Whether nothing is missing, and nothing was fired that was not owed."""
        return not self.uneven

    @property
    def next_at(self) -> datetime:
        """When the next check is due."""
        return self.began_at + EVERY


class LedgerSum:
    """What a check has found until now. It goes from job to job."""

    def __init__(self, *, began_at: datetime, since: datetime) -> None:
        self.began_at = began_at
        self.since = since
        self._jobs = self._uneven = self._expected = self._without_work = self._missing = self._surplus = 0
        self._examples: list[UnevenJob] = []

    def add(self, ledger: Ledger) -> UnevenJob | None:
        """Take a job's ledger in. Return what differs, if anything does."""
        balance = ledger.balance
        self._jobs += 1
        self._expected += balance.expected
        self._without_work += len(balance.without_work)
        self._missing += len(balance.missing)
        self._surplus += len(balance.surplus)
        if balance.is_even:
            return None
        self._uneven += 1
        job = UnevenJob(
            tenant=ledger.job.tenant,
            job_id=ledger.job.id,
            name=ledger.job.spec.name,
            missing=len(balance.missing),
            surplus=len(balance.surplus),
            first_at=min((*balance.missing[:1], *balance.surplus[:1])),
        )
        if len(self._examples) < MOST_EXAMPLES:
            self._examples.append(job)
        return job

    def conclude(self, ended_at: datetime) -> LedgerCheck:
        """Return what all of it comes to."""
        return LedgerCheck(
            began_at=self.began_at,
            ended_at=ended_at,
            since=self.since,
            jobs=self._jobs,
            uneven=self._uneven,
            expected=self._expected,
            without_work=self._without_work,
            missing=self._missing,
            surplus=self._surplus,
            examples=tuple(self._examples),
        )
