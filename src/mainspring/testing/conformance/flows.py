"""Flows: leases handed over to the engine, mail, and turns."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.core.fencing import ENGINE_SESSION
from mainspring.core.ids import SHARDS, JobId, RunId, SessionId, job_shard, run_number, run_shard
from mainspring.core.limits import JobLimit
from mainspring.core.model import Job, RunKind, Target
from mainspring.core.outcomes import AttemptOutcome, Transition, succeeded
from mainspring.core.states import RunState
from mainspring.core.workflows.mail import FlowNotice, Mail, StepEnded
from mainspring.core.workflows.places import StepPlace
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, HeldRun
from mainspring.ports.store.flows import FlowStart, FlowVerdict, KeptFlow, KeptMail, TurnedFlow
from mainspring.ports.store.runs import IdempotencyKey, NewRun
from mainspring.testing.conformance.caps import MAIL, cap, claim_capped
from mainspring.testing.conformance.completion import fail, give_back, lose, read_run, succeed
from mainspring.testing.conformance.firing import ALL_SHARDS
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    claim_lined_up,
    lane_of,
    make_claim,
    make_new_run,
    make_spec,
    own_shards,
    read_held,
    running_run,
    submit,
)

STARTED, STALE, TURNED, LOST, FENCED = FlowVerdict


def step_job(job: Job) -> JobId:
    """Return under which job the runs of a workflow's steps are kept: it has no row."""
    return JobId(UUID(int=job.id.int & ~(0xF << 76) | 8 << 76))


def make_step_run(job: Job, flow_id: RunId, step: int, **overrides: Any) -> NewRun:
    """Make the run of a step, in a queue of their own."""
    lane = replace(lane_of(job), queue="steps")
    values: dict[str, Any] = {"job_id": step_job(job), "kind": RunKind.WORKFLOW, "lane": lane}
    return make_new_run(job, **values | {"place": StepPlace(flow_id, step)} | overrides)


def make_start(job: Job, held: HeldRun, *steps: int, **overrides: Any) -> FlowStart:
    """Make the start of a flow, with a run for each of these steps."""
    values: dict[str, Any] = {
        "run_id": held.run_id,
        "token": held.token,
        "session_id": held.session_id,
        "state": b"begun",
        "live": len(steps),
        "runs": tuple(make_step_run(job, held.run_id, step) for step in steps),
    }
    return FlowStart(**values | overrides)


async def start_flow(
    store: Store,
    job: Job,
    *steps: int,
    session_id: SessionId | None = None,
    wake_at: datetime | None = None,
    **overrides: Any,
) -> RunId:
    """Start a flow with runs of these steps, which are due."""
    [run_id] = await submit(store, job, **overrides)
    lanes = [lane.id for lane in await store.read_lanes([]) if lane.key == lane_of(job)]
    await claim(store, await add_session(store) if session_id is None else session_id, lanes=lanes)
    held = await read_held(store, run_id)
    start = make_start(job, held, *steps, wake_at=wake_at)
    assert await store.start_flows([start], now=at(0)) == [STARTED]
    return run_id


async def claim_step(store: Store, flow_id: RunId, step: int) -> HeldRun:
    """Claim what waits, and return the run of a step."""
    await claim(store, await add_session(store), limit=100)
    [run] = [run for run in await store.list_flow_runs(flow_id) if run.place == StepPlace(flow_id, step)]
    return await read_held(store, run.id)


async def read_mail(store: Store, flow_id: RunId) -> list[KeptMail]:
    """Return all mail to a flow."""
    mails = await store.read_mail([run_shard(flow_id)], lows={}, limit=1000)
    return [mail for mail in mails if mail.flow_id == flow_id]


async def contents(store: Store, flow_id: RunId) -> list[Mail]:
    """Return what the mail to a flow says."""
    return [kept.mail for kept in await read_mail(store, flow_id)]


async def read_flow(store: Store, flow_id: RunId) -> KeptFlow:
    """Return a flow that exists."""
    [flow] = await store.read_flows([flow_id])
    assert flow is not None
    return flow


