"""Runs with limits wait in lines, and are given out as soon as there is room."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId, KeyId, RunId
from mainspring.core.outcomes import Failure, succeeded
from mainspring.engine.claiming import lines
from mainspring.engine.claiming.lane_cache import LaneCache
from mainspring.engine.claiming.lines import LONGEST, LinesInView
from mainspring.engine.common.wakeups import RunsNews
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import Conflict, InvalidInput, NotFound
from mainspring.ports.executor import Success
from mainspring.ports.gateway import ClaimCall, Lease, Report
from mainspring.ports.hints import Hint
from mainspring.ports.store.claims import ApplyResult
from mainspring.ports.store.limits import Line
from mainspring.testing.manual import ManualRuntime, ManualWorker
from tests.unit.engine.conftest import Bench

CUSTOMER = {"key": "$.customer", "limit": 2}


async def add_job(runtime: ManualRuntime, concurrency: Any, **more: Any) -> JobId:
    body = {"name": f"job {concurrency} {more}", "function": "work", "concurrency": concurrency, **more}
    return (await runtime.client.jobs.create("default", body)).id


async def submit(runtime: ManualRuntime, job_id: JobId, *payloads: bytes | None) -> None:
    await runtime.client.runs.submit_many(
        "default", [Submission(job_id=job_id, payload=payload) for payload in payloads]
    )


def of(customer: str) -> bytes:
    return b'{"customer":"%s"}' % customer.encode()


async def succeed(worker: ManualWorker, leases: list[Lease]) -> None:
    await worker.report(*[Report(run_id=one.run_id, token=one.token, ending=Success()) for one in leases])


async def test_each_customer_has_its_own_room(bench: Bench) -> None:
    runtime = bench.runtime
    job_id = await add_job(runtime, CUSTOMER)
    await submit(runtime, job_id, *[of("a")] * 20, *[of("b")] * 3)
    worker = await runtime.worker()
    leases = [lease for _ in range(4) for lease in await worker.claim(10)]
    assert Counter(lease.payload for lease in leases) == {of("a"): 2, of("b"): 2}


async def test_an_end_makes_room_at_once(bench: Bench) -> None:
    runtime = bench.runtime
    job_id = await add_job(runtime, 1)
    await submit(runtime, job_id, None, None, None)
    worker = await runtime.worker()
    for _ in range(3):
        [lease] = await worker.claim(5)
        assert await worker.claim(5) == []
        await succeed(worker, [lease])


@pytest.mark.parametrize("is_named", [True, False])
async def test_an_end_at_another_server_makes_room_as_soon_as_it_is_told(
    bench: Bench, is_named: bool
) -> None:
    runtime = bench.runtime
    await submit(runtime, await add_job(runtime, 1), None, None)
    worker = await runtime.worker()
    [lease] = await worker.claim(5)
    assert await worker.claim(5) == []
    [line] = await runtime.store.read_lines(after=None, limit=9)
    end = succeeded(lease.run_id, lease.token, worker.session_id, None, None)
    assert await runtime.store.apply([end], now=runtime.clock.now()) == [ApplyResult.APPLIED]
    assert await worker.claim(5) == [], "nobody has told this server"
    runtime.wakeups.hear(Hint.RUNS, RunsNews(keys=[line.key.key_id] if is_named else None))
    assert len(await worker.claim(5)) == 1


async def test_an_end_is_told_to_other_servers_with_its_limits(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, await add_job(runtime, 1), None, None)
    worker = await runtime.worker()
    [lease] = await worker.claim(5)
    [line] = await runtime.store.read_lines(after=None, limit=9)
    told: list[RunsNews] = []
    runtime.wakeups.forward_to(lambda hint, news: told.append(news))
    await succeed(worker, [lease])
    [news] = told
    assert news.keys == {line.key.key_id}
    assert news.lanes is not None
    assert list(news.lanes()) == []


async def test_plain_runs_and_those_with_limits_share_a_worker(bench: Bench) -> None:
    runtime = bench.runtime
    plain = (await runtime.client.jobs.create("default", {"name": "plain", "function": "work"})).id
    limited = await add_job(runtime, CUSTOMER)
    await submit(runtime, plain, *[None] * 50)
    await submit(runtime, limited, *[of(str(number)) for number in range(50)])
    worker = await runtime.worker()
    leases = [lease for _ in range(50) for lease in await worker.claim(5)]
    assert 18 <= Counter(lease.job_id for lease in leases[:40])[limited] <= 22
    assert Counter(lease.job_id for lease in leases) == {plain: 50, limited: 50}


async def test_lines_take_turns(bench: Bench) -> None:
    """Of fifty lines that are alike, none waits until another one is empty."""
    runtime = bench.runtime
    job_id = await add_job(runtime, CUSTOMER)
    await submit(runtime, job_id, *[of(str(number % 50)) for number in range(500)])
    worker = await runtime.worker()
    seen: Counter[bytes | None] = Counter()
    for _ in range(20):
        leases = await worker.claim(10)
        seen.update(lease.payload for lease in leases)
        await succeed(worker, leases)
    assert len(seen) == 50
    assert max(seen.values()) - min(seen.values()) <= 4


async def test_a_rate_lets_no_more_start(bench: Bench) -> None:
    runtime = bench.runtime
    job_id = await add_job(runtime, {"rate": "10/s", "burst": 3})
    await submit(runtime, job_id, *[None] * 20)
    worker = await runtime.worker()
    assert len([lease for _ in range(3) for lease in await worker.claim(10)]) == 3
    await runtime.advance(0.5)
    assert len([lease for _ in range(3) for lease in await worker.claim(10)]) == 3
    await runtime.advance(0.15)
    assert len(await worker.claim(10)) == 1


async def fail(worker: ManualWorker, leases: list[Lease]) -> None:
    await worker.report(
        *[Report(run_id=one.run_id, token=one.token, ending=Failure(error="no")) for one in leases]
    )


async def test_a_raised_limit_holds_for_runs_that_wait_already(bench: Bench) -> None:
    """Even if the next permit was a day away."""
    runtime = bench.runtime
    await runtime.client.limits.put("default", "crm", {"rate": "1/d"})
    job_id = await add_job(runtime, {"use": "crm"})
    await submit(runtime, job_id, None, None, None)
    worker = await runtime.worker()
    assert len(await worker.claim(5)) == 1
    assert await worker.claim(5) == []
    await runtime.client.limits.put("default", "crm", {"rate": "100/s"})
    await runtime.advance(0.1)  # until permits have come in
    assert len([lease for _ in range(2) for lease in await worker.claim(5)]) == 2


async def test_a_jobs_own_limit_that_is_raised_lets_runs_start_at_once(bench: Bench) -> None:
    runtime = bench.runtime
    job_id = await add_job(runtime, 1)
    await submit(runtime, job_id, None, None, None)
    worker = await runtime.worker()
    assert len(await worker.claim(5)) == 1
    assert await worker.claim(5) == []
    await runtime.client.jobs.edit("default", job_id, {"concurrency": 3})
    assert len([lease for _ in range(2) for lease in await worker.claim(5)]) == 2


async def test_a_cancelled_holder_makes_room_before_its_retry_was_due(bench: Bench) -> None:
    runtime = bench.runtime
    retry = {"max_retries": 3, "delay": "1h"}
    job_id = await add_job(runtime, {"limit": 1, "hold": "run"}, retry=retry)
    await submit(runtime, job_id, None, None)
    worker = await runtime.worker()
    [first] = await worker.claim(5)
    await fail(worker, [first])
    assert await worker.claim(5) == []
    await runtime.client.runs.cancel("default", first.run_id)
    assert len(await worker.claim(5)) == 1


async def test_a_lost_run_makes_room_as_soon_as_it_is_taken_back(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, await add_job(runtime, 1, delivery="at_most_once"), None, None)
    lost, other = await runtime.worker(), await runtime.worker()
    assert len(await lost.claim(1)) == 1
    assert await other.claim(1) == []
    await runtime.gateway.leave(lost.session_id)
    await runtime.tick("reaper")
    assert len(await other.claim(1)) == 1


def test_room_that_is_made_while_nobody_claims_is_kept_up_to_a_bound() -> None:
    lanes = LaneCache()
    for number in range(5000):
        lanes.make_room([KeyId(number)])
    assert lanes._made_room is None, "it stands for any keys"


async def test_no_look_at_lines_is_due_when_the_last_lane_with_lines_is_gone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that had been put off stayed due, and the server looked without a rest (seed 301579)."""
    runtime = bench.runtime
    lanes, read_lines = runtime.matcher._lanes, runtime.store.read_lines

    async def read(**bounds: Any) -> list[Line]:
        runtime.clock.advance(0.01)
        return await read_lines(**bounds)

    monkeypatch.setattr(runtime.store, "read_lines", read)
    job_id = await add_job(runtime, {"rate": "1/m"})
    runs = [await runtime.client.runs.submit("default", Submission(job_id=job_id)) for _ in range(2)]
    worker = await runtime.worker()
    await succeed(worker, await worker.claim(5))
    assert await worker.claim(5) == await worker.claim(5) == []
    assert lanes.lines.due_in(runtime.clock.monotonic()), "a look is put off"
    for run in runs:
        await runtime.client.runs.cancel("default", run.run_id)
    assert await runtime.store.prune_lanes(limit=10) == 1
    runtime.clock.advance(60)
    assert await worker.claim(5) == []
    assert lanes.due_in(runtime.clock.monotonic()) > 0


