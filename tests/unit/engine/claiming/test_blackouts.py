"""Nothing of a queue is given out while a calendar holds, from its edge on, and at the other edge it goes on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.pauses import PauseScope
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.restrictions import RestrictionFollower, RestrictionReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.errors import Conflict, InvalidInput
from mainspring.testing.factories import at, make_claim
from mainspring.testing.manual import TENANT
from tests.unit.engine.claiming.test_pauses import add, jobs_of, submit, wait
from tests.unit.engine.conftest import Bench

QUEUE, EVERYTHING = PauseScope.QUEUE, PauseScope.ALL


async def holds(bench: Bench, *spans: tuple[float, float], name: str = "off", tenant: str = TENANT) -> None:
    """Write a calendar that holds from some seconds after the start to others."""
    form = "%Y-%m-%dT%H:%M:%S"
    rules = [{"from": at(low).strftime(form), "to": at(high).strftime(form)} for low, high in spans]
    await bench.runtime.client.calendars.put(tenant, name, {"rules": rules})
    await bench.runtime.tick("restrictions")


async def put(
    bench: Bench, *calendars: str, scope: PauseScope = QUEUE, name: str = "mail", **facts: Any
) -> None:
    body = {"items": [{"calendar": calendar, **facts} for calendar in calendars]}
    await bench.runtime.client.blackouts.put(scope, name, body, tenant=TENANT, made_by="ann")
    await bench.runtime.tick("restrictions")


@pytest.mark.parametrize(("scope", "name"), [(QUEUE, "mail"), (PauseScope.TENANT, "acme"), (EVERYTHING, "")])
async def test_nothing_is_given_out_between_the_edges(bench: Bench, scope: PauseScope, name: str) -> None:
    held, other = await add(bench, "mail", "acme"), await add(bench, "bulk")
    await holds(bench, (10, 20))
    await holds(bench, (10, 20), tenant="acme")
    await put(bench, "off", scope=scope, name=name)
    for second, is_open in ((9.9, True), (10, False), (19.9, False), (20, True)):
        bench.runtime.clock.advance((at(second) - bench.runtime.clock.now()).total_seconds())
        await submit(bench, held, "acme")
        await submit(bench, other)
        worker = await bench.runtime.worker()
        given = set(jobs_of(await worker.claim()))
        assert given == ({held, other} if is_open else set() if scope is EVERYTHING else {other})


async def test_a_call_that_waits_gets_its_runs_at_the_edge(bench: Bench) -> None:
    job_id = await add(bench, "mail")
    await submit(bench, job_id)
    await holds(bench, (0, 20))
    await put(bench, "off")
    worker = await bench.runtime.worker()
    task = await wait(bench, worker)
    bench.runtime.clock.advance(19.9)
    delay = await bench.runtime.services["claims"].tick(bench.runtime.clock.now())
    assert (task.done(), delay <= 0.1) == (False, True)
    bench.runtime.clock.advance(0.1)
    await bench.runtime.tick("claims")
    assert [lease.job_id for lease in (await task).leases] == [job_id]


async def test_nothing_goes_straight_to_a_worker_after_the_edge(bench: Bench) -> None:
    job_id = await add(bench, "mail")
    await submit(bench, job_id, delay=timedelta(hours=1))
    await holds(bench, (10, 20))
    await put(bench, "off")
    worker = await bench.runtime.worker()
    task = await wait(bench, worker)
    bench.runtime.clock.advance(10)  # nobody has ticked since
    await submit(bench, job_id)
    assert not task.done()
    for _ in range(3):
        await bench.runtime.tick("claims")
    assert not task.done()


async def test_a_claim_that_was_chosen_before_the_edge_gives_nothing_after_it(bench: Bench) -> None:
    job_id = await add(bench, "mail")
    await submit(bench, job_id)
    await holds(bench, (10, 20))
    await put(bench, "off")
    store, worker = bench.runtime.store, await bench.runtime.worker()
    known = await store.read_restrictions()
    assert known is not None
    lanes = [lane.id for lane in await store.read_lanes((), limit=10)]
    chosen = make_claim(worker.session_id, lanes, policy_epoch=known.epoch)
    bench.runtime.clock.advance(10)
    delay = await bench.runtime.services["restrictions"].tick(bench.runtime.clock.now())
    assert delay <= 1
    [result] = await store.claim_runs([chosen], now=at(9.9))
    assert (result.runs, result.is_policy_old) == ((), True)


async def test_the_first_process_at_an_edge_acts_for_all(bench: Bench) -> None:
    await holds(bench, (10, 20))
    await put(bench, "off")
    store, clock = bench.runtime.store, bench.runtime.clock
    elsewhere = RestrictionFollower(
        store,
        RestrictionReader(store, CalendarReader(store)),
        wakeups=Wakeups(),
        waiter=bench.runtime.matcher.waiter,
    )
    await elsewhere.tick(clock.now())
    assert await bench.runtime.services["restrictions"].tick(clock.now()) == 1.0
    clock.advance(9.6)
    assert await elsewhere.tick(clock.now()) == pytest.approx(0.4)
    clock.advance(0.4)
    before = await store.read_restrictions()
    await bench.runtime.tick("restrictions")
    after = await store.read_restrictions()
    await elsewhere.tick(clock.now())
    assert before is not None
    assert after is not None
    assert after.epoch > before.epoch
    assert await store.read_restrictions(known=after.epoch) is None


async def test_a_new_version_of_a_calendar_takes_effect_at_once(bench: Bench) -> None:
    job_id = await add(bench, "mail")
    await submit(bench, job_id)
    await holds(bench, (0, 100))
    await put(bench, "off@1", name="bulk")
    await put(bench, "off")
    worker = await bench.runtime.worker()
    assert await worker.claim() == []
    await holds(bench, (50, 100))
    assert jobs_of(await worker.claim()) == [job_id]
    await submit(bench, job_id)
    await holds(bench, (0, 30))
    assert await worker.claim() == []
    found = {one.blackout.name: one for one in await bench.runtime.client.blackouts.list_all()}
    assert (found["bulk"].blackout.label, found["bulk"].until) == ("off@1", at(100))
    assert (found["mail"].blackout.label, found["mail"].until) == ("off@3", at(30))
    await put(bench)
    assert jobs_of(await worker.claim()) == [job_id]


async def test_it_says_why(bench: Bench) -> None:
    job_id = await add(bench, "mail")
    run_id = await submit(bench, job_id)
    await holds(bench, (0, 100))
    await put(bench, "off", note="the books are closed")
    why = await bench.runtime.client.runs.why(TENANT, run_id)
    assert (why.code, why.until) == ("blackout", at(100))
    assert why.sentence == (
        "Queue 'mail' is in a blackout by calendar off@1 until 2026-01-05T12:01:40.000Z: the books are closed."
    )
    await bench.runtime.client.pauses.pause(QUEUE, "mail", {}, made_by="ann")
    assert (await bench.runtime.client.runs.why(TENANT, run_id)).code == "paused"


async def test_fires_wait_or_are_skipped_and_the_preview_says_so(bench: Bench) -> None:
    held = await add(bench, "mail", every="10s")
    skipped = await add(bench, "bulk", every="10s")
    once = await add(bench, "bulk", run_at=at(25).isoformat())
    await holds(bench, (15, 35))
    await put(bench, "off")
    await put(bench, "off", name="bulk", mode="skip")
    jobs = bench.runtime.client.jobs
    fires = (await jobs.fires(TENANT, skipped, after=at(9), count=4)).fires
    assert [(one.fire_at, one.skipped_by) for one in fires] == [
        (at(10), None),
        (at(20), "off@1"),
        (at(30), "off@1"),
        (at(40), None),
    ]
    assert {one.skipped_by for one in (await jobs.fires(TENANT, held, after=None, count=4)).fires} == {None}
    await bench.runtime.advance(41)
    by_reason = {
        job_id: [(run.fire_at, run.reason) for run in await bench.runs(job_id)]
        for job_id in (held, skipped, once)
    }
    assert by_reason == {
        held: [(at(second), None) for second in (10, 20, 30, 40)],
        skipped: [(at(10), None), (at(20), "blackout"), (at(30), "blackout"), (at(40), None)],
        once: [(at(25), "blackout")],
    }
    assert (await bench.runtime.client.ledgers.read(TENANT, skipped)).balance.is_even


async def test_a_trigger_is_previewed_beside_what_concerns_its_tenant(bench: Bench) -> None:
    await holds(bench, (15, 35))
    await put(bench, "off", scope=EVERYTHING, name="", mode="skip")
    fires = (await bench.runtime.client.jobs.preview(TENANT, {"every": "10s"}, after=at(9), count=3)).fires
    assert "off@1" in {one.skipped_by for one in fires}


async def test_missed_fires_that_fell_into_a_blackout_are_skipped_too(bench: Bench) -> None:
    job_id = await add(bench, "mail", every="10s", misfire={"policy": "fire_all", "grace": "1s"})
    await bench.runtime.advance(11)
    await holds(bench, (15, 35))
    await put(bench, "off", mode="skip")
    bench.runtime.clock.advance(60)
    await bench.runtime.tick()
    await bench.runtime.plan()
    await bench.runtime.advance(3)
    reasons = {run.fire_at: run.reason for run in await bench.runs(job_id)}
    assert reasons == {
        at(10): None,
        at(20): "blackout",
        at(30): "blackout",
        **{at(second): None for second in (40, 50, 60, 70)},
    }


async def test_a_calendar_in_use_is_not_deleted_and_an_unknown_one_is_refused(bench: Bench) -> None:
    await holds(bench, (0, 10))
    await put(bench, "off", scope=EVERYTHING, name="")
    with pytest.raises(Conflict, match="'off' is used by a blackout of everything"):
        await bench.runtime.client.calendars.delete(TENANT, "off")
    for calendar in ("on", "off@2"):
        with pytest.raises(InvalidInput, match="has no calendar") as refused:
            await put(bench, "off", calendar, name="bulk") if calendar == "on" else await put(bench, calendar)
        assert refused.value.field == ("items[1].calendar" if calendar == "on" else "items[0].calendar")
    await put(bench, scope=EVERYTHING, name="")
    await bench.runtime.client.calendars.delete(TENANT, "off")
    with pytest.raises(InvalidInput, match="has no calendar 'off'"):
        await put(bench, "off")
