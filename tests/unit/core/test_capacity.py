"""How busy workers will be, how long a backlog takes, and how long the disk lasts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.alert_rules import DEFAULT_RULES
from mainspring.core.capacity import (
    AHEAD,
    DAY,
    FEWEST_ROWS,
    HOUR,
    Demand,
    SlotPool,
    count_ends,
    expect,
    find_shortages,
    forecast_disk,
    forecast_queues,
    share_slots,
    sum_to_queues,
)
from mainspring.core.storage import Disk, Storage
from mainspring.core.usage import Times, Usage, UsageLine

NOW = datetime(2026, 11, 27, 12, 30, tzinfo=UTC)
THIS_HOUR = NOW.replace(minute=0)
FORECAST = DEFAULT_RULES["forecast"]
GB = 10**9
queues = st.sampled_from(["a", "b", "c"])
pools = st.lists(st.builds(SlotPool, st.integers(1, 100), st.frozensets(queues)), max_size=5)
loads = st.dictionaries(queues, st.floats(0.1, 100), min_size=1)


def line(ago: timedelta, arrivals: int, *, queue: str = "mail", seconds: float = 2.0) -> UsageLine:
    usage = Usage(submitted=arrivals, succeeded=arrivals, durations=Times(total=arrivals * seconds))
    return UsageLine(at=THIS_HOUR - ago, tenant="shop", queue=queue, usage=usage)


@given(loads, pools)
def test_no_slot_is_shared_out_twice_and_none_is_lost(
    wanted: dict[str, float], there: list[SlotPool]
) -> None:
    shared = share_slots(wanted, there)
    served = sum(pool.slots for pool in there if any(pool.serves(queue) for queue in wanted))
    assert sum(shared.values()) == pytest.approx(served)
    for queue, slots in shared.items():
        assert slots <= sum(pool.slots for pool in there if pool.serves(queue)) + 1e-9


@given(loads, st.integers(1, 100))
def test_queues_that_share_all_workers_are_equally_busy(wanted: dict[str, float], slots: int) -> None:
    shared = share_slots(wanted, [SlotPool(slots)])
    busy = {round(load / shared[queue], 6) for queue, load in wanted.items()}
    assert len(busy) == 1


def test_what_arrives_is_the_mean_of_the_same_hours_of_the_weeks() -> None:
    week = timedelta(weeks=1)
    lines = [line(2 * week, 100), line(week, 300), line(week - HOUR, 50), line(HOUR, 7)]
    demand = expect(lines, NOW)["mail"]
    assert demand.by_hour[:3] == (200.0, 25.0, 0.0)
    assert demand.seconds == 2.0


def test_in_the_first_week_the_days_before_count_and_on_the_first_day_all_hours() -> None:
    assert expect([line(2 * DAY, 100), line(DAY, 50)], NOW)["mail"].by_hour[0] == 75.0
    assert expect([line(2 * HOUR, 100), line(HOUR, 50)], NOW)["mail"].by_hour == (*(75.0,) * 22, 100.0, 50.0)
    assert expect([line(timedelta(0), 100)], NOW) == {}  # this hour is not over
    assert expect([], NOW) == {}


@given(st.dictionaries(st.integers(1, 672), st.integers(0, 1000), min_size=1, max_size=30))
def test_no_more_is_expected_than_there_ever_was(past: dict[int, int]) -> None:
    demand = expect(
        [line(hours * HOUR, arrivals) for hours, arrivals in sorted(past.items(), reverse=True)], NOW
    )["mail"]
    assert 0 <= min(demand.by_hour) <= max(demand.by_hour) <= max(past.values())


@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.integers(0, 9), queues, st.sampled_from(["shop", "bank"])),
        max_size=20,
    )
)
def test_hours_by_queue_say_as_much_as_those_of_all_tenants(
    past: list[tuple[int, int, str, str]],
) -> None:
    lines = [
        replace(line(ago * HOUR, runs, queue=queue), tenant=tenant)
        for ago, runs, queue, tenant in sorted(past, reverse=True)
    ]
    summed = sum_to_queues(lines)
    assert len(summed) == len({(one.at, one.queue) for one in lines})
    assert all(one.usage.lags == Times() and not one.usage.durations.count for one in summed)
    assert expect(summed, NOW) == expect(lines, NOW)
    assert count_ends(summed, NOW) == count_ends(lines, NOW)


def test_a_busy_hour_to_come_is_found() -> None:
    by_hour = (1800.0, 3600.0 * 5, *(0.0,) * (AHEAD - 2))
    [found] = forecast_queues(
        {"mail": Demand(by_hour, 2.0)}, [SlotPool(10), SlotPool(90, frozenset({"x"}))], {"mail": 90}, NOW
    )
    assert (found.slots, found.utilisation, found.peak) == (10, 0.1, 1.0)
    assert found.peak_at == THIS_HOUR + HOUR
    assert found.drain == timedelta(seconds=20)  # nine slots are free
    assert found.slots_needed == 13
    [fact] = find_shortages(FORECAST, [found], None)
    assert fact.summary == (
        "100 % of the slots of queue mail will be taken from Fri 13:00 UTC on; 13 slots would keep it at 80 %"
    )


def test_a_queue_that_gets_nothing_now_has_its_workers_still() -> None:
    demands = {"mail": Demand((3600.0,) * AHEAD, 2.0), "night": Demand((0.0, 1800.0, *(0.0,) * 22), 2.0)}
    pools = [SlotPool(4)]
    _, night = forecast_queues(demands, pools, {"night": 3}, NOW)
    assert night.slots == pytest.approx(4 / 3)  # what it has when it is busiest
    assert night.utilisation == 0.0
    assert (night.peak, night.drain) == (0.75, timedelta(seconds=4.5))
    [alone] = forecast_queues({"night": Demand((0.0,) * AHEAD, 2.0)}, [], {}, NOW)
    assert (alone.slots, alone.utilisation) == (0, None)


def test_a_backlog_that_grows_is_never_drained() -> None:
    demand = {"mail": Demand((3600.0,) * AHEAD, 2.0)}
    [found] = forecast_queues(demand, [SlotPool(2)], {"mail": 1}, NOW)
    assert (found.utilisation, found.drain) == (1.0, None)
    [none] = forecast_queues(demand, [], {}, NOW)
    assert (none.utilisation, none.peak, none.drain) == (None, None, timedelta(0))
    assert not list(find_shortages(FORECAST, [none], None))


def test_runs_a_day_are_counted_since_there_are_figures() -> None:
    assert count_ends([line(DAY, 490), line(HOUR, 490)], NOW) == pytest.approx(980 / (24.5 / 24))
    assert count_ends([line(8 * DAY, 1000)], NOW) == 0
    assert count_ends([], NOW) == 0


def storage(free: int, *, history: int = 3 * GB, size: int = 100 * GB) -> Storage:
    return Storage(size=history, history=history, disk=Disk("/data", free, size))


def test_a_hundred_million_runs_a_day_get_fewer_days() -> None:
    # 300 bytes each: 30 GB a day, 900 GB in 30 days.
    found = forecast_disk(storage(100 * GB), runs_per_day=1e8, rows=10**7, keep=30 * DAY)
    assert (found.is_measured, found.bytes_per_run, found.growth) == (True, 300, 30 * GB)
    assert found.full_in == pytest.approx(DAY * 10 / 3, abs=timedelta(seconds=1))
    assert found.advised_days == 3
    [fact] = find_shortages(FORECAST, [], found)
    assert (fact.subject, fact.tenant) == ("disk", "*")
    assert "3 days of history would fit" in fact.summary


def test_a_history_that_fits_is_never_full() -> None:
    found = forecast_disk(storage(50 * GB), runs_per_day=10**6, rows=10**7, keep=30 * DAY)
    assert (found.full_in, found.advised_days) == (None, None)
    full = forecast_disk(storage(0, history=10 * GB), runs_per_day=10**6, rows=10**7, keep=10 * DAY)
    assert (full.full_in, full.growth) == (None, 0)  # as many days are kept as should be
    assert not list(find_shortages(FORECAST, [], found))


def test_what_cannot_be_known_is_said() -> None:
    remote = Storage(size=5, history=5, rows=1)
    found = forecast_disk(remote, runs_per_day=1e9, rows=FEWEST_ROWS - 1, keep=30 * DAY)
    assert (found.free, found.full_in, found.advised_days, found.is_measured) == (None, None, None, False)
    assert found.growth > 0


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.floats(0, 1e9),
    st.integers(0, 10**9),
    st.integers(1, 400),
)
def test_advice_is_never_more_than_is_kept(
    free: int, history: int, runs: float, rows: int, days: int
) -> None:
    found = forecast_disk(storage(free, history=history), runs_per_day=runs, rows=rows, keep=days * DAY)
    assert (found.full_in is None) == (found.advised_days is None)
    if found.full_in is not None and found.advised_days is not None:
        assert timedelta(0) <= found.full_in <= days * DAY
        assert 1 <= found.advised_days <= days
