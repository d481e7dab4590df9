"""Finds where a zone's offset changes. It asks zoneinfo once and keeps the answer, so that stepping stays fast."""

from __future__ import annotations

import re
import zoneinfo
from bisect import bisect_right
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from mainspring.core.cron.fields import CronError
from mainspring.core.cron.zone_names import near_zone
from mainspring.core.values import value

_DAY = 86_400
_PROBE = 4 * _DAY
"""Offsets are compared this far apart. Since 1970 no two changes of a zone lie closer than 6.9 days (tzdata 2026f)."""
_CHUNK = 100 * _PROBE
MIN_EPOCH = -1790 * _CHUNK
MAX_EPOCH = 7328 * _CHUNK
"""Half-open bounds of the instants that are searched: whole chunks, from the year 9 to 9995."""
_FAR = 1 << 60

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*")
_LONGEST_KEY = 64
_NO_ZONES = frozenset({"localtime", "posixrules"})
"""Files beside the zones that differ from machine to machine."""
_NO_FOLDERS = ("right/", "posix/")
"""Copies of the zones; those below `right` count leap seconds, which instants in UTC do not."""


@value()
class Segment:
    """A stretch of time [start, end) with one offset, all in seconds.

    Attributes:
        before: the offset just before `start` (the same if the segment begins there for another reason).
        shown_until: wall seconds before this one were already shown in an earlier segment.
        shown_from: wall seconds from this one on will be shown again in a later segment.
    """

    start: int
    end: int
    offset: int
    before: int
    shown_until: int
    shown_from: int


class Zone:
    """The segments of one zone, loaded in chunks of 400 days on first use.

    Args:
        info: where offsets come from.
    """

    __slots__ = ("_chunks", "_epoch", "_info", "key")

    def __init__(self, key: str, info: zoneinfo.ZoneInfo) -> None:
        self.key: str = key
        self._info = info
        self._epoch = datetime(1970, 1, 1, tzinfo=info)
        self._chunks: dict[int, tuple[list[int], list[Segment]]] = {}

    def segment(self, epoch: int) -> Segment:
        """Return the segment that holds an instant within the bounds."""
        number = epoch // _CHUNK
        chunk = self._chunks.get(number)
        if chunk is None:
            segments = self._load(number * _CHUNK)
            chunk = self._chunks[number] = ([segment.start for segment in segments], segments)
        starts, segments = chunk
        return segments[bisect_right(starts, epoch) - 1]

    def _load(self, start: int) -> list[Segment]:
        """Find the segments of a chunk. It also reads one probe on each side, because an overlap may cross the edge."""
        end = start + _CHUNK
        edges, offsets = self._changes(start - _PROBE, end + _PROBE)
        walls = [
            (low + offset, high + offset)
            for (low, high), offset in zip(pairwise(edges), offsets, strict=True)
        ]
        segments = []
        for index, offset in enumerate(offsets):
            low, high = max(edges[index], start), min(edges[index + 1], end)
            if low < high:
                is_change = index > 0 and edges[index] == low
                before = offsets[index - 1] if is_change else offset
                shown_until = max((wall[1] for wall in walls[:index]), default=-_FAR)
                shown_from = min((wall[0] for wall in walls[index + 1 :]), default=_FAR)
                segments.append(Segment(low, high, offset, before, shown_until, shown_from))
        return segments

    def _changes(self, low: int, high: int) -> tuple[list[int], list[int]]:
        """Return the edges of the segments within [low, high], including both ends, and each segment's offset."""
        edges, offsets = [low], [self._offset(low)]
        for probe in range(low + _PROBE, high + 1, _PROBE):
            offset = self._offset(probe)
            if offset != offsets[-1]:
                edges.append(self._change(probe - _PROBE, probe, offset))
                offsets.append(offset)
        return [*edges, high + 1], offsets

    def _change(self, low: int, high: int, offset: int) -> int:
        """Return the first second in (low, high] from which the offset is the one given."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(middle) == offset:
                high = middle
            else:
                low = middle
        return high

    def _offset(self, epoch: int) -> int:
        offset = self._info.fromutc(self._epoch + timedelta(seconds=epoch)).utcoffset()
        assert offset is not None  # a ZoneInfo has an offset for every instant
        return offset.days * _DAY + offset.seconds  # whole seconds; historic offsets had odd ones


@lru_cache(maxsize=1024)
def load_zone(key: str) -> Zone:
    """Return the zone of an IANA name.

    Raises:
        CronError: there is no such zone. The error's `expression` is empty, because none is known here.
    """
    is_plain = len(key) <= _LONGEST_KEY and _KEY.fullmatch(key) and not key.startswith(_NO_FOLDERS)
    if is_plain and key not in _NO_ZONES:
        try:
            return Zone(key, zoneinfo.ZoneInfo(key))
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass  # a folder, a file that is no zone, or nothing at all
    near = near_zone(key[:80])
    remedy = "write an IANA name like Europe/Berlin" if near is None else f"did you mean {near}?"
    raise CronError("tz", "", f"{key[:80]!r} is not a time zone known here; {remedy}")
