"""A definition that cannot be decrypted holds up its own job, and nothing else of any tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from structlog.testing import capture_logs

from mainspring.core.ciphertexts import ENCRYPTED
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.model import Job, Run, Target
from mainspring.core.outcomes import Failure
from mainspring.core.states import RunState
from mainspring.encryption.cipher import Cipher
from mainspring.encryption.keys import Keys
from mainspring.encryption.store import encrypted
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import CannotDecrypt
from mainspring.ports.gateway import Report
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import ManualRuntime, ManualWorker

BODY = {"target": {"type": "http", "url": "https://example.com/a"}, "payload": {"customer": "c"}}
EVERY_MINUTE = {"trigger": {"type": "interval", "every": 60}}
BOTH = Keys("k1", {"k1": bytes(32), "k2": b"\1" * 32})
SECOND = Keys("k2", {"k2": b"\1" * 32})


@dataclass
class Place:
    """A store with a good and a bad job of two tenants, and the engine of a process that cannot read the bad one."""

    bare: MemoryStore
    runtime: ManualRuntime
    good: Job
    bad: Job

    async def worker(self) -> ManualWorker:
        return await self.runtime.worker(types=("http",))

    async def runs(self, job: Job) -> list[Run]:
        """Return the runs of a job, the oldest first."""
        return sorted(await self.runtime.store.list_runs(job.tenant, job_id=job.id), key=lambda run: run.id)


async def make(bare: MemoryStore, clock: FakeClock, **options: object) -> tuple[Job, Job]:
    first = ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(BOTH)), clock=clock)
    good = await first.client.jobs.create("mall", BODY | EVERY_MINUTE | {"name": "good"} | options)
    bad = await first.client.jobs.create("shop", BODY | EVERY_MINUTE | {"name": "bad"} | options)
    return good, bad


def change(bare: MemoryStore, job: Job) -> None:
    """Change one letter of what is encrypted of a job's definition, behind the store's back."""
    spec = bare._tables.versions[job.id, 1]
    text = spec.target.params[ENCRYPTED]
    other = text[:100] + ("A" if text[100] != "A" else "B") + text[101:]
    changed = replace(spec, target=Target("http", {**spec.target.params, ENCRYPTED: other}))
    bare._tables.versions[job.id, 1] = bare._tables.jobs[job.id].spec = changed


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def place(clock: FakeClock) -> AsyncIterator[Place]:
    bare = MemoryStore(time=clock.now)
    good, bad = await make(bare, clock)
    change(bare, bad)
    async with ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(BOTH)), clock=clock) as runtime:
        yield Place(bare, runtime, good, bad)


async def test_all_jobs_fire_and_only_the_bad_one_fails(place: Place) -> None:
    with capture_logs() as logs:
        await place.runtime.advance(61)
        worker = await place.worker()
        assert [lease.job_id for lease in await worker.claim()] == [place.good.id]
        await place.runtime.advance(2)
    [run] = await place.runs(place.bad)
    assert (run.state, run.reason) == (RunState.FAILED, "undecryptable")
    assert run.error is not None
    assert run.error.startswith("the definition of job job_")
    assert "it was changed in the store" in run.error
    told = [one for one in logs if one["event"] == "definition_cannot_be_decrypted"]
    assert len(told) == 1, "once, however often it is read"
    assert not [one for one in logs if "exc_info" in one]


async def test_run_whose_definition_has_a_key_that_is_missing_here_goes_back(clock: FakeClock) -> None:
    bare = MemoryStore(time=clock.now)
    _, bad = await make(bare, clock)
    runtime = ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(SECOND)), clock=clock)
    async with runtime:
        await runtime.advance(61)
        worker = await runtime.worker(types=("http",))
        assert await worker.claim() == []
        [run] = await runtime.store.list_runs("shop")
        assert (run.state, run.attempt, run.job_id) == (RunState.PENDING, 1, bad.id)
        clock.advance(31)
        able = ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(BOTH)), clock=clock)
        worker = await able.worker(types=("http",))
        assert run.id in {lease.run_id for lease in await worker.claim()}


async def test_fire_that_needs_a_key_of_the_payload_waits_for_who_can_read_it(clock: FakeClock) -> None:
    bare = MemoryStore(time=clock.now)
    await make(bare, clock, concurrency=[{"key": "$.customer", "limit": 1}])
    runtime = ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(SECOND)), clock=clock)
    async with runtime:
        with capture_logs() as logs:
            await runtime.advance(63)
        assert await runtime.store.list_runs("shop") == []
        assert [one["event"] for one in logs].count("job_cannot_be_planned") == 0
    able = ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(BOTH)), clock=clock)
    async with able:
        await able.advance(60)
        assert await able.store.list_runs("shop") != []


async def test_what_was_under_way_is_reported_given_back_and_lost_as_ever(clock: FakeClock) -> None:
    bare = MemoryStore(time=clock.now)
    jobs = await make(bare, clock, retry={"max_retries": 0})
    async with ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(BOTH)), clock=clock) as first:
        await first.advance(61)
        worker = await first.worker(types=("http",))
        held = {lease.job_id: lease for lease in await worker.claim()}
    change(bare, jobs[1])
    runtime = ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(BOTH)), clock=clock)
    ends = [
        Report(run_id=lease.run_id, token=lease.token, ending=Failure(error="x")) for lease in held.values()
    ]
    await runtime.gateway.report(worker.session_id, tuple(ends))
    states = {run.job_id: run.state for job in jobs for run in await bare.list_runs(job.tenant)}
    assert states == dict.fromkeys(held, RunState.FAILED)


async def test_leases_that_no_worker_knows_are_taken_back(clock: FakeClock) -> None:
    bare = MemoryStore(time=clock.now)
    jobs = await make(bare, clock)
    async with ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(BOTH)), clock=clock) as first:
        await first.advance(61)
        worker = await first.worker(types=("http",))
        held = await worker.claim()
    change(bare, jobs[1])
    runtime = ManualRuntime(FunctionRegistry(), store=encrypted(bare, Cipher(BOTH)), clock=clock)
    for _ in range(3):
        clock.advance(10)
        await runtime.gateway.beat(worker.session_id, ())
    runs = await bare.get_runs([lease.run_id for lease in held])
    assert [run and run.state for run in runs] == [RunState.PENDING] * 2


async def test_job_is_shown_paused_resumed_and_deleted(place: Place) -> None:
    jobs = place.runtime.client.jobs
    shown = await jobs.get("shop", place.bad.id)
    assert shown == await jobs.find("shop", "bad")
    assert "it was changed in the store" in shown.spec.target.params[ENCRYPTED]
    assert (await jobs.pause("shop", place.bad.id)).is_paused
    assert not (await jobs.resume("shop", place.bad.id)).is_paused
    await jobs.delete("shop", place.bad.id)
    assert await jobs.list_page("shop", after=None, limit=9) == []


async def test_job_gets_a_whole_definition_and_no_patch(place: Place) -> None:
    jobs = place.runtime.client.jobs
    with pytest.raises(CannotDecrypt, match="give job 'bad' a whole definition, or delete it"):
        await jobs.edit("shop", place.bad.id, {"timeout": 9})
    job, is_new = await jobs.upsert("shop", BODY | EVERY_MINUTE | {"name": "bad"})
    assert (is_new, job.version, job.spec.target.params["url"]) == (False, 2, BODY["target"]["url"])


async def test_job_takes_no_submission(place: Place) -> None:
    with pytest.raises(CannotDecrypt, match="it was changed in the store"):
        await place.runtime.client.runs.submit("shop", Submission(job_id=place.bad.id))


async def test_run_is_not_repeated_with_what_cannot_be_read(place: Place) -> None:
    client = place.runtime.client
    worker = await place.worker()
    ids = [
        (await client.runs.submit("mall", Submission(job_id=place.good.id, payload=text))).run_id
        for text in (b"[1]", b"[2]")
    ]
    assert ids[0] is not None
    assert ids[1] is not None
    gone = Failure(error="x", is_retryable=False)
    await worker.report(
        *(Report(run_id=one.run_id, token=one.token, ending=gone) for one in await worker.claim())
    )
    payload = place.bare._tables.runs[ids[0]].payload
    assert payload is not None
    place.bare._tables.runs[ids[0]].payload = payload[:-1] + bytes([payload[-1] ^ 1])
    with pytest.raises(CannotDecrypt, match=r"the payload of run_.*it was changed in the store"):
        await client.redriving.redrive("mall", ids[0])
    await client.redriving.redrive_many("mall", [ids[0], ids[1]], is_newest=True)
    left = await client.dead_letters.list_page("mall", DeadFilter())
    assert [one.run.id for one in left] == [ids[0]]
    shown = await client.runs.get("mall", ids[0])
    assert shown.error == "x"
    await client.redriving.redrive("mall", ids[0], payload=b"[3]")
    assert {lease.payload for lease in await worker.claim()} == {b"[2]", b"[3]"}
