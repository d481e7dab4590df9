"""The zone tables against zoneinfo itself."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from mainspring.core.cron import zones
from mainspring.core.cron.zones import MAX_EPOCH, MIN_EPOCH, Zone, load_zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR = 31_556_952
ODD = ["Africa/Casablanca", "Asia/Gaza", "America/Noronha", "Antarctica/Troll", "Antarctica/Casey", "Africa/Monrovia",
       "Australia/Lord_Howe", "Pacific/Apia", "Europe/Dublin", "America/New_York", "Africa/Cairo", "UTC"]  # fmt: skip


def offset(info: ZoneInfo, epoch: int) -> int:
    found = (EPOCH + timedelta(seconds=epoch)).astimezone(info).utcoffset()
    assert found is not None
    return int(found.total_seconds())


@pytest.mark.parametrize("key", ODD)
def test_segments_hold_the_offset_of_every_day_to_2200(key: str) -> None:
    zone, info = load_zone(key), ZoneInfo(key)
    for epoch in range(-10 * YEAR, 230 * YEAR, 86_400 * 3 + 3_607):
        segment = zone.segment(epoch)
        assert segment.start <= epoch < segment.end
        assert segment.offset == offset(info, epoch)


@pytest.mark.parametrize("key", ODD)
def test_segments_join_and_know_what_lies_before(key: str) -> None:
    zone, info, epoch = load_zone(key), ZoneInfo(key), 0
    while epoch < 100 * YEAR:
        segment = zone.segment(epoch)
        assert segment.before == offset(info, segment.start - 1)
        assert segment.offset == offset(info, segment.start) == offset(info, segment.end - 1)
        assert zone.segment(segment.end).start == segment.end
        epoch = segment.end


def test_segments_of_every_zone_hold_at_random_instants() -> None:
    source = random.Random(7)
    for key in sorted(available_timezones() - {"localtime", "Factory"}):
        zone, info = load_zone(key), ZoneInfo(key)
        for _ in range(3):
            epoch = source.randrange(0, 200 * YEAR)
            segment = zone.segment(epoch)
            assert segment.offset == offset(info, epoch), key
            assert offset(info, segment.start - 1) == segment.before, key


def test_overlap_across_the_edge_of_a_chunk_is_still_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """New York 2026-11-01 06:00Z repeats an hour; put the edge half an hour into it."""
    change = int(datetime(2026, 11, 1, 6, tzinfo=UTC).timestamp())
    chunk = (change + 1800) // 50
    monkeypatch.setattr(zones, "_CHUNK", chunk)
    zone = Zone("America/New_York", ZoneInfo("America/New_York"))
    edge = (change + 1800) // chunk * chunk
    assert change < edge <= change + 1800
    one, two = zone.segment(edge - 1), zone.segment(edge)
    assert (one.start, one.end, two.start, two.before) == (change, edge, edge, -5 * 3600)
    assert one.shown_until == two.shown_until == change - 4 * 3600
    assert zone.segment(change - 1).shown_from == change - 5 * 3600


def test_overlap_just_behind_the_edge_of_a_chunk_is_known_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The edge lies half an hour before the change, and its wall times will be shown again."""
    change = int(datetime(2026, 11, 1, 6, tzinfo=UTC).timestamp())
    edge = change - 1800
    probe = max(length for length in range(1800, 4 * 86_400, 1800) if edge % length == 0)
    monkeypatch.setattr(zones, "_PROBE", probe)
    monkeypatch.setattr(zones, "_CHUNK", probe)
    zone = Zone("America/New_York", ZoneInfo("America/New_York"))
    one, two = zone.segment(edge - 1), zone.segment(edge)
    assert (one.end, two.start, two.end) == (edge, edge, change)
    assert one.shown_from == two.shown_from == change - 5 * 3600


def test_segments_reach_the_bounds() -> None:
    for key in ODD:
        assert load_zone(key).segment(MIN_EPOCH).start == MIN_EPOCH
        assert load_zone(key).segment(MAX_EPOCH - 1).end == MAX_EPOCH
