"""Where a zone's offset changes, found from zoneinfo once and kept: stepping must not ask it again and again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mainspring.core.cron.fields import CronError

_DAY = 86_400
_CHUNK = 400 * _DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NAIVE = datetime(1970, 1, 1)  # noqa: DTZ001 - arithmetic only
MIN_EPOCH = -62_135_596_800 + 2 * _CHUNK
MAX_EPOCH = 253_402_300_800 - 2 * _CHUNK
"""Half-open bounds of the instants that are looked at: about the years 3 to 9997."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time [start, end) with one offset, all in seconds.

    Attributes:
        before: the offset just before `start` (the same where the segment is cut for other reasons).
        after: the offset from `end` on.
    """

    start: int
    end: int
    offset: int
    before: int
    after: int


class Zone:
    """The segments of one zone, loaded in chunks of 400 days as they are needed.

    Transitions less than a day apart would be taken for one; since 1970 no zone has had such.
    """

    def __init__(self, key: str, info: ZoneInfo) -> None:
        self.key = key
        self._info = info
        self._chunks: dict[int, tuple[Segment, ...]] = {}

    def segments(self, epoch: int) -> tuple[Segment, ...]:
        """Return the segments of the chunk that holds an instant, in order."""
        number = epoch // _CHUNK
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = self._load(number * _CHUNK)
        return chunk

    def _load(self, start: int) -> tuple[Segment, ...]:
        edges = [start]
        offsets = [self._offset(start)]
        for probe in range(start + _DAY, start + _CHUNK + 1, _DAY):
            offset = self._offset(probe)
            if offset != offsets[-1]:
                edges.append(self._transition(probe - _DAY, probe))
                offsets.append(offset)
        end = start + _CHUNK
        if edges[-1] == end:  # a change right at the chunk's end belongs to the next one
            edges.pop()
            after = offsets.pop()
        else:
            after = self._offset(end)
        before = self._offset(start - 1)
        edges.append(end)
        around = [before, *offsets, after]
        return tuple(
            Segment(edges[index], edges[index + 1], offset, around[index], around[index + 2])
            for index, offset in enumerate(offsets)
        )

    def _transition(self, low: int, high: int) -> int:
        """Return the first second in (low, high] that has the offset of `high`."""
        target = self._offset(high)
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(middle) == target:
                high = middle
            else:
                low = middle
        return high

    def _offset(self, epoch: int) -> int:
        local = (_EPOCH + timedelta(seconds=epoch)).astimezone(self._info)
        # The difference of wall times, because zones of old have offsets that are not whole minutes.
        return int((local.replace(tzinfo=None) - _EPOCH_NAIVE).total_seconds()) - epoch


@lru_cache(maxsize=1024)
def load_zone(key: str, expression: str = "") -> Zone:
    """Return the zone of an IANA name.

    Raises:
        CronError: there is no such zone.
    """
    try:
        return Zone(key, ZoneInfo(key))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"{key[:80]!r} is not a time zone known here; write an IANA name like Europe/Berlin"
        raise CronError("tz", expression, message) from error


def tzdata_version() -> str:
    """Return the version of the tzdata package that stands in where the system has no zones."""
    try:
        return version("tzdata")
    except PackageNotFoundError:
        return "system"
