"""The node that owns shard 0 counts, and who asks is told how old the count is."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from mainspring.core import census
from mainspring.core.attention import LATE
from mainspring.core.states import RunState
from mainspring.engine.scheduling.census import PERIOD, SETTLING, SHARE
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import TookTooLong
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench


async def submit_one(bench: Bench) -> None:
    jobs = await bench.runtime.client.jobs.find_all(TENANT, ["job"])
    job_id = jobs[0].id if jobs else await bench.add()
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))


async def take(bench: Bench) -> float:
    return await bench.runtime.services["census"].tick(bench.runtime.clock.now())


async def slow_down(bench: Bench, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a count of all runs take this long."""
    count_all_runs = bench.runtime.store.count_all_runs

    async def count_slowly(*, overdue_before: datetime) -> object:
        bench.runtime.clock.advance(seconds)
        return await count_all_runs(overdue_before=overdue_before)

    monkeypatch.setattr(bench.runtime.store, "count_all_runs", count_slowly)


async def test_owner_of_shard_0_counts_every_fifteen_seconds(bench: Bench) -> None:
    await submit_one(bench)
    assert await take(bench) == PERIOD
    census = await bench.runtime.store.read_census()
    assert census is not None
    assert census.taken_at == bench.runtime.clock.now()
    assert census.of_tenant(TENANT) == {RunState.PENDING: 1}
    assert census.of_tenant("nobody") == {}


async def test_no_other_node_counts(bench: Bench) -> None:
    epochs = bench.runtime.ownership.epochs
    bench.runtime.ownership.update({shard: epoch for shard, epoch in epochs.items() if shard})
    assert await take(bench) == PERIOD
    assert await bench.runtime.store.read_census() is None


async def test_node_that_lost_shard_0_learns_it_from_its_count(bench: Bench) -> None:
    store = bench.runtime.store
    epochs = {shard.shard: shard.epoch for shard in await store.read_shards()}
    await store.take_shards("other", epochs, now=bench.runtime.clock.now())
    await take(bench)
    assert await store.read_census() is None
    assert 0 not in bench.runtime.ownership.epochs
    assert 1 in bench.runtime.ownership.epochs


async def test_count_that_takes_long_has_a_hundredth_of_the_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await slow_down(bench, monkeypatch, 2)
    assert await take(bench) == 200


async def test_count_that_is_stopped_leaves_the_census_as_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await take(bench)
    census = await bench.runtime.store.read_census()
    assert census is not None

    async def refuse(**_: object) -> object:
        raise TookTooLong("stopped")

    monkeypatch.setattr(bench.runtime.store, "count_all_runs", refuse)
    assert await take(bench) == PERIOD * SHARE
    assert await bench.runtime.store.read_census() == census


async def test_overdue_clocks_and_the_age_of_the_census_are_measured_by_the_owner_of_shard_0(
    bench: Bench,
) -> None:
    clock = bench.runtime.clock
    assert "clocks_overdue" not in bench.runtime.telemetry.figures()
    await bench.add(cron="* * * * *")
    await take(bench)
    assert bench.runtime.telemetry.figures()["clocks_overdue"] == 0
    clock.advance(60 + LATE.total_seconds())  # after the fire, whatever the second of the minute was
    clock.advance(7)
    await take(bench)
    clock.advance(5)
    found = bench.runtime.telemetry.figures()
    assert (found["clocks_overdue"], found["census_age_seconds"]) == (1, 5)
    await bench.runtime.tick("planner")
    await take(bench)
    assert bench.runtime.telemetry.figures()["clocks_overdue"] == 0
    bench.runtime.ownership.update({})
    assert not {"clocks_overdue", "census_age_seconds"} & bench.runtime.telemetry.figures().keys()


async def test_only_what_can_no_longer_change_is_settled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = []

    async def settle_ends(*, before: object, epochs: object) -> bool:
        settled.append((before, epochs))
        return len(settled) < 3

    monkeypatch.setattr(bench.runtime.store, "settle_ends", settle_ends)
    await take(bench)
    owned = {0: bench.runtime.ownership.epochs[0]}
    assert settled == [(bench.runtime.clock.now() - SETTLING, owned)] * 3


async def test_counts_are_of_now_where_counting_is_quick(bench: Bench) -> None:
    await take(bench)
    await submit_one(bench)
    counts = await bench.runtime.client.runs.counts(TENANT)
    assert (counts.by_state, counts.age) == ({RunState.PENDING: 1}, timedelta(0))


async def test_few_runs_are_counted_anew_although_the_census_met_with_a_pause(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await slow_down(bench, monkeypatch, 0.03)
    await take(bench)
    await submit_one(bench)
    counts = await bench.runtime.client.runs.counts(TENANT)
    assert (counts.by_state, counts.age) == ({RunState.PENDING: 1}, timedelta(0))


async def test_counts_are_those_of_the_census_where_counting_takes_long(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(census, "FEW", 0)
    await submit_one(bench)
    await slow_down(bench, monkeypatch, 0.03)
    await take(bench)
    await submit_one(bench)
    bench.runtime.clock.advance(7)
    counts = await bench.runtime.client.runs.counts(TENANT)
    assert counts.by_state == {RunState.PENDING: 1}
    assert counts.age == timedelta(seconds=7.03)


async def test_count_that_is_stopped_at_its_limit_gives_way_to_the_census(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit_one(bench)
    await take(bench)

    async def refuse(_: str) -> dict[RunState, int]:
        raise TookTooLong("stopped")

    monkeypatch.setattr(bench.runtime.store, "count_runs", refuse)
    bench.runtime.clock.advance(3)
    counts = await bench.runtime.client.runs.counts(TENANT)
    assert (counts.by_state, counts.age) == ({RunState.PENDING: 1}, timedelta(seconds=3))


async def test_without_a_census_a_count_that_is_stopped_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: str) -> dict[RunState, int]:
        raise TookTooLong("stopped")

    monkeypatch.setattr(bench.runtime.store, "count_runs", refuse)
    with pytest.raises(TookTooLong):
        await bench.runtime.client.runs.counts(TENANT)
