"""Tenants with a reserve: the next free seats are theirs, whatever else waits, and no seat is kept free for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.pauses import PauseScope
from mainspring.core.reserves import Reserves, UnmetReserve
from mainspring.engine.claiming.reserved import COUNT_PERIOD, LONGEST
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import TookTooLong
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Lease, Report
from mainspring.testing.manual import ManualRuntime, ManualWorker
from tests.unit.engine.conftest import Bench


async def add_job(runtime: ManualRuntime, tenant: str, name: str = "job", **body: Any) -> JobId:
    return (await runtime.client.jobs.create(tenant, {"name": name, "function": "work"} | body)).id


async def submit(runtime: ManualRuntime, tenant: str, job_id: JobId, count: int) -> None:
    await runtime.client.runs.submit_many(tenant, [Submission(job_id=job_id)] * count)


async def reserve(runtime: ManualRuntime, **slots: int) -> None:
    for tenant, count in slots.items():
        await runtime.client.tenants.put(tenant, {"reserved": count})
    await runtime.tick("policies")


async def end(worker: ManualWorker, leases: list[Lease]) -> None:
    ends = [Report(run_id=lease.run_id, token=lease.token, ending=Success(), took=None) for lease in leases]
    await worker.report(*ends)


def tenants(leases: list[Lease]) -> Counter[str]:
    return Counter(lease.tenant for lease in leases)


async def test_a_reserve_goes_before_shares_and_no_further(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, "flood", await add_job(runtime, "flood"), 200)
    await submit(runtime, "acme", await add_job(runtime, "acme"), 200)
    await runtime.client.tenants.put("flood", {"weight": 1000})
    await reserve(runtime, acme=6)
    worker = await runtime.worker()
    got = tenants(await worker.claim(20))
    assert 6 <= got["acme"] <= 7
    assert got.total() == 20


async def test_a_reserve_goes_before_higher_tiers(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, "flood", await add_job(runtime, "flood", priority="HIGH"), 200)
    await submit(runtime, "acme", await add_job(runtime, "acme", priority="LOW"), 200)
    await reserve(runtime, acme=3)
    worker = await runtime.worker()
    assert tenants(await worker.claim(10)) == {"acme": 3, "flood": 7}
    assert tenants(await worker.claim(10)) == {"flood": 10}


async def test_a_seat_that_the_tenant_gives_back_is_its_own_again(bench: Bench) -> None:
    """Between two counts, the process goes by what it gives out and by the ends it hears of."""
    runtime = bench.runtime
    await submit(runtime, "flood", await add_job(runtime, "flood", priority="HIGH"), 200)
    await submit(runtime, "acme", await add_job(runtime, "acme", priority="LOW"), 200)
    await reserve(runtime, acme=3)
    worker = await runtime.worker()
    leases = await worker.claim(10)
    mine = [lease for lease in leases if lease.tenant == "acme"]
    others = [lease for lease in leases if lease.tenant == "flood"]
    await end(worker, others[:2])
    assert tenants(await worker.claim(2)) == {"flood": 2}
    await end(worker, mine[:2])
    assert tenants(await worker.claim(1)) == {"acme": 1}
    assert tenants(await worker.claim(3)) == {"acme": 1, "flood": 2}


async def test_no_seat_is_kept_free(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, "flood", await add_job(runtime, "flood"), 30)
    acme = await add_job(runtime, "acme")
    await reserve(runtime, acme=10)
    worker = await runtime.worker()
    assert tenants(await worker.claim(20)) == {"flood": 20}
    await submit(runtime, "acme", acme, 2)
    assert tenants(await worker.claim(5)) == {"acme": 2, "flood": 3}


async def test_what_other_processes_gave_is_counted(bench: Bench) -> None:
    runtime = bench.runtime
    acme, flood = await add_job(runtime, "acme", priority="LOW"), await add_job(runtime, "flood")
    await submit(runtime, "acme", acme, 3)
    elsewhere = await runtime.worker()
    assert tenants(await elsewhere.claim(3)) == {"acme": 3}  # before there is a reserve: nobody notes it
    await reserve(runtime, acme=4)
    await submit(runtime, "acme", acme, 20)
    await submit(runtime, "flood", flood, 20)
    worker = await runtime.worker()
    assert tenants(await worker.claim(5)) == {"acme": 1, "flood": 4}


async def test_a_loss_is_found_by_the_next_count(bench: Bench) -> None:
    runtime = bench.runtime
    acme, flood = await add_job(runtime, "acme", priority="LOW"), await add_job(runtime, "flood")
    await reserve(runtime, acme=2)
    await submit(runtime, "acme", acme, 20)
    await submit(runtime, "flood", flood, 20)
    lost, worker = await runtime.worker(), await runtime.worker()
    assert tenants(await lost.claim(3)) == {"acme": 2, "flood": 1}
    assert await worker.claim(1)  # an idle worker would get a quarantined run
    await runtime.gateway.leave(lost.session_id)
    await runtime.tick("reaper")
    assert tenants(await worker.claim(2)) == {"flood": 2}
    runtime.clock.advance(COUNT_PERIOD)
    assert tenants(await worker.claim(3)) == {"acme": 2, "flood": 1}


async def test_what_happens_elsewhere_is_found_although_counts_stall(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = bench.runtime
    acme, flood = await add_job(runtime, "acme", priority="LOW"), await add_job(runtime, "flood")
    await reserve(runtime, acme=2)
    await submit(runtime, "acme", acme, 20)
    await submit(runtime, "flood", flood, 20)
    count_running, counts = runtime.store.count_running, 0

    async def count(wanted: Sequence[str]) -> dict[str, int]:
        nonlocal counts
        counts += 1
        runtime.clock.advance(7.0)
        return await count_running(wanted)

    monkeypatch.setattr(runtime.store, "count_running", count)
    worker = await runtime.worker()
    for expected in (1, 2, 2, 3):
        await worker.claim(1)
        assert counts == expected
        runtime.clock.advance(COUNT_PERIOD if counts == 1 else LONGEST / 2)


async def test_runs_under_limits_get_reserved_seats_first_too(bench: Bench) -> None:
    """A claim takes runs of one kind: it is that of the reserved lanes, and only theirs if they are of both kinds."""
    runtime = bench.runtime
    await submit(runtime, "flood", await add_job(runtime, "flood", priority="HIGH"), 100)
    limits: dict[str, Any] = {"concurrency": [{"limit": 3}], "priority": "LOW"}
    await submit(runtime, "acme", await add_job(runtime, "acme", **limits), 20)
    runtime.clock.advance(1)
    await submit(runtime, "acme", await add_job(runtime, "acme", "plain", priority="LOW"), 20)
    await reserve(runtime, acme=8)
    worker = await runtime.worker()
    leases: list[Lease] = []
    while len(leases) < 8:
        leases += await worker.claim(20 - len(leases))
    names = Counter((lease.tenant, lease.spec.name) for lease in leases[:8])
    assert names.keys() == {("acme", "job"), ("acme", "plain")}
    assert names["acme", "job"] <= 3


async def test_a_full_limit_keeps_no_seat_from_others(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, "flood", await add_job(runtime, "flood"), 100)
    await submit(runtime, "acme", await add_job(runtime, "acme", concurrency=[{"limit": 1}]), 20)
    await reserve(runtime, acme=8)
    worker = await runtime.worker()
    got: Counter[str] = Counter()
    for _ in range(6):
        got += tenants(await worker.claim(5))
    assert got["acme"] == 1
    assert got["flood"] >= 15


async def test_a_paused_tenant_gets_nothing(bench: Bench) -> None:
    runtime = bench.runtime
    await submit(runtime, "flood", await add_job(runtime, "flood"), 100)
    await submit(runtime, "acme", await add_job(runtime, "acme"), 20)
    await reserve(runtime, acme=8)
    await runtime.client.pauses.pause(PauseScope.TENANT, "acme", {}, made_by="me")
    await runtime.tick("restrictions")
    worker = await runtime.worker()
    assert tenants(await worker.claim(20)) == {"flood": 20}


async def test_a_count_that_takes_too_long_leaves_what_is_known(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = bench.runtime
    await submit(runtime, "flood", await add_job(runtime, "flood", priority="HIGH"), 100)
    await submit(runtime, "acme", await add_job(runtime, "acme"), 20)
    await reserve(runtime, acme=2)

    async def give_up(names: object) -> dict[str, int]:
        raise TookTooLong("too long")

    monkeypatch.setattr(runtime.store, "count_running", give_up)
    worker = await runtime.worker()
    assert tenants(await worker.claim(5)) == {"acme": 2, "flood": 3}


async def test_nothing_is_counted_without_a_reserve(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = bench.runtime
    await submit(runtime, "acme", await add_job(runtime, "acme"), 20)

    async def fail(names: object) -> dict[str, int]:
        raise AssertionError("it was counted")

    monkeypatch.setattr(runtime.store, "count_running", fail)
    worker = await runtime.worker()
    assert len(await worker.claim(5)) == 5


async def test_what_is_unmet_is_told_with_its_age(bench: Bench) -> None:
    runtime = bench.runtime
    await reserve(runtime, acme=2)
    worker = await runtime.worker()
    runtime.clock.advance(5)
    submitted_at = runtime.clock.now()
    await submit(runtime, "acme", await add_job(runtime, "acme"), 5)
    assert await worker.claim(1)
    runtime.clock.advance(5)
    assert await worker.claim(0) == []
    order = runtime.matcher.order
    order.wake(runtime.clock.now())
    [unmet] = order.reserves.unmet()
    assert unmet == UnmetReserve(lane_id=unmet.lane_id, tenant="acme", missing=1, since=submitted_at)
    assert isinstance(order.reserves, Reserves)


async def test_reserved_seats_go_before_older_runs_under_limits_where_the_oldest_goes_first(
    bench: Bench,
) -> None:
    runtime = bench.runtime
    await runtime.client.queues.put("default", {"order": "fifo"})
    limits: dict[str, Any] = {"concurrency": [{"limit": 100}]}
    await submit(runtime, "flood", await add_job(runtime, "flood", **limits), 20)
    runtime.clock.advance(1)
    await submit(runtime, "acme", await add_job(runtime, "acme", **limits), 20)
    await reserve(runtime, acme=3)
    worker = await runtime.worker()
    got = [lease for _ in range(3) for lease in await worker.claim(1)]
    assert tenants(got) == {"acme": 3}
    assert tenants(await worker.claim(1)) == {"flood": 1}