async def test_seats_that_a_line_leaves_empty_go_to_runs_of_lower_priority(bench: Bench) -> None:
    """A rate lets one run through at each claim, so the line is always first; but it cannot fill the seats."""
    runtime = bench.runtime
    plain = {"name": "plain", "function": "work", "priority": "LOW"}
    low = (await runtime.client.jobs.create("default", plain)).id
    await submit(runtime, low, *[None] * 5)
    await submit(runtime, await add_job(runtime, {"rate": "10/s"}, priority="HIGH"), *[None] * 100)
    worker, claims = await runtime.worker(), []
    for _ in range(4):
        claims.append(Counter(lease.job_id == low for lease in await worker.claim(20)))
        await runtime.advance(0.3)
    assert [claim[True] for claim in claims] == [0, 5, 0, 0]
    assert all(claim[False] for claim in (claims[0], claims[2], claims[3]))


async def test_runs_do_not_grow_young_in_a_line_without_room(bench: Bench) -> None:
    """Those that have waited for five minutes get a part of the seats, also if their line was just closed."""
    runtime = bench.runtime
    high = {"name": "high", "function": "work", "priority": "HIGH"}
    plain = (await runtime.client.jobs.create("default", high)).id
    limited = await add_job(runtime, {"rate": "1/m"}, priority="LOW")
    await submit(runtime, limited, *[None] * 30)
    worker, started = await runtime.worker(), 0
    for _ in range(4 * 20):
        await submit(runtime, plain, *[None] * 60)
        leases = [lease for _ in range(4) for lease in await worker.claim(10)]
        started += sum(lease.job_id == limited for lease in leases)
        await succeed(worker, leases)
        await runtime.advance(15, step=5)
        await worker.beat()
    assert started >= 12


