"""Mail to flows: whatever ends the run of a step tells its flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mainspring.core.applying import CancelVerdict
from mainspring.core.outcomes import Transition
from mainspring.core.states import RunState
from mainspring.core.workflows.answers import StepAnswer
from mainspring.core.workflows.mail import FlowNotice, Mail, SkipStep, StepEnded
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.waits import AnswerKind
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, HeldRun
from mainspring.ports.store.flows import PostedMail, PostVerdict
from mainspring.testing.conformance.audit import kept, note
from mainspring.testing.conformance.completion import fail, give_back, lose, read_run, snooze, succeed
from mainspring.testing.conformance.firing import ALL_SHARDS
from mainspring.testing.conformance.flows import (
    claim_step,
    contents,
    end_of,
    make_start,
    make_step_run,
    make_turn,
    start_flow,
)
from mainspring.testing.factories import (
    add_job,
    add_session,
    at,
    claim,
    own_shards,
    read_held,
    running_run,
    submit,
)

POSTED, MISSING = PostVerdict


class FlowMail:
    """Whatever ends the run of a step tells its flow, once; other runs tell nobody."""

    __test__ = False

    async def test_every_end_of_an_attempt_is_told(self, store: Store) -> None:
        ends: dict[Callable[[HeldRun], Transition], RunState] = {
            succeed: RunState.SUCCEEDED,
            lambda held: replace(succeed(held), output="text"): RunState.SUCCEEDED,
            lambda held: fail(held, now=2, retry=False): RunState.FAILED,
        }
        for end, state in ends.items():
            flow_id = await start_flow(store, await add_job(store), 3)
            held = await claim_step(store, flow_id, 3)
            assert await store.apply([end(held)], now=at(2)) == [ApplyResult.APPLIED]
            assert await store.apply([end(held)], now=at(3)) == [ApplyResult.APPLIED]
            assert await contents(store, flow_id) == [StepEnded(3, state)]
            [run] = await store.list_flow_runs(flow_id)
            assert (run.state, run.place) == (state, StepPlace(flow_id, 3))

    async def test_commands_are_posted_to_flows_that_exist(self, store: Store) -> None:
        epochs = await own_shards(store)
        flow_id = await start_flow(store, await add_job(store), 0)
        over = await start_flow(store, await add_job(store))
        end = await end_of(store, over, RunState.SUCCEEDED)
        await store.turn_flows([await make_turn(store, over, end=end)], epochs=epochs, now=at(1))
        answer = StepAnswer(3, AnswerKind.APPROVE, b'{"by":"anna"}')
        told: list[Mail] = [FlowNotice.PAUSE, SkipStep(4), answer, FlowNotice.RESUME]
        posted = [PostedMail(flow_id, mail) for mail in told]
        missing = PostedMail(over, FlowNotice.PAUSE)
        assert await store.post_mail([posted[0], missing, *posted[1:]]) == [
            POSTED,
            MISSING,
            POSTED,
            POSTED,
            POSTED,
        ]
        assert await contents(store, flow_id) == told
        assert await contents(store, over) == []
        assert await store.post_mail([]) == []
        await store.post_mail([missing], audit=note())
        assert await kept(store) == []
        await store.post_mail([PostedMail(flow_id, FlowNotice.PAUSE)], audit=note())
        assert len(await kept(store)) == 1

    async def test_what_goes_on_is_not_told(self, store: Store) -> None:
        ends: list[Callable[[HeldRun], Transition]] = [
            lambda held: fail(held, now=2),
            lambda held: lose(held, now=2),
            lambda held: give_back(held, now=2),
            lambda held: snooze(held, until=50),
        ]
        for end in ends:
            flow_id = await start_flow(store, await add_job(store), 0)
            held = await claim_step(store, flow_id, 0)
            assert await store.apply([end(held)], now=at(2)) == [ApplyResult.APPLIED]
            assert await contents(store, flow_id) == []

    async def test_a_success_after_a_retry_is_told(self, store: Store) -> None:
        flow_id = await start_flow(store, await add_job(store), 0)
        held = await claim_step(store, flow_id, 0)
        await store.apply([give_back(held, now=2)], now=at(2))
        [claimed] = await claim(store, await add_session(store), now=at(3))
        await store.apply([succeed(await read_held(store, claimed.run_id))], now=at(4))
        assert await contents(store, flow_id) == [StepEnded(0, RunState.SUCCEEDED)]

    async def test_a_cancel_is_told_when_the_run_ends(self, store: Store) -> None:
        flow_id = await start_flow(store, await add_job(store), 0, 1)
        [first, second] = await store.list_flow_runs(flow_id)
        [claimed] = await claim(store, await add_session(store), limit=1)
        held = await read_held(store, claimed.run_id)
        other = second.id if held.run_id == first.id else first.id
        await store.cancel_runs([held.run_id, other], reason="operator", now=at(2))
        step = 0 if other == first.id else 1
        assert await contents(store, flow_id) == [StepEnded(step, RunState.CANCELLED)]
        await store.apply([fail(held, now=3)], now=at(3))
        told = await contents(store, flow_id)
        assert told[1:] == [StepEnded(1 - step, RunState.CANCELLED)]

    async def test_an_expired_run_is_told(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        run = make_step_run(job, held.run_id, 5, expires_at=at(10))
        await store.start_flows([make_start(job, held, runs=(run,), live=1)], now=at(0))
        [expired] = await store.expire_runs(now=at(10), limit=10)
        assert (await read_run(store, expired)).place == StepPlace(held.run_id, 5)
        assert await contents(store, held.run_id) == [StepEnded(5, RunState.SKIPPED)]

    async def test_runs_that_are_no_steps_tell_nobody(self, store: Store) -> None:
        job = await add_job(store)
        ends: list[Callable[[HeldRun], Transition]] = [succeed, lambda held: fail(held, now=2, retry=False)]
        for end in ends:
            held = await running_run(store, job)
            await store.apply([end(held)], now=at(2))
        [waiting] = await submit(store, job)
        await store.cancel_runs([waiting], reason="operator", now=at(3))
        assert await store.read_mail(ALL_SHARDS, lows={}, limit=10) == []

    async def test_a_cancel_of_what_the_engine_holds_is_told_once(self, store: Store) -> None:
        job = await add_job(store)
        flow_id = await start_flow(store, job, 0)
        for second in (1, 2):
            verdicts = await store.cancel_runs([flow_id], reason="operator", now=at(second))
            assert verdicts == [CancelVerdict.REQUESTED]
        assert await contents(store, flow_id) == [FlowNotice.CANCEL]
        run = await read_run(store, flow_id)
        assert (run.state, run.is_cancel_requested) == (RunState.RUNNING, True)

    async def test_mail_is_read_shard_by_shard_with_the_flows_revision(self, store: Store) -> None:
        epochs = await own_shards(store)
        flows = [await start_flow(store, await add_job(store, shard=shard), 0, 1) for shard in (9, 4)]
        await store.cancel_runs(
            [run.id for flow in flows for run in await store.list_flow_runs(flow)],
            reason="operator",
            now=at(1),
        )
        await store.turn_flows([await make_turn(store, flows[1], mails=())], epochs=epochs, now=at(2))
        mails = await store.read_mail([9, 4, 7], lows={}, limit=10)
        assert [(mail.place.shard, mail.flow_id, mail.revision) for mail in mails] == [
            *[(9, flows[0], 0)] * 2,
            *[(4, flows[1], 1)] * 2,
        ]
        assert [mail.place.number for mail in mails[:2]] == sorted(mail.place.number for mail in mails[:2])
        assert await store.read_mail([9, 4], lows={}, limit=3) == mails[:3]
        assert await store.read_mail([9, 4], lows={9: mails[1].place.number}, limit=3) == mails[1:]
        assert await store.read_mail([7], lows={}, limit=3) == []
        assert await store.read_mail([], lows={}, limit=3) == []
