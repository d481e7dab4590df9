"""What one event holds: its times, those on which it recurs, and what other events of its UID replace."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from mainspring.core.calendars.sets import Span, ordinal_wall, wall_date
from mainspring.core.calendars.walls import DAY, epoch_at_wall, wall_at_epoch
from mainspring.core.cron.zones import Zone
from mainspring.core.values import value
from mainspring.importers.ics.expansion import ExpansionSteps, recur
from mainspring.importers.ics.lines import IcsEventLines, IcsLine
from mainspring.importers.ics.recurrence import Recurrence, read_recurrence
from mainspring.importers.ics.values import IcsMoment, IcsValues, epoch_of

Key = tuple[str, int]
"""How EXDATE and RECURRENCE-ID name one time of an event: ("day", wall second) or ("at", instant)."""
_FEW_DAYS = 3 * DAY


@value()
class EventLength:
    """How long each time of an event is: so much by the clocks on the wall, then so many seconds more."""

    wall: int
    exact: int = 0


@value(kw_only=True)
class IcsEvent:
    """One event.

    Attributes:
        start: its first time.
        zone: the zone in which it recurs; of a date, the one in which instants are taken for dates.
        length: how long each time of it is.
    """

    lines: IcsEventLines
    start: IcsMoment
    zone: Zone
    length: EventLength
    rules: tuple[Recurrence, ...]

    @property
    def at_start(self) -> IcsLine:
        """The line that errors of its times name."""
        return self.lines.get("DTSTART") or self.lines.begin

    @property
    def is_cancelled(self) -> bool:
        """It does not take place."""
        status = self.lines.get("STATUS")
        return status is not None and status.value.upper() == "CANCELLED"


def read_event(lines: IcsEventLines, values: IcsValues) -> IcsEvent:
    """Read an event.

    Raises:
        InvalidInput: a line is wrong.
    """
    at_start = lines.get("DTSTART")
    if at_start is None:
        lines.begin.refuse("VEVENT has no DTSTART; an event needs one")
    for line in lines.every("EXRULE"):
        line.refuse("is not supported; name the dates that are left out by EXDATE")
    start = values.moment(at_start)
    length = _read_length(lines, start, values)
    zone = start.zone
    flag = lines.get("X-MICROSOFT-CDO-ALLDAYEVENT")
    if flag is not None and flag.value.upper() == "TRUE":
        is_whole = not start.wall % DAY and not length.wall % DAY and not length.exact
        if is_whole:  # a date, written as a time in the zone of whoever wrote it
            start, length = (
                IcsMoment(start.wall, is_date=True, zone=values.home),
                EventLength(length.wall or DAY),
            )
    rules = tuple(read_recurrence(line) for line in lines.every("RRULE"))
    return IcsEvent(lines=lines, start=start, zone=zone, length=length, rules=rules)


def _read_length(lines: IcsEventLines, start: IcsMoment, values: IcsValues) -> EventLength:
    at_end, at_length = lines.get("DTEND"), lines.get("DURATION")
    if at_length is not None:
        if at_end is not None:
            at_length.refuse("does not go with DTEND; only one of them may be given")
        whole, exact = values.duration(at_length, at_length.value)
        if not start.is_date:
            return EventLength(whole, exact)
        if exact % DAY:
            at_length.refuse("must be whole days, like P2D: DTSTART is a date")
        return EventLength(whole + exact or DAY)
    if at_end is None:
        return EventLength(DAY if start.is_date else 0)
    return _between(at_end, start, values.moment(at_end))


def _between(line: IcsLine, start: IcsMoment, end: IcsMoment) -> EventLength:
    """Return the length from a start to an end. Between times of one zone, it is what its clocks show."""
    if start.is_date != end.is_date:
        line.refuse("must be a date if DTSTART is one, and a time if that is one")
    is_nominal = start.zone is end.zone
    length = EventLength(end.wall - start.wall) if is_nominal else EventLength(0, end.epoch - start.epoch)
    if length.wall < 0 or length.exact < 0:
        line.refuse("must not be before DTSTART")
    if start.is_date and not length.wall:  # some programs name the last day, and not the one after it
        return EventLength(DAY)
    return length


class EventTimes:
    """The stretches of time of the events of a file.

    Args:
        last: the last date on which events recur.
    """

    def __init__(self, values: IcsValues, last: date, steps: ExpansionSteps) -> None:
        self._values = values
        self._last = last
        self._steps = steps
        self.is_cut: bool = False

    def spans(self, event: IcsEvent, without: frozenset[Key]) -> Iterator[Span]:
        """Yield stretches of time in the calendar's zone, as wall seconds.

        Args:
            without: the times that other events replace.

        Raises:
            InvalidInput: a line is wrong, or a time cannot be named in the calendar's zone.
        """
        excluded = without | self._excluded(event)
        starts = self._recurring(event)
        extra = [
            found
            for line in event.lines.every("RDATE")
            for text in line.value.split(",")
            if (found := self._extra(line, text, event)) is not None
        ]
        for wall, length in [*((wall, event.length) for wall in starts), *extra]:
            if wall + length.wall + length.exact < -_FEW_DAYS:
                continue  # before 1970
            if excluded and not excluded.isdisjoint(self._keys(event, wall)):
                continue
            low, high = self._span(event, wall, length)
            if high > max(low, 0):
                yield max(low, 0), high

    def key(self, event: IcsEvent, line: IcsLine, text: str) -> Key:
        """Read how EXDATE or RECURRENCE-ID names a time of an event."""
        moment = self._values.moment(line, text)
        if event.start.is_date or moment.is_date:
            return "day", ordinal_wall(_date_of(moment, event))
        return "at", moment.epoch

    def _excluded(self, event: IcsEvent) -> frozenset[Key]:
        return frozenset(
            self.key(event, line, text)
            for line in event.lines.every("EXDATE")
            for text in line.value.split(",")
            if text
        )

    def _keys(self, event: IcsEvent, wall: int) -> set[Key]:
        day: Key = ("day", wall - wall % DAY)
        return {day} if event.start.is_date else {day, ("at", epoch_of(event.zone, wall))}

    def _recurring(self, event: IcsEvent) -> list[int]:
        """Return when the times of an event begin, by its own clocks, without EXDATE and RDATE."""
        second = event.start.wall % DAY
        first = wall_date(event.start.wall)
        found = {event.start.wall}
        for rule in event.rules:
            until = self._until(rule, event)
            last = self._last if until is None else min(until, self._last)
            days = 0
            for day in recur(rule, first, last, self._steps):
                days += 1
                found.add(ordinal_wall(day) + second)
            goes_on = until is None or until > self._last
            self.is_cut |= goes_on and (rule.count is None or days < rule.count)
        return sorted(found)

    def _until(self, rule: Recurrence, event: IcsEvent) -> date | None:
        """Return the last date on which a rule may let an event recur."""
        if rule.until is None:
            return None
        line = rule.line
        bare = IcsLine(line.number, line.name, {}, rule.until)
        last = self._values.last
        if rule.until[:4].isascii() and rule.until[:8].isdigit() and rule.until[:8] > f"{last:%Y%m%d}":
            return last + timedelta(days=1)  # far away: how some programs write for ever
        moment = self._values.moment(bare)
        if event.start.is_date or moment.is_date:
            return _date_of(moment, event)
        is_own = not rule.until.endswith("Z")  # without a zone, it is a time of the event's own
        wall = moment.wall if is_own else wall_at_epoch(event.zone, moment.epoch)
        day = wall_date(wall)
        return day if wall % DAY >= event.start.wall % DAY else day - timedelta(days=1)

    def _extra(self, line: IcsLine, text: str, event: IcsEvent) -> tuple[int, EventLength] | None:
        """Read a time of RDATE, with its length."""
        if not text:
            return None
        first, is_period, second = text.partition("/")
        moment = self._values.moment(line, first)
        if moment.is_date and not event.start.is_date:
            line.refuse("must be a time, as DTSTART is one")
        length = event.length
        if is_period:
            if event.start.is_date:
                line.refuse("must be a date, as DTSTART is one")
            if second.startswith(("P", "+P")):
                length = EventLength(*self._values.duration(line, second))
            else:
                length = _between(line, moment, self._values.moment(line, second))
        if event.start.is_date:
            return ordinal_wall(_date_of(moment, event)), length
        if moment.zone is event.zone:
            return moment.wall, length
        return wall_at_epoch(event.zone, moment.epoch), length

    def _span(self, event: IcsEvent, wall: int, length: EventLength) -> Span:
        home = self._values.home
        if event.start.is_date:
            return wall, wall + length.wall
        low = epoch_of(event.zone, wall)
        high = epoch_of(event.zone, wall + length.wall) + length.exact
        if event.zone is home:
            return wall, wall + length.wall if not length.exact else self._at_home(event, high)
        return self._at_home(event, low), self._at_home(event, high)

    def _at_home(self, event: IcsEvent, epoch: int) -> int:
        """Return what the clocks of the calendar's zone show at an instant."""
        home = self._values.home
        wall = wall_at_epoch(home, epoch)
        if epoch_at_wall(home, wall) != epoch:
            event.at_start.refuse(
                f"the event begins or ends in the hour of {wall_date(wall)} that the clocks of {home.key} "
                "show twice, at its second pass, which a calendar cannot name; give tz another zone, like UTC"
            )
        return wall


def _date_of(moment: IcsMoment, event: IcsEvent) -> date:
    """Return the date that a moment is, for an event. Midnight in UTC is often written for the date alone."""
    if moment.is_date or moment.zone is event.zone:
        return wall_date(moment.wall)
    if event.start.is_date and moment.zone.key == "UTC" and not moment.wall % DAY:
        return wall_date(moment.wall)
    return wall_date(wall_at_epoch(event.zone, moment.epoch))