@pytest.mark.parametrize("size", [1, 3])
async def test_oldest_run_goes_first_with_limits_and_without(bench: Bench, size: int) -> None:
    runtime = bench.runtime
    await runtime.client.queues.put("default", {"order": "fifo"})
    await runtime.advance(1)
    plain = (await runtime.client.jobs.create("default", {"name": "plain", "function": "work"})).id
    limited = await add_job(runtime, {"key": "$.customer", "limit": 50})
    wanted = []
    for number in range(60):
        job_id = plain if number % 3 == 0 else limited
        submission = Submission(job_id=job_id, payload=of("abcde"[number * number % 5]))
        wanted.append((await runtime.client.runs.submit("default", submission)).run_id)
        await runtime.advance(0.1)
    worker = await runtime.worker()
    found: list[RunId] = []
    while len(found) < 60:
        leases = await worker.claim(size)
        found += [lease.run_id for lease in leases]
        await succeed(worker, leases)
    assert max(abs(wanted.index(run_id) - place) for place, run_id in enumerate(found)) <= 2 * (size - 1)


async def test_a_thousand_lines_are_found_one_look_after_the_other(bench: Bench) -> None:
    runtime = bench.runtime
    job_id = await add_job(runtime, {"key": "$.customer", "limit": 1})
    await submit(runtime, job_id, *[of(str(number)) for number in range(2500)])
    worker = await runtime.worker()
    seen: Counter[bytes | None] = Counter()
    for _ in range(400):
        leases = await worker.claim(50)
        seen.update(lease.payload for lease in leases)
        await succeed(worker, leases)
        if len(seen) == 2500:
            break
        await runtime.advance(0.1)
    assert len(seen) == 2500


async def test_quarantined_run_without_room_does_not_keep_an_idle_worker_from_other_work(
    bench: Bench,
) -> None:
    runtime = bench.runtime
    plain = (await runtime.client.jobs.create("default", {"name": "plain", "function": "work"})).id
    limited = await add_job(runtime, 1)
    await submit(runtime, limited, None)
    lost = await runtime.worker()
    assert len(await lost.claim(1)) == 1
    await runtime.gateway.leave(lost.session_id)
    await runtime.tick("reaper")
    await submit(runtime, limited, None)
    holder, idle = await runtime.worker(), await runtime.worker()
    held = [lease for _ in range(3) for lease in await holder.claim(1)]
    assert len(held) == 1
    await submit(runtime, plain, None, None)
    leases = [lease for _ in range(3) for lease in await idle.claim(1)]
    assert [lease.job_id for lease in leases] == [plain, plain] or held[0].is_quarantined


