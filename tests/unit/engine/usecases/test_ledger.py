"""Expected minus recorded is nothing, whatever happened (law 4)."""

from __future__ import annotations

from mainspring.core.ids import JobId
from mainspring.core.ledger import Ledger
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench


async def ledger_of(bench: Bench, job_id: JobId) -> Ledger:
    return await bench.runtime.client.ledgers.read(TENANT, job_id)


async def test_ledger_is_even_after_fires_skips_and_an_outage(bench: Bench) -> None:
    job_id = await bench.add(every="10s", overlap="skip", misfire={"policy": "fire_latest", "grace": "15s"})
    await bench.runtime.advance(45)
    bench.runtime.clock.advance(200)
    await bench.runtime.tick()
    await bench.runtime.plan()
    ledger = await ledger_of(bench, job_id)
    assert ledger.balance.is_even
    assert ledger.balance.expected == 24


async def test_ledger_is_even_while_a_catch_up_is_open(bench: Bench) -> None:
    job_id = await bench.add(every="10s", misfire={"policy": "fire_all", "grace": "5s"})
    bench.runtime.clock.advance(100)
    await bench.runtime.tick("planner")
    ledger = await ledger_of(bench, job_id)
    assert (ledger.balance.expected, ledger.balance.missing) == (10, ())  # the newest is on time


async def test_ledger_of_a_job_without_a_trigger_is_empty(bench: Bench) -> None:
    job_id = await bench.add()
    assert (await ledger_of(bench, job_id)).balance.expected == 0
