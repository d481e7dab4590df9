"""`Cron`: an expression in a zone, for users and triggers (rule V)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from mainspring.core.cron.explain import explain
from mainspring.core.cron.fields import CronError
from mainspring.core.cron.parse import Schedule, parse
from mainspring.core.cron.walk import Walker
from mainspring.core.cron.zones import load_zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_GAPS = {"after": True, "skip": False}
_OVERLAPS = {"first": frozenset({1}), "second": frozenset({2}), "both": frozenset({1, 2})}
_VIXIE = "after/first"


class Cron:
    """A cron expression in a time zone, read by rule V: five fields, or six with seconds first.

    Args:
        expression: the fields, or a macro such as `@daily`.
        tz: an IANA zone name.
        dst: what happens to fixed times when clocks change: `vixie`, or `GAP/OVERLAP` with GAP `after` (once, right
            after the gap) or `skip`, OVERLAP `first`, `second` or `both`. Schedules with a leading `*` in a time
            field follow real time and are not affected.

    Raises:
        CronError: the expression, zone or rule is refused, or the expression can never fire.
    """

    __slots__ = ("dst", "expression", "tz")

    expression: str
    tz: str
    dst: str

    def __init__(self, expression: str, tz: str = "UTC", dst: str = "vixie") -> None:
        _compile(expression, tz, dst)
        self._set(expression, tz, dst)

    @classmethod
    def kept(cls, expression: str, tz: str, dst: str) -> Cron:
        """Return a `Cron` for an expression that was checked before. It is parsed on first use.

        Raises:
            CronError: later, at that first use, if this host does not know the zone.
        """
        cron = cls.__new__(cls)
        cron._set(expression, tz, dst)
        return cron

    def _set(self, expression: str, tz: str, dst: str) -> None:
        object.__setattr__(self, "expression", expression)
        object.__setattr__(self, "tz", tz)
        object.__setattr__(self, "dst", dst)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Cron does not change; make another one instead of setting {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Cron does not change; {name} stays")

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Cron) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, tz={self.tz!r}, dst={self.dst!r})"

    def __reduce__(self) -> tuple[type[Cron], tuple[str, str, str]]:
        return Cron, self._key()

    def _key(self) -> tuple[str, str, str]:
        return self.expression, self.tz, self.dst

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after an aware instant, in UTC; None if there is none in a hundred years.

        Raises:
            ValueError: the instant is naive.
        """
        epoch = _walk(self).next_after(_floor(instant))
        return None if epoch is None else _EPOCH + timedelta(seconds=epoch)

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before an aware instant, in UTC; None if there is none in a hundred years.

        Raises:
            ValueError: the instant is naive.
        """
        epoch = _walk(self).previous_before(_ceil(instant))
        return None if epoch is None else _EPOCH + timedelta(seconds=epoch)

    def fires_between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Iterate over the fires from `start` (inclusive) to `end` (exclusive), in UTC and in order.

        Raises:
            ValueError: an instant is naive.
        """
        return self._fires(_ceil(start) - 1, _ceil(end))

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
        text = explain(_compile(*self._key())[0])
        return text if self.tz == "UTC" else f"{text} ({self.tz})"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings where other tools read the expression differently (rule V 4)."""
        return _warnings(_compile(*self._key())[0])


@lru_cache(maxsize=4096)
def _compile(expression: str, tz: str, dst: str) -> tuple[Schedule, Walker]:
    """Parse an expression. The cache is here, not in each `Cron`: a scheduler holds many and uses each rarely."""
    gap, overlap = _read_dst(expression, dst)
    schedule = parse(expression)
    try:
        zone = load_zone(tz)
    except CronError as error:
        raise CronError(error.field, expression, error.message) from None
    walker = Walker(schedule, zone, is_gap_fired=_GAPS[gap], passes=_OVERLAPS[overlap])
    if not walker.can_fire():
        message = f"{expression!r} never fires; write a day that exists in one of its months"
        raise CronError("day of month", expression, message)
    return schedule, walker


def _walk(cron: Cron) -> Walker:
    return _compile(cron.expression, cron.tz, cron.dst)[1]


def _read_dst(expression: str, dst: str) -> tuple[str, str]:
    gap, slash, overlap = (_VIXIE if dst == "vixie" else dst).partition("/")
    if not slash or gap not in _GAPS or overlap not in _OVERLAPS:
        right = "'vixie' nor GAP/OVERLAP with GAP after or skip, OVERLAP first, second or both"
        raise CronError("dst", expression, f"{dst[:80]!r} is neither {right}")
    return gap, overlap


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


def _floor(instant: datetime) -> int:
    """Return the whole second at or before an instant."""
    _check_aware(instant)
    return (instant - _EPOCH) // _SECOND


def _ceil(instant: datetime) -> int:
    """Return the whole second at or after an instant."""
    _check_aware(instant)
    return -((_EPOCH - instant) // _SECOND)


def _check_aware(instant: datetime) -> None:
    if instant.utcoffset() is None:
        raise ValueError(f"{instant!r} is naive; give it a zone")