async def make_turn(store: Store, flow_id: RunId, **overrides: Any) -> TurnedFlow:
    """Make a turn about all mail of a flow, as it is now."""
    mails = await read_mail(store, flow_id)
    flow = await read_flow(store, flow_id)
    values: dict[str, Any] = {
        "flow_id": flow_id,
        "revision": flow.revision,
        "state": b"turned",
        "live": 0,
        "mails": tuple(kept.place for kept in mails),
    }
    return TurnedFlow(**values | overrides)


async def end_of(store: Store, flow_id: RunId, to: RunState, **overrides: Any) -> Transition:
    """Make the end of a flow's run."""
    flow = await read_flow(store, flow_id)
    if to is RunState.SUCCEEDED:
        return succeeded(flow_id, flow.token, ENGINE_SESSION, **overrides)
    outcome = AttemptOutcome.FAILED if to is RunState.FAILED else AttemptOutcome.CANCELLED
    return Transition(flow_id, flow.token, ENGINE_SESSION, to, outcome, **overrides)


class FlowsStart:
    """A lease is handed over to the engine once, and nobody takes what the engine holds."""

    __test__ = False

    async def test_a_lease_is_handed_over(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job, payload=b"[1]", target_key="key", fire_at=at(-60))
        assert await store.start_flows([make_start(job, held, 0, 2)], now=at(1)) == [STARTED]
        run = await read_run(store, held.run_id)
        assert (run.state, run.session_id, run.token) == (RunState.RUNNING, ENGINE_SESSION, held.token + 1)
        flow = await read_flow(store, held.run_id)
        assert (flow.revision, flow.state, flow.token, flow.attempt) == (0, b"begun", held.token + 1, 1)
        assert (flow.job_id, flow.version, flow.lane) == (job.id, 1, run.lane)
        assert (flow.payload, flow.target_key, flow.fire_at) == (b"[1]", "key", at(-60))
        runs = await store.list_flow_runs(held.run_id)
        assert [run.place for run in runs] == [StepPlace(held.run_id, 0), StepPlace(held.run_id, 2)]
        assert {(run.job_id, run.kind, run.state) for run in runs} == {
            (step_job(job), RunKind.WORKFLOW, RunState.PENDING)
        }
        assert await contents(store, held.run_id) == []
        assert await store.start_flows([], now=at(1)) == []

    async def test_a_late_report_is_stale(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        await store.start_flows([make_start(job, held)], now=at(1))
        for end in (succeed(held), fail(held, now=2), give_back(held, now=2), lose(held, now=2)):
            assert await store.apply([end], now=at(2)) == [ApplyResult.STALE]
        assert (await read_run(store, held.run_id)).state is RunState.RUNNING
        assert await store.read_held([held.run_id]) == [None]

    async def test_only_the_holder_starts_it_and_only_once(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        [waiting] = await submit(store, job, due_at=at(100))
        start = make_start(job, held, 0)
        late = replace(start, token=held.token + 1)
        other = replace(start, session_id=await add_session(store))
        engine = replace(start, session_id=ENGINE_SESSION)
        none = replace(start, run_id=waiting)
        unknown = replace(start, run_id=RunId(2**40))
        starts = [late, other, engine, none, unknown, start, start]
        assert await store.start_flows(starts, now=at(1)) == [STALE] * 5 + [STARTED, STALE]
        again = replace(start, token=held.token + 1, session_id=ENGINE_SESSION)
        assert await store.start_flows([start, again], now=at(2)) == [STALE] * 2
        assert len(await store.list_flow_runs(held.run_id)) == 1
        assert await store.read_flows([waiting, RunId(2**40)]) == [None, None]

    async def test_nobody_takes_what_the_engine_holds(self, store: Store) -> None:
        session_id = await add_session(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job, session_id=session_id)
        await store.close_sessions([session_id], now=at(10))
        far = at(10**8)
        assert await store.list_orphans(limit=10) == []
        assert await store.list_overdue(now=far, limit=10) == []
        await store.expire_runs(now=far, limit=10)
        await store.prune_sessions(before=far, limit=10)
        await store.prune_lanes(limit=10)
        assert (await read_run(store, flow_id)).state is RunState.RUNNING
        assert (await read_flow(store, flow_id)).lane == (await read_run(store, flow_id)).lane

    async def test_what_the_engine_holds_is_listed_and_takes_no_slot(self, store: Store) -> None:
        session_id = await add_session(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job, session_id=session_id)
        assert await store.count_held([session_id]) == [0]
        assert await store.count_running([job.tenant]) == {job.tenant: 0}
        listed = await store.list_runs(job.tenant, state=RunState.RUNNING)
        assert [run.id for run in listed] == [flow_id]
        listed = await store.list_runs(job.tenant, job_id=job.id, state=RunState.RUNNING)
        assert [run.id for run in listed] == [flow_id]

    async def test_a_repeated_claim_does_not_give_it_again(self, store: Store) -> None:
        job = await add_job(store)
        session_id = await add_session(store)
        [run_id] = await submit(store, job)
        [lane] = await store.read_lanes([])
        request = make_claim(session_id, [lane.id])
        await store.claim_runs([request], now=at(0))
        held = await read_held(store, run_id)
        await store.start_flows([make_start(job, held)], now=at(1))
        [again] = await store.claim_runs([request], now=at(2))
        assert again.runs == ()

    async def test_it_keeps_its_place_under_its_jobs_limit(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store, make_spec(concurrency=(JobLimit(limit=1),)))
        first, second = await submit(store, job, 2)
        session_id = await add_session(store)
        assert [run.run_id for run in (await claim_lined_up(store, session_id)).runs] == [first]
        await store.start_flows([make_start(job, await read_held(store, first))], now=at(1))
        await store.prune_limits(now=at(1), limit=10)
        assert (await claim_lined_up(store, session_id, now=at(2))).runs == ()
        turn = await make_turn(store, first, end=await end_of(store, first, RunState.SUCCEEDED))
        await store.turn_flows([turn], epochs=epochs, now=at(3))
        assert [run.run_id for run in (await claim_lined_up(store, session_id, now=at(4))).runs] == [second]

    async def test_it_takes_no_place_under_the_cap_of_its_queue(self, store: Store) -> None:
        job, session_id = await add_job(store, make_spec(queue="mail")), await add_session(store)
        await cap(store, MAIL, 1)
        first, second = await submit(store, job, 2)
        assert [run.run_id for run in (await claim_capped(store, session_id)).runs] == [first]
        await store.start_flows([make_start(job, await read_held(store, first))], now=at(1))
        assert [run.run_id for run in (await claim_capped(store, session_id)).runs] == [second]
        await store.start_flows([make_start(job, await read_held(store, second))], now=at(2))
        await cap(store, MAIL, 2)
        [use] = await store.read_cap_uses([MAIL])
        assert use.held == 0

    async def test_a_cancel_before_the_start_is_told(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        await store.cancel_runs([held.run_id], reason="operator", now=at(1))
        await store.start_flows([make_start(job, held, 0, goes_on=True)], now=at(2))
        assert await contents(store, held.run_id) == [FlowNotice.CANCEL, FlowNotice.GO_ON]


class RunsOfWorkflowsAreSpread:
    """Ids of workflows' runs are spread over all shards, so that one job's flows have many owners."""

    __test__ = False

    async def test_whichever_way_they_come(self, store: Store) -> None:
        job = await add_job(store, make_spec(target=Target("workflow", {})), shard=9)
        session_id = await add_session(store)
        ids = await submit(store, job, 3)
        ids += await submit(store, job)
        key = IdempotencyKey(key="k", request_hash=b"1", expires_at=at(100))
        ids += await submit(store, job, submit_key=key)
        lanes = await all_lanes(store)
        await claim(store, session_id, limit=10)
        claimed = await store.submit_claimed(
            make_new_run(job), request=make_claim(session_id, lanes), now=START
        )
        assert claimed is not None
        ids.append(claimed.run_id)
        assert len(ids) == 6
        assert [run_shard(run_id) for run_id in ids] == [run_number(run_id) % SHARDS for run_id in ids]
        assert ids == sorted(ids)

    async def test_others_are_not(self, store: Store) -> None:
        job = await add_job(store, make_spec(target=Target("workflows", {})), shard=9)
        assert {run_shard(run_id) for run_id in await submit(store, job, 3)} == {9}


class FlowsAreShown:
    """Runs of steps are found by their flow, page by page; how far it has come is kept with its run."""

    __test__ = False

    async def test_runs_are_listed_by_page_whatever_their_state(self, store: Store) -> None:
        job = await add_job(store)
        flow_id = await start_flow(store, job, *range(6))
        other = await start_flow(store, await add_job(store), 0)
        first = await store.list_flow_runs(flow_id)
        held = [
            await read_held(store, one.run_id)
            for one in await claim(store, await add_session(store), limit=3)
        ]
        await store.apply([succeed(held[0]), fail(held[1], now=1, retry=False)], now=at(1))
        ids = [run.id for run in first]
        assert ids == sorted(ids)
        pages = []
        after = None
        while page := await store.list_flow_runs(flow_id, after=after, limit=4):
            pages.append([run.id for run in page])
            after = page[-1].id
        assert pages == [ids[:4], ids[4:]]
        assert [run.place for run in await store.list_flow_runs(other)] == [StepPlace(other, 0)]
        assert await store.list_flow_runs(ids[0]) == []

    async def test_the_state_of_a_flow_is_found_while_it_lives(self, store: Store) -> None:
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0)
        [waiting] = await submit(store, job)
        found = await store.read_flow_states([waiting, flow_id, RunId(2**40)])
        assert found == [None, b"begun", None]
        assert await store.read_flow_states([]) == []

    async def test_runs_of_steps_are_none_of_the_workflows_job(self, store: Store) -> None:
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0)
        listed = await store.list_runs(job.tenant, job_id=job.id)
        assert [run.id for run in listed] == [flow_id]
        [newest] = await store.newest_runs([job.id], now=at(10))
        assert newest is not None
        assert newest.id == flow_id
        assert job_shard(step_job(job)) == job_shard(job.id)


class FlowsAreReconciled:
    """A flow whose run has ended untold gets mail; a flow that knows of all its ends gets none."""

    __test__ = False

    async def test_flows_that_count_right_are_left_alone(self, store: Store) -> None:
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0, 1)
        assert await store.reconcile_flows(ALL_SHARDS, now=at(1), limit=10) == []
        await store.apply([succeed(await claim_step(store, flow_id, 0))], now=at(1))
        assert await store.reconcile_flows(ALL_SHARDS, now=at(1), limit=10) == []
        assert len(await contents(store, flow_id)) == 1
        assert await store.reconcile_flows([], now=at(1), limit=10) == []

    async def test_a_flow_of_which_nothing_is_kept_is_left_alone(self, store: Store) -> None:
        epochs = await own_shards(store)
        flow_id = await start_flow(store, await add_job(store), 0)
        await store.turn_flows([await make_turn(store, flow_id, live=2)], epochs=epochs, now=at(2))
        assert await store.reconcile_flows(ALL_SHARDS, now=at(3), limit=10) == []

    async def test_what_was_not_told_is_told(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0, 1)
        await store.apply([succeed(await claim_step(store, flow_id, 0))], now=at(1))
        # As if the mail had never been written: the state still counts the run that has ended.
        await store.turn_flows([await make_turn(store, flow_id, live=2)], epochs=epochs, now=at(2))
        assert await contents(store, flow_id) == []
        others = [shard for shard in ALL_SHARDS if shard != run_shard(flow_id)]
        assert await store.reconcile_flows(others, now=at(3), limit=10) == []
        assert await store.reconcile_flows(ALL_SHARDS, now=at(3), limit=10) == [flow_id]
        assert await contents(store, flow_id) == [StepEnded(0, RunState.SUCCEEDED)]
        assert await store.reconcile_flows(ALL_SHARDS, now=at(4), limit=10) == []
