"""What a process counts is stored once, whatever fails, and added up to hours by the owner of shard 0."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.usage import COUNTS, Usage, UsageLine, UsageStep, sum_usage
from mainspring.engine.common import usage
from mainspring.engine.scheduling import usage_hours
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import InvalidInput, StoreUnavailable
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MADE = Usage(fired=4)


async def submit(bench: Bench, job_id: Any, count: int) -> None:
    for _ in range(count):
        await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))


async def record(bench: Bench) -> None:
    await bench.runtime.services["usage_recorder"].tick(bench.runtime.clock.now())


async def add_up(bench: Bench) -> float:
    return await bench.runtime.services["usage_hours"].tick(bench.runtime.clock.now())


async def lines(bench: Bench, step: UsageStep = UsageStep.MINUTE) -> list[UsageLine]:
    now = bench.runtime.clock.now()
    return await bench.runtime.store.list_usage(step, since=now - 900 * DAY, until=now + DAY)


def counts(found: list[UsageLine]) -> dict[str, int]:
    total = sum_usage(found)
    return {name: getattr(total, name) for name in COUNTS if getattr(total, name)}


async def test_everything_that_becomes_of_runs_is_counted(bench: Bench) -> None:
    job_id = await bench.add(name="mail", queue="mail", retry={"max_retries": 1, "delay": "1s", "jitter": 0})
    bench.failures += [ValueError("no")] * 3
    await submit(bench, job_id, 2)
    worker = await bench.runtime.worker()
    await worker.work()
    await bench.runtime.advance(5)
    await worker.work()
    await record(bench)
    found = await lines(bench)
    assert {(line.tenant, line.queue) for line in found} == {(TENANT, "mail")}
    assert counts(found) == {"submitted": 2, "started": 2, "retried": 2, "succeeded": 1, "failed": 1}
    assert sum_usage(found).lags.count == 2
    assert sum_usage(found).durations.count == 4


async def test_what_is_stored_twice_counts_once(bench: Bench) -> None:
    job_id = await bench.add()
    for _ in range(3):
        await submit(bench, job_id, 1)
        await record(bench)
        await record(bench)
    assert counts(await lines(bench)) == {"submitted": 3}


async def test_a_clock_that_is_set_back_replaces_no_minute(bench: Bench) -> None:
    job_id, recorder = await bench.add(), bench.runtime.services["usage_recorder"]
    start = bench.runtime.clock.now()
    for seconds in (0, 60, 0):
        await submit(bench, job_id, 1)
        await recorder.tick(start + timedelta(seconds=seconds))
    assert counts(await lines(bench)) == {"submitted": 3}


async def test_an_idle_process_writes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await submit(bench, await bench.add(), 1)
    await record(bench)

    async def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing has happened")

    monkeypatch.setattr(bench.runtime.store, "write_usage", refuse)
    bench.runtime.clock.advance(60)
    await record(bench)


async def test_minutes_that_could_not_be_stored_are_stored_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, store = await bench.add(), bench.runtime.store
    write_usage = store.write_usage

    async def lose_the_answer(given: Any, *, process: str) -> None:
        await write_usage(given, process=process)
        raise StoreUnavailable("the answer was lost")

    async def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("away")

    for broken in (fail, lose_the_answer, fail):
        monkeypatch.setattr(store, "write_usage", broken)
        await submit(bench, job_id, 2)
        with pytest.raises(StoreUnavailable):
            await record(bench)
        bench.runtime.clock.advance(40)
    monkeypatch.setattr(store, "write_usage", write_usage)
    await record(bench)
    found = await lines(bench)
    assert counts(found) == {"submitted": 6}
    assert len(found) == 2  # 40 and 80 seconds later: in the first minute, and the second


async def test_the_oldest_minutes_are_given_up_when_they_are_too_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, store = await bench.add(), bench.runtime.store
    write_usage = store.write_usage

    async def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(usage, "MOST_LINES", 2)
    monkeypatch.setattr(store, "write_usage", fail)
    for count in (1, 2, 4):
        await submit(bench, job_id, count)
        with pytest.raises(StoreUnavailable):
            await record(bench)
        bench.runtime.clock.advance(60)
    monkeypatch.setattr(store, "write_usage", write_usage)
    await record(bench)
    assert counts(await lines(bench)) == {"submitted": 6}


async def test_hours_are_what_their_minutes_come_to(bench: Bench) -> None:
    job_id = await bench.add()
    for count in (1, 2, 4):
        await submit(bench, job_id, count)
        await record(bench)
        bench.runtime.clock.advance(1500)
    assert await add_up(bench) == usage_hours.PERIOD
    assert counts(await lines(bench, UsageStep.HOUR)) == {"submitted": 7}
    await submit(bench, job_id, 8)
    await record(bench)
    await add_up(bench)
    await add_up(bench)
    assert counts(await lines(bench, UsageStep.HOUR)) == {"submitted": 15}


async def test_minutes_that_come_late_count_in_their_hour(bench: Bench) -> None:
    job_id = await bench.add()
    await add_up(bench)
    late = [
        UsageLine(
            at=UsageStep.MINUTE.start_of(bench.runtime.clock.now()), tenant=TENANT, queue="mail", usage=MADE
        )
    ]
    for _ in range(36):  # three hours, with an owner all along
        bench.runtime.clock.advance(300)
        await add_up(bench)
    await bench.runtime.store.write_usage(late, process="other")
    await submit(bench, job_id, 1)
    await record(bench)
    await add_up(bench)
    assert counts(await lines(bench, UsageStep.HOUR)) == {"submitted": 1, "fired": 4}


async def test_a_new_owner_goes_on_where_the_last_one_stood(bench: Bench) -> None:
    await submit(bench, await bench.add(), 1)
    await record(bench)
    await add_up(bench)
    since = UsageStep.MINUTE.start_of(bench.runtime.clock.now())
    missed = [
        UsageLine(at=since + hours * HOUR, tenant=TENANT, queue="mail", usage=MADE) for hours in range(1, 9)
    ]
    await bench.runtime.store.write_usage(missed, process="worker")
    bench.runtime.clock.advance(12 * 3600)
    service = bench.runtime.services["usage_hours"]
    service._is_new = True  # type: ignore[attr-defined]
    await add_up(bench)
    assert counts(await lines(bench, UsageStep.HOUR)) == {"submitted": 1, "fired": 8 * 4}


async def test_no_other_node_adds_up(bench: Bench) -> None:
    await submit(bench, await bench.add(), 1)
    await record(bench)
    store = bench.runtime.store
    epochs = {shard.shard: shard.epoch for shard in await store.read_shards()}
    await store.take_shards("other", epochs, now=bench.runtime.clock.now())
    await add_up(bench)
    assert await lines(bench, UsageStep.HOUR) == []
    assert 0 not in bench.runtime.ownership.epochs
    assert await add_up(bench) == usage_hours.PERIOD


async def test_what_is_old_goes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_hours, "BATCH", 2)
    job_id = await bench.add()
    for _ in range(5):
        await submit(bench, job_id, 1)
        await record(bench)
        await add_up(bench)
        bench.runtime.clock.advance(60)
    bench.runtime.clock.advance((7 * DAY).total_seconds())
    assert await add_up(bench) == usage_hours.PERIOD
    assert await lines(bench) == []
    assert counts(await lines(bench, UsageStep.HOUR)) == {"submitted": 5}
    bench.runtime.clock.advance((400 * DAY).total_seconds())
    await add_up(bench)
    assert await lines(bench, UsageStep.HOUR) == []


async def test_a_report_tells_by_time_and_by_queue(bench: Bench) -> None:
    mail, pdf = await bench.add(name="mail", queue="mail"), await bench.add(name="pdf", queue="pdf")
    await submit(bench, mail, 1)
    await record(bench)
    bench.runtime.clock.advance(120)
    await submit(bench, mail, 2)
    await submit(bench, pdf, 4)
    await record(bench)
    reader = bench.runtime.client.usage
    now = bench.runtime.clock.now()
    found = await reader.read(TENANT, until=now + timedelta(minutes=1))
    assert found.step is UsageStep.MINUTE
    assert [usage.submitted for _, usage in found.steps] == [1, 6]
    assert [(queue, usage.submitted) for queue, usage in found.queues] == [("mail", 3), ("pdf", 4)]
    assert found.total.submitted == 7
    only = await reader.read(TENANT, until=now + timedelta(minutes=1), queue="pdf")
    assert (only.total.submitted, [queue for queue, _ in only.queues]) == (4, ["pdf"])
    assert (await reader.read("other", until=now + HOUR)).steps == []
    assert (await reader.read(TENANT, since=now - 4 * HOUR)).step is UsageStep.HOUR


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"since": timedelta(0)}, "is not before `until`"),
        ({"since": 4 * HOUR, "step": UsageStep.MINUTE}, "at most 3 hours"),
        ({"since": 32 * DAY}, "at most 31 days"),
        ({"since": HOUR, "until": 2 * HOUR}, "is not before `until`"),
    ],
)
async def test_times_that_make_no_sense_are_refused(bench: Bench, wanted: Any, words: str) -> None:
    now = bench.runtime.clock.now()
    moments = {key: now - ago for key, ago in wanted.items() if key != "step"}
    with pytest.raises(InvalidInput, match=words) as caught:
        await bench.runtime.client.usage.read(TENANT, **moments, step=wanted.get("step"))
    assert caught.value.field == "since"
