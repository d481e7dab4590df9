"""The ledger compares expected fires with recorded ones. There must be no difference (law 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from mainspring.core.calendars.joined import clock_trigger
from mainspring.core.calendars.sieve import SievedTrigger
from mainspring.core.model import FireRange, FireRangeKind, Job
from mainspring.core.planning import walk_range
from mainspring.core.triggers import Trigger


@dataclass(frozen=True, slots=True)
class Balance:
    """The comparison of expected and recorded fires of one job version over a period.

    Attributes:
        expected: how many fire times the trigger gives.
        missing: fire times without any record, in order.
        surplus: recorded times that the trigger does not give, and duplicate records of a fire time, in order.
    """

    expected: int
    missing: tuple[datetime, ...]
    surplus: tuple[datetime, ...]

    @property
    def is_even(self) -> bool:
        """Whether every fire has exactly one record, and nothing else was fired."""
        return not self.missing and not self.surplus


@dataclass(frozen=True, slots=True)
class Ledger:
    """A job's balance over a period."""

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
    fire_ranges: Iterable[FireRange] = (),
) -> Balance:
    """Compare every fire time t of a trigger, `from_at <= t <= to_at`, with the records.

    End the period before anything that may still be under way: at the clock row's `fired_through`, or a moment ago.

    Args:
        trigger: the trigger of the job version that was in force throughout the period, with its calendars.
        from_at: the start of the period.
        to_at: the end of the period.
        recorded: nominal times of the version's scheduled runs, including skipped ones, in any order.
        fire_ranges: fire ranges of the same version. A gap records all of its fires. An open catch-up records the
            fires after its cursor; the others have runs. A backfill records none, because its fires are not the
            schedule's own. Any other range records the fires in it that calendars keep out.
    """
    records = Counter(instant for instant in recorded if from_at <= instant <= to_at)
    fire_ranges = list(fire_ranges)
    missing: list[datetime] = []
    expected = 0
    sieve = trigger.sieve if isinstance(trigger, SievedTrigger) else None
    for instant in walk_range(clock_trigger(trigger), from_at, to_at, None):
        expected += 1
        if records[instant]:
            records[instant] -= 1
            continue
        is_excluded = sieve is not None and sieve.excluded_by(instant) is not None
        if not any(_stands_for(fire_range, instant, is_excluded=is_excluded) for fire_range in fire_ranges):
            missing.append(instant)
    return Balance(expected, tuple(missing), tuple(_in_order(records)))


def _stands_for(fire_range: FireRange, instant: datetime, *, is_excluded: bool) -> bool:
    if (
        fire_range.kind is FireRangeKind.BACKFILL
        or instant < fire_range.from_at
        or (fire_range.to_at is not None and instant > fire_range.to_at)
    ):
        return False
    if fire_range.kind is FireRangeKind.GAP or is_excluded:
        return True
    return fire_range.is_open and (fire_range.cursor_at is None or instant > fire_range.cursor_at)


def _in_order(records: Counter[datetime]) -> Iterator[datetime]:
    for instant in sorted(+records):
        yield from [instant] * records[instant]
