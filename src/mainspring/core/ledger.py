"""The ledger: what was to fire against what is on record; the difference is nothing (law 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from mainspring.core.model import Job, Span, SpanKind
from mainspring.core.planning import walk_stretch
from mainspring.core.triggers import Trigger


@dataclass(frozen=True, slots=True)
class Balance:
    """Expected against recorded fires of one job version over a period.

    Attributes:
        expected: how many fire times the trigger gives.
        missing: fire times without any record, in order.
        surplus: recorded times that are no fire times of the trigger, or a fire time's second record, in order.
    """

    expected: int
    missing: tuple[datetime, ...]
    surplus: tuple[datetime, ...]

    @property
    def is_even(self) -> bool:
        """Say whether every fire has exactly one record and nothing else was fired."""
        return not self.missing and not self.surplus


@dataclass(frozen=True, slots=True)
class Ledger:
    """A job's balance over a period; None where the job had nothing to fire in it."""

    job: Job
    from_at: datetime
    to_at: datetime
    balance: Balance


def balance_fires(
    trigger: Trigger,
    from_at: datetime,
    to_at: datetime,
    *,
    recorded: Iterable[datetime],
    spans: Iterable[Span] = (),
) -> Balance:
    """Compare every fire time t of a trigger, `from_at <= t <= to_at`, with what is on record.

    The period ends before what may still be under way: at the clock row's `fired_through`, or a moment ago.

    Args:
        trigger: of the job version that held throughout the period.
        from_at: where the period begins.
        to_at: where it ends.
        recorded: nominal times of the version's scheduled runs, skipped ones among them, in any order.
        spans: of the same version. A gap is the record of all its fires; an open catch-up is the record of those
            after its cursor, the others have runs; a backfill is no record, because its fires are not the schedule's
            own.
    """
    records = Counter(instant for instant in recorded if from_at <= instant <= to_at)
    spans = list(spans)
    missing: list[datetime] = []
    expected = 0
    for instant in walk_stretch(trigger, from_at, to_at, None):
        expected += 1
        if records[instant]:
            records[instant] -= 1
        elif not any(_stands_for(span, instant) for span in spans):
            missing.append(instant)
    return Balance(expected, tuple(missing), tuple(_in_order(records)))


def _stands_for(span: Span, instant: datetime) -> bool:
    if (
        span.kind is SpanKind.BACKFILL
        or instant < span.from_at
        or (span.to_at is not None and instant > span.to_at)
    ):
        return False
    if span.kind is SpanKind.GAP:
        return True
    return span.is_open and (span.cursor_at is None or instant > span.cursor_at)


def _in_order(records: Counter[datetime]) -> Iterator[datetime]:
    for instant in sorted(+records):
        yield from [instant] * records[instant]
