"""Once a day the owner of shard 0 compares every job's owed fires with its records, and says what differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from mainspring.core.ids import JobId
from mainspring.core.ledger_check import EVERY, OVERLAP, LedgerCheck
from mainspring.core.model import Job, Run
from mainspring.core.triggers import UnknownTrigger
from mainspring.engine.common.ledger import LONGEST, SKEW, read_ledger
from mainspring.engine.scheduling.ledger_check import PERIOD
from mainspring.errors import TookTooLong
from tests.unit.engine.conftest import Bench

HOUR = timedelta(hours=1)


async def tick(bench: Bench) -> float:
    return await bench.runtime.services["ledger_checker"].tick(bench.runtime.clock.now())


async def check(bench: Bench) -> LedgerCheck:
    """Let a whole check be made, and return what came of it."""
    for _ in range(1000):
        if await tick(bench) == PERIOD:
            break
    found = await bench.runtime.store.read_ledger_check()
    assert found is not None
    return found


def lose(bench: Bench, monkeypatch: pytest.MonkeyPatch, is_lost: Callable[[Run], bool]) -> None:
    """Let the store have lost some runs."""
    list_runs = bench.runtime.store.list_runs

    async def list_others(*args: Any, **options: Any) -> list[Run]:
        return [run for run in await list_runs(*args, **options) if not is_lost(run)]

    monkeypatch.setattr(bench.runtime.store, "list_runs", list_others)


async def fire_some(bench: Bench, seconds: float = 60) -> None:
    """Let time pass without any service but the planner."""
    for _ in range(int(seconds / 10)):
        bench.runtime.clock.advance(10)
        await bench.runtime.plan()


async def test_all_jobs_are_compared_and_nothing_is_missing(bench: Bench) -> None:
    await bench.add(every="10s")
    await bench.add(name="half", every="20s", overlap="skip")
    await bench.add(name="never")
    await fire_some(bench)
    found = await check(bench)
    assert (found.jobs, found.expected, found.uneven, found.missing, found.surplus) == (3, 9, 0, 0, 0)
    assert found.without_work == 2  # the first run of `half` still waits
    assert found.is_even


async def test_a_lost_fire_is_named_and_logged(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await bench.add(every="10s")
    await bench.add(name="other", every="10s")
    await fire_some(bench)
    first = (await bench.runs(job_id))[1].fire_at
    lose(bench, monkeypatch, lambda run: run.job_id == job_id and run.fire_at == first)
    with capture_logs() as logs:
        found = await check(bench)
    [one] = found.examples
    assert (found.missing, found.uneven) == (1, 1)
    figures = bench.runtime.telemetry.figures()
    assert (figures["ledger_missing"], figures["ledger_surplus"]) == (1, 0)
    assert (one.name, one.job_id, one.missing, one.surplus, one.first_at) == ("job", job_id, 1, 0, first)
    [line] = [line for line in logs if line["event"] == "ledger_uneven"]
    assert (line["log_level"], line["job"], line["next_step"]) == ("error", "job", "mainspring ledger job")


async def test_a_check_is_made_once_a_day_and_goes_on_where_the_last_one_began(bench: Bench) -> None:
    await bench.add(every="1h")
    first = await check(bench)
    bench.runtime.clock.advance(EVERY.total_seconds() - 1)
    await bench.runtime.plan()
    assert await tick(bench) == 1
    assert await bench.runtime.store.read_ledger_check() == first
    bench.runtime.clock.advance(HOUR.total_seconds())
    second = await check(bench)
    assert second.began_at == bench.runtime.clock.now()
    assert second.since == first.began_at - OVERLAP


async def test_after_long_without_a_check_the_period_is_the_longest(bench: Bench) -> None:
    await bench.add()
    first = await check(bench)
    bench.runtime.clock.advance(30 * EVERY.total_seconds())
    second = await check(bench)
    assert second.since == bench.runtime.clock.now() - LONGEST
    assert second.began_at > first.began_at


async def test_the_next_owner_measures_what_the_last_check_found(bench: Bench) -> None:
    assert "ledger_missing" not in bench.runtime.telemetry.figures()
    await bench.add(every="1h")
    found = await check(bench)
    epochs = {0: bench.runtime.ownership.epochs[0]}
    assert await bench.runtime.store.put_ledger_check(replace(found, missing=3, surplus=2), epochs=epochs)
    await tick(bench)
    figures = bench.runtime.telemetry.figures()
    assert (figures["ledger_missing"], figures["ledger_surplus"]) == (3, 2)
    bench.runtime.ownership.update({})
    assert not {"ledger_missing", "ledger_surplus"} & bench.runtime.telemetry.figures().keys()


async def test_no_other_node_checks(bench: Bench) -> None:
    epochs = bench.runtime.ownership.epochs
    bench.runtime.ownership.update({shard: epoch for shard, epoch in epochs.items() if shard})
    for _ in range(3):
        assert await tick(bench) == PERIOD
    assert await bench.runtime.store.read_ledger_check() is None


async def test_who_loses_shard_0_on_the_way_stores_nothing_and_begins_anew(bench: Bench) -> None:
    await bench.add(every="10s")
    await fire_some(bench)
    await tick(bench)  # the first page is read
    store = bench.runtime.store
    epochs = {shard.shard: shard.epoch for shard in await store.read_shards()}
    await store.take_shards("other", epochs, now=bench.runtime.clock.now())
    for _ in range(5):
        await tick(bench)
    assert await store.read_ledger_check() is None
    assert 0 not in bench.runtime.ownership.epochs
    await bench.add(name="later", every="10s")
    bench.runtime.ownership.update({shard.shard: shard.epoch for shard in await store.read_shards()})
    assert (await check(bench)).jobs == 2


async def test_a_page_that_takes_too_long_is_read_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.add(every="10s")
    page_jobs = bench.runtime.store.page_jobs
    failures = [TookTooLong("a list took too long")]

    async def page_slowly(**options: Any) -> list[Job]:
        if failures:
            raise failures.pop()
        return await page_jobs(**options)

    monkeypatch.setattr(bench.runtime.store, "page_jobs", page_slowly)
    assert await tick(bench) == PERIOD
    assert await bench.runtime.store.read_ledger_check() is None
    assert (await check(bench)).jobs == 1


async def test_more_jobs_than_a_page_are_all_compared(bench: Bench) -> None:
    for number in range(205):
        await bench.add(name=f"job-{number}", every="10s" if number % 50 == 0 else "1d")
    await fire_some(bench, 20)
    found = await check(bench)
    assert (found.jobs, found.expected) == (205, 10)


async def test_runs_that_are_no_longer_kept_are_not_missed(bench: Bench) -> None:
    job_id: JobId = await bench.add(every="10s", overlap="skip")
    await fire_some(bench, 600)
    now, store = bench.runtime.clock.now(), bench.runtime.store
    kept = timedelta(seconds=200)
    await store.prune_history(before=now - kept, limit=1000)
    [job] = await store.get_jobs([job_id])
    assert job is not None
    ledger = await read_ledger(store, job, job.spec.trigger, now=now, kept=kept)
    assert ledger.balance.is_even
    assert ledger.from_at == now - kept + SKEW
    assert ledger.balance.expected == 15


async def test_a_store_without_jobs_is_not_called_checked(bench: Bench) -> None:
    while await tick(bench) != PERIOD:
        pass
    assert await bench.runtime.store.read_ledger_check() is None
    await bench.add(every="10s")
    await fire_some(bench)
    assert (await check(bench)).expected == 6


async def test_a_job_whose_trigger_is_unknown_here_is_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.add(every="10s")
    await bench.add(name="unknown", every="10s")
    await fire_some(bench)
    page_jobs = bench.runtime.store.page_jobs

    async def page_with_unknown(**options: Any) -> list[Job]:
        unknown = UnknownTrigger({"type": "step"})
        return [
            replace(job, spec=replace(job.spec, trigger=unknown)) if job.spec.name == "unknown" else job
            for job in await page_jobs(**options)
        ]

    monkeypatch.setattr(bench.runtime.store, "page_jobs", page_with_unknown)
    found = await check(bench)
    assert (found.jobs, found.expected, found.is_even) == (1, 6, True)


async def test_a_job_that_takes_too_long_is_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a check would call a job even that it never compared."""
    await bench.add(every="10s")
    await fire_some(bench)
    list_runs = bench.runtime.store.list_runs
    failures = [TookTooLong("a list took too long")]

    async def list_slowly(*args: Any, **options: Any) -> list[Run]:
        if failures:
            raise failures.pop()
        return await list_runs(*args, **options)

    monkeypatch.setattr(bench.runtime.store, "list_runs", list_slowly)
    assert await tick(bench) == 0  # the page is read
    assert await tick(bench) == PERIOD
    found = await check(bench)
    assert (found.jobs, found.expected) == (1, 6)
