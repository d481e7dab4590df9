"""Who may end an attempt: only the session that holds the lease, and only once. A repeat gets the same answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from mainspring.core import outcomes
from mainspring.core.outcomes import Transition
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, HeldRun
from mainspring.ports.store.sessions import Beat
from mainspring.testing.conformance.completion import (
    APPLIED,
    MISSING,
    STALE,
    UNKNOWN_RUN,
    fail,
    give_back,
    lose,
    read_run,
    snooze,
    succeed,
    take_again,
)
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim,
    facts_of,
    read_held,
    running_run,
)


class StaleTokenIsRefusedLaw3:
    """A worker that no longer holds the lease changes nothing, whatever it reports."""

    __test__ = False

    async def _assert_refused(self, store: Store, held: HeldRun, *, now: float) -> None:
        """Check that every kind of report under this lease is stale and leaves no trace."""
        bare = outcomes.succeeded(held.run_id, held.token, held.session_id, b"42")
        reports = [
            bare,
            succeed(held),
            fail(held, now=now),
            lose(held, now=now),
            snooze(held, until=now),
            outcomes.cancelled(facts_of(held)),
        ]
        run = await read_run(store, held.run_id)
        attempts = await store.list_attempts(held.run_id)
        for report in reports:
            if (report.token, report.outcome) in {(row.token, row.outcome) for row in attempts}:
                continue  # this would repeat what was applied
            assert await store.apply([report], now=at(now)) == STALE, report.outcome
        assert await read_run(store, held.run_id) == run
        assert await store.list_attempts(held.run_id) == attempts

    async def test_late_report_of_a_session_that_has_the_run_again(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([give_back(held, now=1)], now=at(1))
        [again] = await claim(store, held.session_id, now=at(2))
        assert again.run_id == held.run_id
        assert again.token > held.token
        await self._assert_refused(store, held, now=3)

    async def test_late_report_after_a_loss(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([lose(held, now=5)], now=at(5))
        await self._assert_refused(store, held, now=6)

    async def test_late_report_after_a_hand_back(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([give_back(held, now=5)], now=at(5))
        await self._assert_refused(store, held, now=6)

    async def test_late_report_while_another_holds_the_run(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([lose(held, now=5)], now=at(5))
        again = await take_again(store, held.run_id, now=6, is_quarantined=True)
        await self._assert_refused(store, held, now=7)
        assert await store.apply([succeed(again)], now=at(8)) == APPLIED

    async def test_late_report_after_another_finished(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([lose(held, now=5)], now=at(5))
        again = await take_again(store, held.run_id, now=6, is_quarantined=True)
        await store.apply([succeed(again)], now=at(7))
        await self._assert_refused(store, held, now=8)

    async def test_another_outcome_under_an_applied_token(self, store: Store) -> None:
        for end in (
            succeed,
            lambda held: fail(held, now=5, retry=False),
            lambda held: snooze(held, until=5000),
        ):
            held = await running_run(store)
            assert await store.apply([end(held)], now=at(5)) == APPLIED
            others = [
                report for report in (succeed(held), lose(held, now=6)) if report.outcome != end(held).outcome
            ]
            run = await read_run(store, held.run_id)
            for other in others:
                assert await store.apply([other], now=at(6)) == STALE
            assert await read_run(store, held.run_id) == run

    async def test_success_under_a_token_that_never_was(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([succeed(held)], now=at(5))
        for token in (held.token - 1, held.token + 1, held.token + 2):
            guess = outcomes.succeeded(held.run_id, token, held.session_id, b"42")
            assert await store.apply([guess], now=at(6)) == STALE

    async def test_report_without_a_claim(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([give_back(held, now=5)], now=at(5))
        token = (await read_run(store, held.run_id)).token
        guess = outcomes.succeeded(held.run_id, token, held.session_id)
        assert await store.apply([guess], now=at(6)) == STALE, (
            "a token is valid only while the run is RUNNING"
        )

    async def test_report_of_a_cancelled_waiting_run(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([snooze(held, until=50)], now=at(5))
        await store.cancel_runs([held.run_id], reason="operator", now=at(6))
        await self._assert_refused(store, held, now=7)

    async def test_report_of_an_unknown_run(self, store: Store) -> None:
        end = outcomes.succeeded(UNKNOWN_RUN, 1, await add_session(store))
        assert await store.apply([end], now=START) == MISSING

    async def test_only_one_of_many_concurrent_ends_is_applied(self, store: Store) -> None:
        held = await running_run(store)
        reports = [succeed(held), fail(held, now=5), lose(held, now=5), give_back(held, now=5)]
        answers = await asyncio.gather(*(store.apply([report], now=at(5)) for report in reports))
        assert sorted(result for [result] in answers) == [ApplyResult.APPLIED] + [ApplyResult.STALE] * 3


class AnotherSessionIsRefusedLaw3:
    """A lease belongs to its session: another session changes nothing, even if it knows run and token."""

    __test__ = False

    async def _reports(self, store: Store, held: HeldRun, *, now: float) -> list[Transition]:
        """Return every kind of report by a live session that does not hold the lease."""
        stranger = replace(held, session_id=await add_session(store))
        return [
            succeed(stranger),
            outcomes.succeeded(held.run_id, held.token, stranger.session_id),
            fail(stranger, now=now),
            fail(stranger, now=now, retry=False),
            lose(stranger, now=now),
            give_back(stranger, now=now),
            snooze(stranger, until=now),
            outcomes.cancelled(facts_of(stranger)),
        ]

    async def test_report_for_a_first_attempt(self, store: Store) -> None:
        held = await running_run(store)
        run = await read_run(store, held.run_id)
        for report in await self._reports(store, held, now=5):
            assert await store.apply([report], now=at(5)) == STALE, report.outcome
        assert await read_run(store, held.run_id) == run
        assert await store.list_attempts(held.run_id) == []
        assert await store.apply([succeed(held)], now=at(6)) == APPLIED

    async def test_report_for_a_later_attempt(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([snooze(held, until=5)], now=at(5))
        again = await take_again(store, held.run_id, now=6)
        run = await read_run(store, held.run_id)
        for report in [*await self._reports(store, again, now=7), replace(succeed(held), token=again.token)]:
            assert await store.apply([report], now=at(7)) == STALE, report.outcome
        assert await read_run(store, held.run_id) == run
        assert await store.apply([fail(again, now=8)], now=at(8)) == APPLIED

    async def test_batch_of_several_sessions_takes_each_holders_own(self, store: Store) -> None:
        job = await add_job(store)
        held = [await running_run(store, job) for _ in range(3)]
        swapped = [replace(run, session_id=held[number - 1].session_id) for number, run in enumerate(held)]
        assert await store.apply([succeed(run) for run in swapped], now=at(5)) == STALE * 3
        mixed = [succeed(held[0]), succeed(swapped[1]), succeed(held[2])]
        assert await store.apply(mixed, now=at(5)) == [*APPLIED, *STALE, *APPLIED]
        assert await store.apply([succeed(held[1])], now=at(6)) == APPLIED

    async def test_stranger_in_the_same_batch_does_not_spoil_the_holders_report(self, store: Store) -> None:
        job = await add_job(store)
        for end in (
            succeed,
            lambda held: outcomes.succeeded(held.run_id, held.token, held.session_id, b"1"),
        ):
            for is_first in (True, False):
                held = await running_run(store, job)
                false = end(replace(held, session_id=await add_session(store)))
                batch = [false, end(held)] if is_first else [end(held), false]
                answers = await store.apply(batch, now=at(5))
                # After the holder's report, it repeats what was applied.
                assert answers == ([*STALE, *APPLIED] if is_first else APPLIED * 2)
                assert (await read_run(store, held.run_id)).session_id == held.session_id

    async def test_repeat_by_another_session_changes_nothing(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([succeed(held)], now=at(5))
        run = await read_run(store, held.run_id)
        stranger = replace(held, session_id=await add_session(store))
        assert await store.apply([succeed(stranger)], now=at(6)) == APPLIED
        assert await store.apply([fail(stranger, now=6)], now=at(6)) == STALE
        assert await read_run(store, held.run_id) == run

    async def test_heartbeat_says_nothing_of_another_sessions_lease(self, store: Store) -> None:
        held = await running_run(store)
        await store.cancel_runs([held.run_id], reason="operator", now=at(1))
        stranger = await add_session(store)
        lease = (held.run_id, held.token)
        [answer] = await store.beat_sessions([Beat(session_id=stranger, held=(lease,))], now=at(2))
        assert (answer.lost, answer.cancel) == ((lease,), ())
        await store.close_sessions([stranger], now=at(3))
        assert await store.list_orphans(limit=9) == []
        assert (await read_held(store, held.run_id)).session_id == held.session_id


class RepeatedReportIsApplied:
    """A report whose answer was lost is repeated. It gets the same answer, and has no second effect."""

    __test__ = False

    async def _assert_repeats(self, store: Store, report: Transition) -> None:
        assert await store.apply([report], now=at(5)) == APPLIED
        run = await read_run(store, report.run_id)
        attempts = await store.list_attempts(report.run_id)
        for second in (6, 7):
            assert await store.apply([report], now=at(second)) == APPLIED
        assert await read_run(store, report.run_id) == run
        assert await store.list_attempts(report.run_id) == attempts

    async def test_success(self, store: Store) -> None:
        await self._assert_repeats(store, succeed(await running_run(store)))

    async def test_failure_that_is_retried(self, store: Store) -> None:
        await self._assert_repeats(store, fail(await running_run(store), now=5))

    async def test_failure_for_good(self, store: Store) -> None:
        await self._assert_repeats(store, fail(await running_run(store), now=5, retry=False))

    async def test_snooze(self, store: Store) -> None:
        await self._assert_repeats(store, snooze(await running_run(store), until=50))

    async def test_hand_back(self, store: Store) -> None:
        await self._assert_repeats(store, give_back(await running_run(store), now=5))

    async def test_loss(self, store: Store) -> None:
        await self._assert_repeats(store, lose(await running_run(store), now=5))

    async def test_cancel(self, store: Store) -> None:
        held = await running_run(store)
        await store.cancel_runs([held.run_id], reason="operator", now=at(1))
        await self._assert_repeats(store, outcomes.cancelled(facts_of(held)))

    async def test_success_of_a_second_attempt(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([fail(held, now=1)], now=at(1))
        await self._assert_repeats(store, succeed(await take_again(store, held.run_id, now=11)))

    async def test_failure_before_the_run_went_on(self, store: Store) -> None:
        held = await running_run(store)
        report = fail(held, now=5)
        await store.apply([report], now=at(5))
        again = await take_again(store, held.run_id, now=15)
        assert await store.apply([report], now=at(16)) == APPLIED
        assert await store.apply([succeed(again)], now=at(17)) == APPLIED
        assert await store.apply([report], now=at(18)) == APPLIED
        assert len(await store.list_attempts(held.run_id)) == 2
