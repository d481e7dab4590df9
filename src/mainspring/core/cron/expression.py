"""`Cron`: an expression in a zone, for users and triggers (rule V)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from mainspring.core.cron.days import Calendar
from mainspring.core.cron.explain import explain
from mainspring.core.cron.fields import CronError
from mainspring.core.cron.parse import Schedule, parse
from mainspring.core.cron.slots import choose_slots, has_slots
from mainspring.core.cron.walk import MetChange, Walker, ceil_epoch, floor_epoch, read_dst
from mainspring.core.cron.zones import load_zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Cron:
    """A cron expression in a time zone, read by rule V: five fields, or six with seconds first.

    Args:
        expression: the fields, or a macro such as `@daily`. `H` and `~` stand for values that a job's name chooses.
        tz: an IANA zone name.
        dst: what happens to fixed times when clocks change: `vixie`, or `GAP/OVERLAP` with GAP `after` (once, right
            after the gap) or `skip`, OVERLAP `first`, `second` or `both`. Schedules with a leading `*` in a time
            field follow real time and are not affected.

    Raises:
        CronError: the expression, zone or rule is refused, or the expression can never fire.
    """

    __slots__ = ("chosen", "dst", "expression", "tz")

    expression: str
    tz: str
    dst: str
    chosen: str | None

    def __init__(
        self, expression: str, tz: str = "UTC", dst: str = "vixie", *, chosen: str | None = None
    ) -> None:
        if chosen is None and has_slots(expression):
            chosen = choose_slots(expression, "")
        _compile(chosen or expression, tz, dst)
        self._set(expression, tz, dst, chosen)

    @classmethod
    def kept(cls, expression: str, tz: str, dst: str, chosen: str | None = None) -> Cron:
        """Return a `Cron` for an expression that was checked before. It is parsed on first use.

        Raises:
            CronError: later, at that first use, if this host does not know the zone.
        """
        cron = cls.__new__(cls)
        cron._set(expression, tz, dst, chosen)
        return cron

    def with_slots(self, key: str) -> Cron:
        """Return the expression with what a key chooses for its `H` and `~`; itself if it has none.

        Raises:
            CronError: what is chosen never fires, like day 30 in February.
        """
        if self.chosen is None:
            return self
        return Cron(self.expression, self.tz, self.dst, chosen=choose_slots(self.expression, key))

    @property
    def effective(self) -> str:
        """The expression by which it fires: with the values that were chosen."""
        return self.expression if self.chosen is None else self.chosen

    def _set(self, expression: str, tz: str, dst: str, chosen: str | None) -> None:
        object.__setattr__(self, "expression", expression)
        object.__setattr__(self, "tz", tz)
        object.__setattr__(self, "dst", dst)
        object.__setattr__(self, "chosen", chosen)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Cron does not change; make another one instead of setting {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Cron does not change; {name} stays")

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Cron) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        chosen = "" if self.chosen is None else f", chosen={self.chosen!r}"
        return f"Cron({self.expression!r}, tz={self.tz!r}, dst={self.dst!r}{chosen})"

    def __reduce__(self) -> tuple[Callable[..., Cron], tuple[str, str, str, str | None]]:
        return Cron.kept, self._key()

    def _key(self) -> tuple[str, str, str, str | None]:
        return self.expression, self.tz, self.dst, self.chosen

    def _compiled(self) -> tuple[Schedule, Walker]:
        return _compile(self.effective, self.tz, self.dst)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after an aware instant, in UTC; None if there is none in a hundred years.

        Raises:
            ValueError: the instant is naive.
        """
        return _walk(self).fire_after(instant)

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before an aware instant, in UTC; None if there is none in a hundred years.

        Raises:
            ValueError: the instant is naive.
        """
        return _walk(self).fire_before(instant)

    def fires_between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Iterate over the fires from `start` (inclusive) to `end` (exclusive), in UTC and in order.

        Raises:
            ValueError: an instant is naive.
        """
        return self._fires(ceil_epoch(start) - 1, ceil_epoch(end))

    def _fires(self, seconds: int, end: int) -> Iterator[datetime]:
        walker = _walk(self)
        found = walker.next_after(seconds)
        while found is not None and found < end:
            yield _EPOCH + timedelta(seconds=found)
            found = walker.next_after(found)

    def next_epoch(self, seconds: int) -> int | None:
        """Return the first fire after an instant, both in whole seconds since 1970; None as in `next_after`."""
        return _walk(self).next_after(seconds)

    def previous_epoch(self, seconds: int) -> int | None:
        """Return the last fire before an instant, both in whole seconds since 1970; None as in `previous_before`."""
        return _walk(self).previous_before(seconds)

    def explain(self) -> str:
        """Describe in plain English when the expression fires."""
        text = explain(self.schedule)
        return text if self.tz == "UTC" else f"{text} ({self.tz})"

    @property
    def schedule(self) -> Schedule:
        """The parsed expression."""
        return self._compiled()[0]

    def met_changes(self, start: datetime, end: datetime) -> Iterator[MetChange]:
        """Yield the clock changes from `start` to `end` that skip or repeat a fixed time of the expression."""
        return self._compiled()[1].met_changes(floor_epoch(start), floor_epoch(end))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings where other tools read the expression differently (rule V 4)."""
        return _warnings(self.schedule)


@lru_cache(maxsize=4096)
def _compile(expression: str, tz: str, dst: str) -> tuple[Schedule, Walker]:
    """Parse an expression. The cache is here, not in each `Cron`: a scheduler holds many and uses each rarely."""
    is_gap_fired, passes = read_dst(dst, expression)
    schedule = parse(expression)
    try:
        zone = load_zone(tz)
    except CronError as error:
        raise CronError(error.field, expression, error.message) from None
    calendar = Calendar(schedule)
    walker = Walker(calendar, zone, is_wild=schedule.is_wild, is_gap_fired=is_gap_fired, passes=passes)
    if not calendar.has_days():
        message = f"{expression!r} never fires; write a day that exists in one of its months"
        raise CronError("day of month", expression, message)
    return schedule, walker


def _walk(cron: Cron) -> Walker:
    # At each step of a clock, so without the calls of `_compiled` and `effective`.
    return _compile(cron.chosen or cron.expression, cron.tz, cron.dst)[1]


def _warnings(schedule: Schedule) -> tuple[str, ...]:
    _, _, _, day, _, weekday = schedule.texts
    found = []
    if not day.startswith(("*", "?")) and not weekday.startswith(("*", "?")):
        found.append(
            "both day fields are restricted: either one is enough here; some other tools ask for both"
        )
    for text, other in ((day, weekday), (weekday, day)):
        if text.startswith("*/") and other not in {"*", "?"}:
            found.append(
                f"{text} with a restricted {other}: both must match here; most other tools take either"
            )
    return tuple(found)
