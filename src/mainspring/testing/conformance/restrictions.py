"""Pauses: nothing is given out that was chosen before one, by whatever claim."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core import outcomes
from mainspring.core.ids import SessionId
from mainspring.core.limits import JobLimit
from mainspring.core.model import Run
from mainspring.core.pauses import KEPT, Pause, PauseKey, PauseMode, PauseScope
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, ClaimResult
from mainspring.ports.store.limits import LineClaim, LineClaimResult, LineQuota
from mainspring.ports.store.restrictions import Restrictions
from mainspring.ports.store.sessions import Beat
from mainspring.testing.conformance.claiming import crashed_run
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    make_claim,
    make_new_run,
    make_spec,
    submit,
)

MAIL = PauseKey(PauseScope.QUEUE, "mail")
ALL = PauseKey(PauseScope.ALL, "")


def paused(key: PauseKey = MAIL, **facts: Any) -> Pause:
    """Make a pause."""
    values: dict[str, Any] = {"made_by": "ann", "since": START} | facts
    return Pause(scope=key.scope, name=key.name, **values)


async def restrictions_of(store: Store) -> Restrictions:
    """Return what restricts claims now."""
    found = await store.read_restrictions()
    assert found is not None
    return found


async def pauses_of(store: Store, seconds: float = 0) -> tuple[Pause, ...]:
    """Return the pauses that are on so many seconds after the start."""
    return (await restrictions_of(store)).pauses.on(at(seconds))


class LaneRestrictions:
    """What is paused is read by all processes, as of one instant."""

    __test__ = False

    async def test_nothing_is_paused_in_a_new_store(self, store: Store) -> None:
        found = await restrictions_of(store)
        assert (found.epoch, found.pauses.on(START)) == (0, ())
        assert await store.read_restrictions(known=found.epoch) is None

    async def test_what_was_paused_is_read_again(self, store: Store) -> None:
        tenant = PauseKey(PauseScope.TENANT, "acme")
        pauses = [
            paused(mode=PauseMode.SKIP, note="upgrade", until=at(60)),
            paused(tenant, made_by="bob"),
            paused(ALL, until=at(5)),
        ]
        before = await restrictions_of(store)
        assert await store.add_pauses(pauses, now=START) == []
        assert set(await pauses_of(store)) == set(pauses)
        after = await store.read_restrictions(known=before.epoch)
        assert after is not None
        assert after.epoch > before.epoch
        assert {pause.key for pause in await pauses_of(store, 5)} == {MAIL, tenant}

    async def test_a_pause_replaces_that_of_the_same(self, store: Store) -> None:
        await store.add_pauses([paused(note="a")], now=START)
        await store.add_pauses([paused(note="b", since=at(3), until=at(9))], now=at(3))
        assert await pauses_of(store, 3) == (paused(note="b", since=START, until=at(9)),)
        skipping = paused(mode=PauseMode.SKIP, since=at(4))
        await store.add_pauses([skipping], now=at(4))
        assert await pauses_of(store, 4) == (skipping,)
        twice = [paused(ALL, note="c"), paused(ALL, note="d")]
        await store.add_pauses(twice, now=START)
        assert await pauses_of(store, 4) == (twice[1], skipping)

    async def test_what_is_lifted_is_gone(self, store: Store) -> None:
        await store.add_pauses([paused(), paused(ALL, until=at(5))], now=START)
        epoch = (await restrictions_of(store)).epoch
        tenant = PauseKey(PauseScope.TENANT, "mail")
        assert await store.lift_pauses([tenant, MAIL], now=at(1)) == [False, True]
        found = await restrictions_of(store)
        assert found.epoch > epoch
        assert found.pauses.on(at(1)) == (paused(ALL, until=at(5)),)
        assert await store.lift_pauses([ALL, MAIL], now=at(5)) == [False, False]
        assert await store.add_pauses([], now=at(6)) == []
        assert await store.lift_pauses([], now=at(6)) == []
        assert await pauses_of(store, 6) == ()

    async def test_a_pause_that_ended_by_itself_is_kept_for_its_fires(self, store: Store) -> None:
        await store.add_pauses([paused(mode=PauseMode.SKIP, until=at(60))], now=START)
        [job] = [await add_job(store, make_spec(queue="mail"))]
        lane = make_new_run(job).lane
        soon, late = at(60), at(60) + KEPT
        for now, kept in ((soon, True), (late - timedelta(seconds=1), True), (late, False)):
            await store.add_pauses([paused(ALL, since=now, until=now + timedelta(seconds=1))], now=now)
            assert (await restrictions_of(store)).pauses.skips(lane, at(59)) is kept

    async def test_changes_at_once_are_all_kept(self, store: Store) -> None:
        keys = [PauseKey(PauseScope.QUEUE, f"q{n}") for n in range(8)]
        await asyncio.gather(*(store.add_pauses([paused(key)], now=START) for key in keys))
        assert {pause.key for pause in await pauses_of(store)} == set(keys)


_Claim = Callable[[Store, SessionId, int], Awaitable[ClaimResult | LineClaimResult | None]]


async def _claim_plain(store: Store, session: SessionId, epoch: int) -> ClaimResult:
    request = make_claim(session, await all_lanes(store), limit=9, policy_epoch=epoch)
    [result] = await store.claim_runs([request], now=at(1))
    return result


async def _claim_together(store: Store, session: SessionId, epoch: int) -> ClaimResult:
    lanes = await all_lanes(store)
    others = [await add_session(store) for _ in range(2)]
    now = (await restrictions_of(store)).epoch
    shared = make_claim(session, lanes)
    requests = [
        make_claim(one, lanes, limit=9, lows=shared.lows, quotas=shared.quotas, policy_epoch=epoch)
        for one in (session, *others)
    ]
    results = await store.claim_runs(requests, now=at(1))
    assert {result.is_policy_old for result in results} == {epoch != now}
    return results[0]


async def _claim_quarantined(store: Store, session: SessionId, epoch: int) -> ClaimResult:
    request = make_claim(session, await all_lanes(store), is_quarantined=True, policy_epoch=epoch)
    [result] = await store.claim_runs([request], now=at(1))
    return result


async def _claim_lined_up(store: Store, session: SessionId, epoch: int) -> LineClaimResult:
    lines = tuple(LineQuota(line.key, START, 9) for line in await store.read_lines(limit=9))
    request = LineClaim(
        session_id=session, number=make_claim(session, ()).number, limit=9, lines=lines, policy_epoch=epoch
    )
    [result] = await store.claim_lined_up([request], now=at(1))
    return result


async def _try(store: Store, session: SessionId, epoch: int) -> ClaimResult | None:
    return await store.try_claim(
        make_claim(session, await all_lanes(store), limit=9, policy_epoch=epoch), now=at(1)
    )


async def _submit_claimed(store: Store, session: SessionId, epoch: int) -> ClaimResult | None:
    job = await add_job(store, make_spec(queue="straight"))
    await store.cancel_runs(await submit(store, job), reason="test", now=START)
    lanes = tuple(lane.id for lane in await store.read_lanes(["straight"]))
    run = make_new_run(job, due_at=at(1))
    request = make_claim(session, lanes, policy_epoch=epoch)
    claimed = await store.submit_claimed(run, request=request, now=at(1))
    return None if claimed is None else ClaimResult((claimed,))


CLAIMS: dict[str, _Claim] = {
    "plain": _claim_plain,
    "together": _claim_together,
    "quarantined": _claim_quarantined,
    "lined up": _claim_lined_up,
    "speculative": _try,
    "straight": _submit_claimed,
}


async def prepare(store: Store) -> SessionId:
    """Open a session, and have three runs wait: a plain one, one in a line, and one that crashed a worker."""
    job = await add_job(store, make_spec(name="plain", queue="mail"))
    limited = await add_job(store, make_spec(name="limited", queue="mail", concurrency=(JobLimit(limit=5),)))
    await crashed_run(store, await add_job(store, make_spec(name="alone", queue="mail")))
    await submit(store, job)
    await submit(store, limited)
    return await add_session(store)


async def waiting_runs(store: Store) -> list[Run]:
    """Return the runs that wait."""
    return await store.list_runs("default", state=RunState.PENDING, limit=100)


class ClaimsKeepThePolicyEpoch:
    """A claim that was chosen before a change gives nothing, and does not use its number."""

    __test__ = False

    @pytest.mark.parametrize("kind", CLAIMS)
    async def test_claim_under_an_old_epoch_gives_nothing(self, store: Store, kind: str) -> None:
        old = (await restrictions_of(store)).epoch
        session = await prepare(store)
        await store.add_pauses([paused()], now=at(1))
        result = await CLAIMS[kind](store, session, old)
        if kind in ("speculative", "straight"):
            assert result is None
        else:
            assert result is not None
            assert (result.runs, result.is_session_live, result.is_policy_old) == ((), True, True)
        assert [run.state for run in await waiting_runs(store)] == [RunState.PENDING] * 3
        again = await CLAIMS[kind](store, session, (await restrictions_of(store)).epoch)
        assert again is not None
        assert (len(again.runs), again.is_policy_old) == (1, False)

    @pytest.mark.parametrize("kind", CLAIMS)
    async def test_claim_of_a_session_that_came_later_is_checked_too(self, store: Store, kind: str) -> None:
        await prepare(store)
        await store.add_pauses([paused()], now=at(1))
        session = await add_session(store)
        result = await CLAIMS[kind](store, session, 0)
        assert result is None or result.is_policy_old

    async def test_every_change_raises_the_epoch_of_all_sessions(self, store: Store) -> None:
        sessions = [await add_session(store) for _ in range(3)]
        for change in (store.add_pauses([paused()], now=START), store.lift_pauses([MAIL], now=START)):
            old = (await restrictions_of(store)).epoch
            await change
            requests = [make_claim(session, (), policy_epoch=old) for session in sessions]
            results = await store.claim_runs(requests, now=at(1))
            assert [result.is_policy_old for result in results] == [True] * 3

    async def test_the_number_of_an_old_claim_can_be_used_again(self, store: Store) -> None:
        session = await prepare(store)
        await store.add_pauses([paused()], now=at(1))
        lanes, epoch = await all_lanes(store), (await restrictions_of(store)).epoch
        old = make_claim(session, lanes, number=7)
        [refused] = await store.claim_runs([old], now=at(1))
        assert refused.is_policy_old
        [given] = await store.claim_runs(
            [make_claim(session, lanes, number=7, policy_epoch=epoch)], now=at(1)
        )
        assert len(given.runs) == 1
        # What was given before a change is still there: a repeat asks for nothing new.
        await store.lift_pauses([MAIL], now=at(2))
        [again] = await store.claim_runs(
            [make_claim(session, lanes, number=7, policy_epoch=epoch)], now=at(2)
        )
        assert [run.run_id for run in again.runs] == [run.run_id for run in given.runs]
        [late] = await store.claim_runs([make_claim(session, lanes, number=6, policy_epoch=epoch)], now=at(2))
        assert (late.runs, late.is_policy_old) == ((), False)

    async def test_a_session_that_has_ended_is_told_so(self, store: Store) -> None:
        session = await add_session(store)
        await store.close_sessions([session], now=START)
        await store.add_pauses([paused()], now=at(1))
        [result] = await store.claim_runs([make_claim(session, ())], now=at(1))
        assert not result.is_session_live

    async def test_runs_under_way_go_on(self, store: Store) -> None:
        session = await prepare(store)
        [run] = (await _claim_plain(store, session, 0)).runs
        await store.add_pauses([paused(), paused(ALL)], now=at(1))
        [beat] = await store.beat_sessions(
            [Beat(session_id=session, held=((run.run_id, run.token),), answered=10**9)], now=at(2)
        )
        assert (beat.is_session_live, beat.lost, beat.cancel) == (True, (), ())
        ending = outcomes.succeeded(run.run_id, run.token, session)
        assert await store.apply([ending], now=at(3)) == [ApplyResult.APPLIED]
        assert await store.read_held([run.run_id]) == [None]

    async def test_claims_beside_a_change_come_before_it_or_give_nothing(self, store: Store) -> None:
        job = await add_job(store, make_spec(queue="mail"))
        await submit(store, job, 40)
        sessions = [await add_session(store) for _ in range(8)]
        lanes = await all_lanes(store)
        answers: list[ClaimResult] = []

        async def claim_all(session: SessionId) -> None:
            for _ in range(5):
                answers.extend(await store.claim_runs([make_claim(session, lanes)], now=at(1)))

        async def pause() -> set[Any]:
            await store.add_pauses([paused()], now=at(1))
            return {run.id for run in await waiting_runs(store)}

        _, waiting, *_ = await asyncio.gather(
            claim_all(sessions[0]), pause(), *(claim_all(session) for session in sessions[1:])
        )
        assert {run.id for run in await waiting_runs(store)} == waiting
        given = [run.run_id for answer in answers for run in answer.runs]
        assert len(given) == 40 - len(waiting)
