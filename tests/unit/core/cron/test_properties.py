"""What holds for every expression, zone, rule and instant (rule V 8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.cron import Cron
from tests.unit.core.cron.expressions import DSTS, expressions

ZONES = (
    "UTC",
    "America/New_York",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Africa/Casablanca",
    "Pacific/Apia",
)
LOW, HIGH = 0, 7_258_118_400  # 1970 to 2200
crons = st.builds(Cron, expressions(), st.sampled_from(ZONES), st.sampled_from(DSTS))
instants = st.integers(LOW, HIGH)


@settings(max_examples=200, deadline=None)
@given(crons, instants)
def test_next_and_previous_are_strict_and_mirror_each_other(cron: Cron, epoch: int) -> None:
    after = cron.next_epoch(epoch)
    before = cron.previous_epoch(epoch)
    assert after is not None
    assert before is not None
    assert before < epoch < after
    assert cron.next_epoch(before) in {epoch, after}
    assert cron.previous_epoch(after) in {epoch, before}


@settings(max_examples=150, deadline=None)
@given(crons, instants)
def test_walk_there_and_back_meets_the_same_fires(cron: Cron, epoch: int) -> None:
    fires, at = [], epoch
    for _ in range(12):
        at = cron.next_epoch(at) or 0
        fires.append(at)
    assert fires == sorted(set(fires))
    back, at = [], fires[-1] + 1
    for _ in range(12):
        at = cron.previous_epoch(at) or 0
        back.append(at)
    assert back[::-1] == fires


@settings(max_examples=150, deadline=None)
@given(crons, instants, st.floats(0, 1, exclude_max=True))
def test_next_is_the_same_from_every_instant_between_two_fires(cron: Cron, epoch: int, part: float) -> None:
    first = cron.next_epoch(epoch)
    assert first is not None
    second = cron.next_epoch(first)
    assert second is not None
    between = first + int((second - first) * part)
    assert cron.next_epoch(between) == second
    assert cron.previous_epoch(between + 1) == first


@settings(max_examples=100, deadline=None)
@given(crons, st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)))  # noqa: DTZ001 - made aware below
def test_instants_and_epochs_agree(cron: Cron, naive: datetime) -> None:
    instant = naive.replace(tzinfo=UTC)
    floor = int((instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1))
    found = cron.next_after(instant)
    assert found is not None
    assert found > instant
    assert found.timestamp() == cron.next_epoch(floor)


@settings(max_examples=100, deadline=None)
@given(crons)
def test_cron_can_be_said_in_words(cron: Cron) -> None:
    assert cron.explain()
    assert cron.explain().isprintable()
