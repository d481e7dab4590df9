"""The ledger compares expected fires with recorded ones. There must be no difference (law 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from types import MappingProxyType

from mainspring.core.calendars.joined import clock_trigger, has_no_rule
from mainspring.core.calendars.sieve import SievedTrigger
from mainspring.core.model import FireRange, FireRangeKind, Job
from mainspring.core.planning import walk_range
from mainspring.core.triggers import Trigger
from mainspring.core.values import value

MOST_EXAMPLES = 3
_TOGETHER = 10_000
CALENDAR = "calendar"
"""The reason of a fire that calendars keep out."""
CATCH_UP = "catch_up"
"""The reason of a missed fire whose run is still to be made."""


@value()
class Reason:
    """Why so many fires made no run.

    Attributes:
        examples: the first of them.
    """

    reason: str
    count: int
    examples: tuple[datetime, ...]


@value()
class Balance:
    """The comparison of expected and recorded fires of one job version over a period.

    Attributes:
        expected: how many fire times the trigger gives.
        missing: fire times without any record, in order.
        surplus: recorded times that the trigger does not give, and duplicate records of a fire time, in order.
        without_work: fire times that are on record, and made no run, with the reason.
    """

    expected: int
    missing: tuple[datetime, ...]
    surplus: tuple[datetime, ...]
    without_work: tuple[tuple[str, datetime], ...] = ()

    @property
    def recorded(self) -> int:
        """How many of the expected fire times are on record."""
        return self.expected - len(self.missing)

    def reasons(self) -> list[Reason]:
        """Return why fires made no run, the most frequent reason first."""
        found: dict[str, list[datetime]] = {}
        for reason, instant in self.without_work:
            found.setdefault(reason, []).append(instant)
        reasons = [
            Reason(reason, len(instants), tuple(sorted(instants)[:MOST_EXAMPLES]))
            for reason, instants in found.items()
        ]
        return sorted(reasons, key=lambda each: (-each.count, each.reason))

    @property
    def is_even(self) -> bool:
        """Whether every fire has exactly one record, and nothing else was fired."""
        return not self.missing and not self.surplus


@value()
class Ledger:
    """A job's balance over a period."""

    job: Job
    from_at: datetime
    to_at: datetime
    balance: Balance


class Balancing:
    """Compares every fire time t of a trigger, `from_at <= t <= to_at`, with the records, some fires at a time.

    A period may hold hundreds of thousands of fires. Whoever shares a thread with others takes turns between steps.

    End the period before anything that may still be under way: at the clock row's `fired_through`, or a moment ago.

    Args:
        trigger: the trigger of the job version that was in force throughout the period, with its calendars.
        from_at: the start of the period.
        to_at: the end of the period.
        recorded: nominal times of the version's scheduled runs, including skipped ones, in any order.
        fire_ranges: fire ranges of the same version. A gap records all of its fires. An open catch-up records the
            fires after its cursor; the others have runs. A backfill records none, because its fires are not the
            schedule's own. Any other range records the fires in it that calendars keep out.
        skipped: the reasons of those of the recorded runs that were skipped, by their nominal times.
    """

    def __init__(
        self,
        trigger: Trigger,
        from_at: datetime,
        to_at: datetime,
        *,
        recorded: Iterable[datetime],
        fire_ranges: Iterable[FireRange] = (),
        skipped: Mapping[datetime, str] = MappingProxyType({}),
    ) -> None:
        self._records = Counter(instant for instant in recorded if from_at <= instant <= to_at)
        self._fire_ranges = list(fire_ranges)
        self._fires = iter(_fires_of(trigger, from_at, to_at, self._records, self._fire_ranges))
        self._skipped = skipped
        self._sieve = trigger.sieve if isinstance(trigger, SievedTrigger) else None
        self._expected = 0
        self._missing: list[datetime] = []
        self._without_work: list[tuple[str, datetime]] = []

    def step(self, fires: int) -> bool:
        """Compare that many fires more. Return whether there may be others."""
        before = self._expected
        for instant in islice(self._fires, fires):
            self._expected += 1
            self._compare(instant)
        return self._expected - before == fires

    def balance(self) -> Balance:
        """Return the comparison. Call it when no fires are left."""
        surplus = tuple(_in_order(self._records))
        return Balance(self._expected, tuple(self._missing), surplus, tuple(self._without_work))

    def _compare(self, instant: datetime) -> None:
        if self._records[instant]:
            self._records[instant] -= 1
            if instant in self._skipped:
                self._without_work.append((self._skipped[instant], instant))
            return
        is_excluded = self._sieve is not None and self._sieve.excluded_by(instant) is not None
        reasons = (_reason_of(one, instant, is_excluded=is_excluded) for one in self._fire_ranges)
        reason = next((found for found in reasons if found is not None), None)
        if reason is None:
            self._missing.append(instant)
        else:
            self._without_work.append((reason, instant))


def balance_fires(
    trigger: Trigger,
    from_at: datetime,
    to_at: datetime,
    *,
    recorded: Iterable[datetime],
    fire_ranges: Iterable[FireRange] = (),
    skipped: Mapping[datetime, str] = MappingProxyType({}),
) -> Balance:
    """Compare all fires of a period at once. The arguments are those of `Balancing`."""
    balancing = Balancing(
        trigger, from_at, to_at, recorded=recorded, fire_ranges=fire_ranges, skipped=skipped
    )
    while balancing.step(_TOGETHER):
        pass
    return balancing.balance()


def _fires_of(
    trigger: Trigger,
    from_at: datetime,
    to_at: datetime,
    records: Iterable[datetime],
    fire_ranges: Iterable[FireRange],
) -> Iterable[datetime]:
    """Return the fires that were owed. Where no rule gives them, they came to be with their records."""
    if not has_no_rule(trigger):
        return walk_range(clock_trigger(trigger), from_at, to_at, None)
    ranges = (one.from_at for one in fire_ranges if one.kind is not FireRangeKind.BACKFILL)
    return sorted({*records, *(instant for instant in ranges if from_at <= instant <= to_at)})


def _reason_of(fire_range: FireRange, instant: datetime, *, is_excluded: bool) -> str | None:
    """Return why a fire has no run, if a range records it; None if it does not."""
    if (
        fire_range.kind is FireRangeKind.BACKFILL
        or instant < fire_range.from_at
        or (fire_range.to_at is not None and instant > fire_range.to_at)
    ):
        return None
    if is_excluded:
        return CALENDAR
    if fire_range.kind is FireRangeKind.GAP:
        return fire_range.reason
    is_to_come = fire_range.cursor_at is None or instant > fire_range.cursor_at
    return CATCH_UP if fire_range.is_open and is_to_come else None


def _in_order(records: Counter[datetime]) -> Iterator[datetime]:
    for instant in sorted(+records):
        yield from [instant] * records[instant]
