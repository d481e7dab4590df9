"""Turns of flows: written as a whole or not at all, and the ends of flows with their runs."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.fencing import ENGINE_SESSION
from mainspring.core.ids import SHARDS, RunId, run_shard
from mainspring.core.outcomes import AttemptOutcome, Transition
from mainspring.core.states import RunState
from mainspring.core.workflows.mail import FlowNotice, StepEnded
from mainspring.core.workflows.places import StepPlace
from mainspring.ports.store import Store
from mainspring.ports.store.flows import FlowValue, WokenFlow
from mainspring.ports.store.runs import SubmitResult
from mainspring.testing.conformance.completion import fail, read_run, succeed
from mainspring.testing.conformance.dead_letters import bury, redrive_of
from mainspring.testing.conformance.flows import (
    FENCED,
    LOST,
    STALE,
    STARTED,
    TURNED,
    claim_step,
    contents,
    end_of,
    make_start,
    make_step_run,
    make_turn,
    read_flow,
    read_mail,
    start_flow,
)
from mainspring.testing.factories import (
    add_job,
    add_session,
    at,
    claim,
    make_new_run,
    own_shards,
    read_held,
)


class FlowTurns:
    """A turn is written as a whole, by the owner of its shard, and only if nobody has turned the flow since."""

    __test__ = False

    async def test_a_turn_is_written(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0)
        await store.apply([succeed(await claim_step(store, flow_id, 0))], now=at(1))
        runs = (make_step_run(job, flow_id, 1), make_step_run(job, flow_id, 2, payload=b"{}"))
        turn = await make_turn(store, flow_id, state=b"second", live=2, runs=runs, goes_on=True)
        assert len(turn.mails) == 1
        assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [TURNED]
        flow = await read_flow(store, flow_id)
        assert (flow.revision, flow.state) == (1, b"second")
        assert await contents(store, flow_id) == [FlowNotice.GO_ON]
        found = await store.list_flow_runs(flow_id)
        assert [(run.place, run.state, run.payload) for run in found] == [
            (StepPlace(flow_id, 0), RunState.SUCCEEDED, None),
            (StepPlace(flow_id, 1), RunState.PENDING, None),
            (StepPlace(flow_id, 2), RunState.PENDING, b"{}"),
        ]
        assert await store.turn_flows([], epochs=epochs, now=at(2)) == []

    async def test_values_are_kept_until_the_flow_ends(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id, other_id = await start_flow(store, job, 0), await start_flow(store, job, 0)
        for each in (flow_id, other_id):
            values = (FlowValue(0, b"[1]"), FlowValue(3, b"\0\xff"))
            turn = await make_turn(store, each, live=1, values=values)
            assert await store.turn_flows([turn], epochs=epochs, now=at(1)) == [TURNED]
        turn = await make_turn(store, flow_id, live=1, values=(FlowValue(0, b"again"), FlowValue(1, b"2")))
        late = replace(turn, revision=0, values=(FlowValue(2, b"late"),))
        assert await store.turn_flows([late], epochs=epochs, now=at(2)) == [LOST]
        assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [TURNED]
        places = [StepPlace(flow_id, step) for step in (3, 0, 1, 2)]
        assert await store.read_flow_values([*places, places[1]]) == [b"\0\xff", b"[1]", b"2", None, b"[1]"]
        assert await store.read_flow_values([]) == []
        ending = await end_of(store, flow_id, RunState.SUCCEEDED)
        turn = await make_turn(store, flow_id, end=ending, drops_values=True)
        assert await store.turn_flows([turn], epochs=epochs, now=at(3)) == [TURNED]
        assert await store.read_flow_values(places) == [None] * 4
        assert await store.read_flow_values([StepPlace(other_id, 0)]) == [b"[1]"]

    async def test_a_flow_begins_with_what_it_takes_over(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        former = await bury(store, job)
        new = replace(redrive_of(job, former), flow_seed=b"seed\0")
        plain = make_new_run(job)
        made, other = [one.run_id for one in await store.submit_runs([new, plain], now=at(5))]
        assert made is not None
        assert other is not None
        again = await store.submit_runs([replace(new, flow_seed=b"other")], now=at(6))
        assert again == [SubmitResult(SubmissionVerdict.DUPLICATE, made)]
        wanted = [other, made, RunId(2**40), made, former]
        assert await store.read_flow_seeds(wanted) == [None, b"seed\0", None, b"seed\0", None]
        assert await store.read_flow_seeds([]) == []
        await claim(store, await add_session(store), limit=2, now=at(6))
        start = make_start(job, await read_held(store, made), values=(FlowValue(2, b"[1]"),))
        late = replace(start, token=start.token + 7, values=(FlowValue(3, b"late"),))
        assert await store.start_flows([late, start], now=at(6)) == [STALE, STARTED]
        places = [StepPlace(made, step) for step in (2, 3)]
        assert await store.read_flow_values(places) == [b"[1]", None]
        assert await store.read_flow_seeds([made]) == [b"seed\0"], "for its next attempt"
        ending = await end_of(store, made, RunState.SUCCEEDED)
        turn = await make_turn(store, made, end=ending, drops_values=True)
        assert await store.turn_flows([turn], epochs=epochs, now=at(7)) == [TURNED]
        assert await store.read_flow_seeds([made]) == [None]
        assert await store.read_flow_values(places) == [None, None]

    async def test_what_a_flow_would_have_begun_with_is_kept(self, store: Store) -> None:
        job = await add_job(store)
        ids: list[RunId] = []
        for _ in range(2):
            new = replace(redrive_of(job, await bury(store, job)), flow_seed=b"seed\0")
            [made] = await store.submit_runs([new], now=at(5))
            assert made.run_id is not None
            ids.append(made.run_id)
        assert await store.read_flow_states(ids) == [None, None]
        await claim(store, await add_session(store), limit=1, now=at(6))
        held = await read_held(store, ids[0])
        await store.apply([fail(held, now=6, retry=False)], now=at(6))
        await store.cancel_runs([ids[1]], reason="not now", now=at(6))
        assert await store.read_flow_states(ids) == [b"seed\0", b"seed\0"]

    async def test_a_run_that_is_tried_again_has_no_flow(self, store: Store) -> None:
        epochs = await own_shards(store)
        flow_id = await start_flow(store, await add_job(store))
        end = await end_of(store, flow_id, RunState.PENDING, ready_at=at(9))
        end = replace(end, outcome=AttemptOutcome.FAILED)
        turn = await make_turn(store, flow_id, state=b"last", end=end)
        assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [TURNED]
        assert await store.read_flow_states([flow_id]) == [None]

    async def test_what_steps_have_left_is_read(self, store: Store) -> None:
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0, 1, 2)
        other_id = await start_flow(store, job, 0)
        done, failed = await claim_step(store, flow_id, 0), await claim_step(store, flow_id, 1)
        await store.apply([succeed(done, b"[1]"), fail(failed, now=1, retry=False)], now=at(1))
        places = [StepPlace(flow_id, step) for step in (1, 2, 0, 7)]
        found = await store.read_step_ends([*places, StepPlace(other_id, 0), places[2]])
        assert [None if run is None else (run.id, run.result, run.error) for run in found] == [
            (failed.run_id, None, "boom"),
            None,
            (done.run_id, b"[1]", None),
            *(None, None),
            (done.run_id, b"[1]", None),
        ]
        assert await store.read_step_ends([]) == []

    async def test_a_turn_of_before_is_lost_as_a_whole(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0)
        await store.apply([succeed(await claim_step(store, flow_id, 0))], now=at(1))
        turn = await make_turn(store, flow_id, runs=(make_step_run(job, flow_id, 1),))
        unknown = replace(turn, flow_id=RunId(2**40), mails=(), runs=())
        assert await store.turn_flows([turn, unknown], epochs=epochs, now=at(2)) == [TURNED, LOST]
        late = replace(turn, runs=(make_step_run(job, flow_id, 2),), mails=())
        assert await store.turn_flows([turn], epochs=epochs, now=at(3)) == [LOST]
        assert await store.turn_flows([late], epochs=epochs, now=at(3)) == [LOST]
        assert len(await store.list_flow_runs(flow_id)) == 2

    async def test_a_turn_about_mail_that_is_gone_is_lost(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        lost, whole = [await start_flow(store, job, 0) for _ in range(2)]
        for flow_id in (lost, whole):
            [run] = await store.list_flow_runs(flow_id)
            await store.cancel_runs([run.id], reason="operator", now=at(1))
        turns = [await make_turn(store, flow_id) for flow_id in (lost, whole)]
        [place] = turns[0].mails
        torn = replace(turns[0], mails=(place, replace(place, number=place.number + 10**6)))
        foreign = replace(turns[0], mails=turns[1].mails)
        assert await store.turn_flows([torn, turns[1]], epochs=epochs, now=at(2)) == [LOST, TURNED]
        assert await store.turn_flows([foreign], epochs=epochs, now=at(2)) == [LOST]
        assert (await read_flow(store, lost)).revision == 0
        assert len(await read_mail(store, lost)) == 1

    async def test_who_has_lost_the_shard_is_fenced(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0)
        turn = await make_turn(store, flow_id)
        await own_shards(store, "node-2")
        assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [FENCED]
        assert await store.turn_flows([turn], epochs={}, now=at(2)) == [FENCED]
        assert (await read_flow(store, flow_id)).revision == 0

    async def test_flows_wake_in_the_order_of_their_timers(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        late, soon, never = [
            await start_flow(store, job, 0, wake_at=wake_at) for wake_at in (at(9), at(5), None)
        ]
        shards = [run_shard(flow_id) for flow_id in (late, soon, never)]

        async def woken(until: float, limit: int = 10) -> list[RunId]:
            return [one.flow_id for one in await store.read_woken(shards, until=at(until), limit=limit)]

        assert await woken(4.999999) == []
        assert await store.read_woken(shards, until=at(5), limit=10) == [WokenFlow(soon, 0, at(5))]
        assert await woken(9) == [soon, late]
        assert await woken(9, limit=1) == [soon]
        others = [shard for shard in range(SHARDS) if shard not in shards]
        assert await store.read_woken(others, until=at(9), limit=10) == []
        assert await store.read_woken([], until=at(9), limit=10) == []
        turns = [
            await make_turn(store, soon, wake_at=at(7)),
            await make_turn(store, late),
            await make_turn(store, never, wake_at=at(6)),
        ]
        assert await store.turn_flows(turns, epochs=epochs, now=at(2)) == [TURNED] * 3
        assert await store.read_woken(shards, until=at(9), limit=10) == [
            WokenFlow(never, 1, at(6)),
            WokenFlow(soon, 1, at(7)),
        ]
        end = await end_of(store, never, RunState.SUCCEEDED)
        ending = await make_turn(store, never, end=end, wake_at=at(3))
        assert await store.turn_flows([ending], epochs=epochs, now=at(3)) == [TURNED]
        assert await woken(9) == [soon], "what has ended does not wake"

    async def test_a_turn_cancels_runs_of_steps(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0)
        other = await start_flow(store, await add_job(store))
        held = await claim_step(store, flow_id, 0)
        await store.turn_flows(
            [await make_turn(store, flow_id, runs=(make_step_run(job, flow_id, 1),))],
            epochs=epochs,
            now=at(1),
        )
        turn = await make_turn(store, flow_id, cancels=(0, 1, 2), cancel_reason="workflow cancelled")
        ending = await make_turn(store, other, end=await end_of(store, other, RunState.SUCCEEDED))
        assert await store.turn_flows([turn, ending], epochs=epochs, now=at(2)) == [TURNED] * 2
        assert (await read_held(store, held.run_id)).is_cancel_requested
        [_, waiting] = await store.list_flow_runs(flow_id)
        assert (waiting.state, waiting.reason) == (RunState.CANCELLED, "workflow cancelled")
        assert await contents(store, flow_id) == [StepEnded(1, RunState.CANCELLED)]

    async def test_a_flow_ends_with_its_run(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job)
        end = await end_of(store, flow_id, RunState.SUCCEEDED, result=b"[]")
        turn = await make_turn(store, flow_id, state=b"last", end=end)
        assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [TURNED]
        run = await read_run(store, flow_id)
        assert (run.state, run.finished_at, run.result) == (RunState.SUCCEEDED, at(2), b"[]")
        assert await store.list_attempts(flow_id) == []
        assert await store.read_flows([flow_id]) == [None]
        assert await store.read_flow_states([flow_id]) == [b"last"]
        assert await store.turn_flows([turn], epochs=epochs, now=at(3)) == [LOST]

    async def test_a_flow_fails_with_its_run(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job)
        end = await end_of(store, flow_id, RunState.FAILED, reason="step_failed", error="step 'a' failed")
        turn = await make_turn(store, flow_id, state=b"last", end=end)
        assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [TURNED]
        run = await read_run(store, flow_id)
        assert (run.state, run.reason, run.error) == (RunState.FAILED, "step_failed", "step 'a' failed")
        [attempt] = await store.list_attempts(flow_id)
        assert (attempt.outcome, attempt.worker, attempt.host) == (AttemptOutcome.FAILED, "", None)
        assert await store.read_flow_states([flow_id]) == [b"last"]

    async def test_after_a_request_all_but_a_success_is_cancelled(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        for to, then in (
            (RunState.FAILED, RunState.CANCELLED),
            (RunState.SUCCEEDED, RunState.SUCCEEDED),
            (RunState.CANCELLED, RunState.CANCELLED),
        ):
            flow_id = await start_flow(store, job)
            turn = await make_turn(store, flow_id, end=await end_of(store, flow_id, to))
            await store.cancel_runs([flow_id], reason="operator", now=at(1))
            assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [TURNED]
            assert (await read_run(store, flow_id)).state is then
            assert await contents(store, flow_id) == [FlowNotice.CANCEL]

    async def test_an_end_under_another_lease_is_lost(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job)
        end = await end_of(store, flow_id, RunState.SUCCEEDED)
        for wrong in (replace(end, token=end.token - 1), replace(end, session_id=await add_session(store))):
            turn = await make_turn(store, flow_id, end=wrong)
            assert await store.turn_flows([turn], epochs=epochs, now=at(2)) == [LOST]
        assert (await read_run(store, flow_id)).state is RunState.RUNNING
        assert (await read_flow(store, flow_id)).revision == 0

    async def test_mail_without_a_flow_is_dropped(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        gone, kept = [await start_flow(store, job, 0) for _ in range(2)]
        for flow_id in (gone, kept):
            [run] = await store.list_flow_runs(flow_id)
            await store.cancel_runs([run.id], reason="operator", now=at(1))
        end = await end_of(store, gone, RunState.CANCELLED)
        await store.turn_flows([await make_turn(store, gone, mails=(), end=end)], epochs=epochs, now=at(2))
        [late] = await read_mail(store, gone)
        assert late.revision is None
        [other] = await read_mail(store, kept)
        await store.drop_mail([late.place, other.place])
        await store.drop_mail([])
        assert await contents(store, gone) == []
        assert len(await contents(store, kept)) == 1

    async def test_a_flow_that_was_retried_starts_anew(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0)
        await store.apply([fail(await claim_step(store, flow_id, 0), now=1, retry=False)], now=at(1))
        flow = await read_flow(store, flow_id)
        end = Transition(
            flow_id,
            flow.token,
            ENGINE_SESSION,
            RunState.RETRYING,
            AttemptOutcome.FAILED,
            ready_at=at(5),
            counts_attempt=True,
        )
        assert await store.turn_flows(
            [await make_turn(store, flow_id, end=end)], epochs=epochs, now=at(2)
        ) == [TURNED]
        [claimed] = await claim(store, await add_session(store), now=at(5))
        assert (claimed.run_id, claimed.attempt) == (flow_id, 2)
        held = await read_held(store, flow_id)
        assert await store.start_flows([make_start(job, held, 0)], now=at(6)) == [STARTED]
        assert (await read_flow(store, flow_id)).attempt == 2
        assert len(await store.list_flow_runs(flow_id)) == 2