async def test_quarantined_run_without_room_does_not_have_busy_workers_drained_all_the_time(
    bench: Bench,
) -> None:
    """A worker that drains takes nothing else, and it may well be the one whose run has the place."""
    runtime = bench.runtime
    plain = (await runtime.client.jobs.create("default", {"name": "plain", "function": "work"})).id
    limited = await add_job(runtime, 1)
    holder, other, lost = [await runtime.worker() for _ in range(3)]
    await submit(runtime, plain, *[None] * 2)
    assert [len(await worker.claim(1)) for worker in (holder, other)] == [1, 1]
    await submit(runtime, limited, None)
    [crashed] = await lost.claim(1)
    await runtime.gateway.leave(lost.session_id)
    await runtime.tick("reaper")
    await submit(runtime, limited, None)
    [held] = [lease for _ in range(3) for lease in await holder.claim(1)]
    asked = 0
    for _ in range(120):
        await runtime.advance(1)
        await holder.beat()
        await other.beat()
        if await is_asked_to_drain(runtime, other):
            asked += 1
            await succeed(other, other.held)
            assert await other.claim(1) == []
            await submit(runtime, plain, None)
            assert len(await other.claim(1)) == 1
    assert 1 <= asked <= 7
    await succeed(holder, [held])
    await succeed(other, other.held)
    await runtime.advance(3)
    assert [lease.run_id for lease in await other.claim(1)] == [crashed.run_id]


async def is_asked_to_drain(runtime: ManualRuntime, worker: ManualWorker) -> bool:
    worker._number += 1
    call = ClaimCall(
        session_id=worker.session_id, number=worker._number, limit=1, wait=timedelta(0), is_idle=False
    )
    return (await runtime.ask(call)).is_quarantined_waiting


async def test_a_job_cannot_use_a_limit_that_does_not_exist(bench: Bench) -> None:
    runtime = bench.runtime
    with pytest.raises(InvalidInput) as refused:
        await add_job(runtime, {"use": "crm"})
    assert refused.value.field == "concurrency[0].use"
    await runtime.client.limits.put("default", "crm", {"max_running": 2})
    job_id = await add_job(runtime, {"use": "crm"})
    with pytest.raises(InvalidInput, match="there are crm"):
        await runtime.client.jobs.edit("default", job_id, {"concurrency": [{"use": "cmr"}]})
    bodies: list[dict[str, Any]] = [
        {"name": "x", "function": "work"},
        {"name": "y", "function": "work", "concurrency": {"use": "no"}},
    ]
    with pytest.raises(InvalidInput) as refused:
        await runtime.client.jobs.create_many("default", bodies)
    assert refused.value.field == "[1].concurrency[0].use"
    with pytest.raises(Conflict, match="is used by"):
        await runtime.client.limits.delete("default", "crm")


async def test_a_limit_that_does_not_exist_is_not_found(bench: Bench) -> None:
    limits = bench.runtime.client.limits
    with pytest.raises(NotFound):
        await limits.get("default", "crm")
    with pytest.raises(NotFound):
        await limits.delete("default", "crm")
    with pytest.raises(NotFound):
        await limits.keys("default", "crm")
    rule, is_new = await limits.put("default", "crm", {"rate": "5/s"})
    assert is_new
    assert await limits.get("default", "crm") == rule
    assert await limits.list_page("default", limit=1) == [rule]
    assert await limits.list_page("default", after="crm") == []
    assert await limits.keys("default", "crm") == []


async def test_a_submission_without_its_key_is_refused(bench: Bench) -> None:
    runtime = bench.runtime
    job_id = await add_job(runtime, CUSTOMER)
    with pytest.raises(InvalidInput) as refused:
        await runtime.client.runs.submit("default", Submission(job_id=job_id, payload=b'{"shop": 1}'))
    assert refused.value.field == "payload.customer"
    with pytest.raises(InvalidInput) as refused:
        await submit(runtime, job_id, of("a"), None)
    assert refused.value.field == "[1].payload.customer"


async def test_slices_that_take_long_follow_each_other_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "SLICE", 2)
    runtime, known = bench.runtime, LinesInView()
    await submit(runtime, await add_job(runtime, CUSTOMER), *[of(str(number)) for number in range(5)])
    read_lines = runtime.store.read_lines

    async def read(**bounds: Any) -> list[Line]:
        runtime.clock.advance(7.0)
        return await read_lines(**bounds)

    monkeypatch.setattr(runtime.store, "read_lines", read)
    rests = []
    for _ in range(2):
        await known.read(runtime.store, runtime.clock, runtime.clock.now())
        rest = known.due_in(runtime.clock.monotonic())
        assert rest is not None
        rests.append(rest)
        runtime.clock.advance(rest)
    assert rests == [0, LONGEST]
    await known.read(runtime.store, runtime.clock, runtime.clock.now())
    assert known.due_in(runtime.clock.monotonic()) is None, "the round is over"
