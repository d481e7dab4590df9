"""Reads dates, times, zones and lengths."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date, datetime, timedelta

from icalendar.prop import vDuration
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from mainspring.core.calendars.sets import ordinal_wall
from mainspring.core.calendars.walls import DAY, epoch_at_wall, wall_at_epoch
from mainspring.core.cron import CronError
from mainspring.core.cron.zones import Zone, load_zone
from mainspring.core.values import value
from mainspring.importers.ics.lines import IcsLine

_MOMENT = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z?))?", re.ASCII)
_UTC = "UTC"
_FIRST_YEAR = 1600
"""Some programs let birthdays begin in 1604."""
_LONGEST = timedelta(days=36_600)
_MOST_ZONES = 20
"""Zones of one file: each takes time to load, for each year in which it is used."""


@value()
class IcsMoment:
    """A date, or a time in a zone.

    Attributes:
        wall: wall seconds in `zone`.
        zone: of a date and of a time without a zone, the calendar's own.
    """

    wall: int
    is_date: bool
    zone: Zone

    @property
    def epoch(self) -> int:
        """The instant, as RFC 5545 says for times that a clock change skips: as if it had not come yet."""
        return epoch_of(self.zone, self.wall)


def epoch_of(zone: Zone, wall: int) -> int:
    """Return the instant at which a zone's clocks first show a wall time, or would without the change of a gap."""
    epoch = epoch_at_wall(zone, wall)
    if wall_at_epoch(zone, epoch) == wall:
        return epoch
    return wall - zone.segment(epoch).before


class IcsValues:
    """Reads the values of one file.

    Attributes:
        home: the calendar's zone, in which dates begin and times without a zone are told.
        last: the last date that an event may have.
    """

    __slots__ = ("_zones", "home", "last")

    def __init__(self, home: Zone, last: date) -> None:
        self.home: Zone = home
        self.last: date = last
        self._zones: dict[str, Zone | None] = {}

    def moment(self, line: IcsLine, text: str | None = None) -> IcsMoment:
        """Read a date or a time.

        Args:
            text: the part of the line's value that is meant; None is all of it.
        """
        text = line.value if text is None else text
        match = _MOMENT.fullmatch(text)
        try:
            if match is None:
                raise ValueError
            at = datetime.strptime(match[1] + (match[2] or "000000"), "%Y%m%d%H%M%S")  # noqa: DTZ007 - a wall time
        except ValueError:
            right = "a date like 20261224 or a time like 20261224T220000"
            line.refuse(f"must be {right}, not {text[:60]!r}")
        if at.year < _FIRST_YEAR or at.date() > self.last:
            line.refuse(f"must lie between {_FIRST_YEAR}-01-01 and {self.last}, a hundred years from now")
        wall = ordinal_wall(at.date()) + at.hour * 3600 + at.minute * 60 + at.second
        if match[2] is None:
            return IcsMoment(wall, is_date=True, zone=self.home)
        zone = load_zone(_UTC) if match[3] else self._zone(line)
        return IcsMoment(wall, is_date=False, zone=zone)

    def duration(self, line: IcsLine, text: str) -> tuple[int, int]:
        """Read a length: the seconds of its days, which are those of clocks on the wall, and exact seconds besides."""
        dates, _, times = text.upper().partition("T")
        try:
            whole: timedelta = vDuration.from_ical(dates)  # type: ignore[no-untyped-call]  # it has no types
            rest: timedelta = vDuration.from_ical(f"PT{times}")  # type: ignore[no-untyped-call]
            if len(dates.lstrip("+-")) < 2 and not times:
                raise ValueError
        except ValueError:
            line.refuse(f"must be a length like P1D or PT8H, not {text[:60]!r}")
        if dates.startswith("-") or whole + rest > _LONGEST:
            line.refuse(f"must be from 0 to {_LONGEST.days:,} days")
        return whole.days * DAY, rest.days * DAY + rest.seconds

    def _zone(self, line: IcsLine) -> Zone:
        name = line.params.get("TZID")
        if name is None:
            return self.home
        if name not in self._zones:
            if len(self._zones) >= _MOST_ZONES:
                line.refuse(f"the file names more than {_MOST_ZONES} zones; split it")
            self._zones[name] = find_zone(name)
        zone = self._zones[name]
        if zone is None:
            line.refuse(
                f"the zone {name[:80]!r} is not known; write an IANA name like Europe/Berlin into TZID"
            )
        return zone


def find_zone(name: str) -> Zone | None:
    """Return the zone of an IANA name, also behind a path of the program that wrote it, or of Windows' name for it."""
    parts = name.strip().split("/")
    tails = ["/".join(parts[-count:]) for count in (3, 2, 1)] if name.startswith("/") else [name]
    for tail in (*tails, WINDOWS_TO_OLSON.get(name.strip())):
        if tail is not None:
            with suppress(CronError):
                return load_zone(tail)
    return None
