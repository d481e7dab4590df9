"""The census and the tally of ended runs: what they count is what there is, whatever has been settled or removed."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.census import Census, DeadLine, EndedLine, LiveLine
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.model import Priority
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import Epochs
from mainspring.testing.conformance.completion import fail, snooze, succeed
from mainspring.testing.conformance.dead_letters import bury
from mainspring.testing.conformance.upkeep import DAY, prune_all
from mainspring.testing.factories import START, add_job, at, make_spec, own_shards, running_run, submit

ENDED = {RunState.SUCCEEDED: 2, RunState.FAILED: 1, RunState.SKIPPED: 1}


async def end_some(store: Store, *, now: datetime) -> None:
    """Let four runs of the tenant `default` end at an instant: two succeed, one fails, one is skipped."""
    job = await add_job(store)
    held = [await running_run(store, job) for _ in range(3)]
    await store.apply([succeed(held[0]), succeed(held[1]), fail(held[2], now=1, retry=False)], now=now)
    await submit(store, job, skip_reason="misfire", now=now)


async def settle(store: Store, before: datetime, epochs: Epochs) -> None:
    """Settle everything that ended before an instant."""
    while await store.settle_ends(before=before, epochs=epochs):
        pass


async def counts_of(store: Store) -> dict[RunState, int]:
    """Return the states of the tenant `default` that have runs."""
    return {state: runs for state, runs in (await store.count_runs("default")).items() if runs}


class CensusAndTally:
    """Ended runs are counted once, from the tally or from the history."""

    __test__ = False

    async def test_settling_changes_no_count(self, store: Store) -> None:
        epochs = await own_shards(store)
        await end_some(store, now=at(1))
        assert await counts_of(store) == ENDED
        for second in (1, 2, 2, 0):  # at the instant itself nothing has ended before it
            await settle(store, at(second), epochs)
            assert await counts_of(store) == ENDED
        await end_some(store, now=at(3))
        twice = {state: 2 * runs for state, runs in ENDED.items()}
        assert await counts_of(store) == twice
        await settle(store, at(60), epochs)
        assert await counts_of(store) == twice

    async def test_lines_are_those_of_one_tenant(self, store: Store) -> None:
        await end_some(store, now=at(1))
        job = await add_job(store, make_spec(queue="mail"))
        await submit(store, job, due_at=at(5))
        foreign = await add_job(store, tenant="foreign")
        await submit(store, foreign)
        counted = await store.count_lines("default")
        assert list(counted.live) == [LiveLine("default", "mail", RunState.PENDING, 1, at(5))]
        assert {line.state: line.runs for line in counted.ended} == ENDED

    async def test_dead_letters_are_counted_while_they_are_open(self, store: Store) -> None:
        mail = await add_job(store, make_spec(queue="mail"))
        foreign = await add_job(store, tenant="foreign")
        dead = [await bury(store, job) for job in (mail, mail, foreign)]
        assert sorted((await store.count_all_runs(overdue_before=START)).dead) == [
            DeadLine("default", "mail", 2),
            DeadLine("foreign", "default", 1),
        ]
        assert list((await store.count_lines("default")).dead) == [DeadLine("default", "mail", 2)]
        for run_id in dead[:2]:
            await store.discard_dead(
                "default", DeadFilter(run_ids=(run_id,)), reason="gone", now=at(9), limit=1
            )
        assert list((await store.count_lines("default")).dead) == []

    async def test_settling_adds_up_days_and_tenants(self, store: Store) -> None:
        epochs = await own_shards(store)
        for day in range(3):
            await end_some(store, now=START + day * DAY)
        foreign = await add_job(store, tenant="foreign")
        await submit(store, foreign, skip_reason="misfire", now=at(1))
        await settle(store, START + 9 * DAY, epochs)
        assert await counts_of(store) == {state: 3 * runs for state, runs in ENDED.items()}
        assert await store.count_runs("foreign") == {RunState.SKIPPED: 1}
        assert await store.count_runs("nobody") == {}

    async def test_what_is_removed_is_taken_off(self, store: Store) -> None:
        epochs = await own_shards(store)
        for day in (0, 1, 5):
            await store.prepare_history(now=START + day * DAY)
            await end_some(store, now=START + day * DAY)
        await settle(store, START + 4 * DAY, epochs)
        await prune_all(store, START + 3 * DAY)
        kept = {**ENDED, RunState.FAILED: 3}
        assert await counts_of(store) == kept
        await settle(store, START + 9 * DAY, epochs)
        assert await counts_of(store) == kept
        await prune_all(store, START + 40 * DAY)
        assert await counts_of(store) == {RunState.FAILED: 3}

    async def test_what_is_removed_before_it_is_settled_is_not_taken_off(self, store: Store) -> None:
        epochs = await own_shards(store)
        await end_some(store, now=at(1))
        await prune_all(store, START + 3 * DAY)
        assert await counts_of(store) == {RunState.FAILED: 1}
        await settle(store, START + 4 * DAY, epochs)
        assert await counts_of(store) == {RunState.FAILED: 1}

    async def test_part_of_a_day_is_taken_off(self, store: Store) -> None:
        epochs = await own_shards(store)
        for second in (1, 2, 3):
            await end_some(store, now=at(second))
        await settle(store, at(60), epochs)
        await store.prune_history(before=at(60), limit=2)
        left = await counts_of(store)
        assert sum(left.values()) == 10
        assert left[RunState.FAILED] == 3

    async def test_many_ends_at_one_instant_are_settled(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store)
        await submit(store, job, 6_000, skip_reason="misfire")
        await settle(store, at(1), epochs)
        assert await counts_of(store) == {RunState.SKIPPED: 6_000}

    async def test_all_live_runs_are_counted_by_tenant_queue_and_state(self, store: Store) -> None:
        mail, foreign = await add_job(store, make_spec(queue="mail")), await add_job(store, tenant="foreign")
        await submit(store, mail, 2, due_at=at(60))
        await submit(store, mail, due_at=at(30))
        held = await running_run(store, foreign)
        await submit(store, foreign, skip_reason="misfire")
        counted = await store.count_all_runs(overdue_before=START)
        assert sorted(counted.live) == [
            LiveLine("default", "mail", RunState.PENDING, 3, at(30)),
            LiveLine("foreign", "default", RunState.RUNNING, 1, START),
        ]
        assert list(counted.ended) == [EndedLine("foreign", RunState.SKIPPED, 1)]
        await store.apply([snooze(held, until=50)], now=at(1))
        counted = await store.count_all_runs(overdue_before=START)
        [waiting] = [line for line in counted.live if line.tenant == "foreign"]
        assert (waiting.state, waiting.earliest_ready_at) == (RunState.RETRYING, at(50))

    async def test_overdue_clocks_of_all_tenants_and_tiers_are_counted_with_them(self, store: Store) -> None:
        for number, priority in enumerate(Priority):
            await add_job(store, make_spec(priority=priority), next_fire_at=at(10 + number))
        await add_job(store, tenant="foreign", next_fire_at=at(20))
        await add_job(store)  # without a fire
        counts = [await store.count_all_runs(overdue_before=at(second)) for second in (10, 11, 20, 21)]
        assert [counted.overdue for counted in counts] == [0, 1, 3, 4]
        assert (await store.count_lines("foreign")).overdue == 0

    async def test_census_is_stored_as_a_whole(self, store: Store) -> None:
        epochs = await own_shards(store)
        assert await store.read_census() is None
        for second in (1, 2):
            census = Census(
                taken_at=at(second),
                took=timedelta(milliseconds=1.5),
                live=(LiveLine("default", "q\u00e4", RunState.PENDING, second, at(0.5)),),
                ended=(EndedLine("default", RunState.FAILED, 2**40),),
                dead=(DeadLine("default", "q\u00e4", 2**40),),
                is_cut=second == 2,
            )
            assert await store.put_census(census, epochs=epochs)
            assert await store.read_census() == census

    async def test_who_lost_shard_0_does_not_move_the_mark_law_3(self, store: Store) -> None:
        """What ends before a mark that was moved too far would be counted by nobody."""
        old = await own_shards(store, "node-1")
        new = await own_shards(store, "node-2")
        job = await add_job(store)
        for second, epochs in ((9, old), (19, {}), (29, {1: new[1]})):
            assert not await store.settle_ends(before=at(second), epochs=epochs)
            await submit(store, job, skip_reason="misfire", now=at(second - 5))
        assert await store.count_runs("default") == {RunState.SKIPPED: 3}
        counted = await store.count_all_runs(overdue_before=START)
        assert list(counted.ended) == [EndedLine("default", RunState.SKIPPED, 3)]
        await settle(store, at(60), new)
        assert await store.count_runs("default") == {RunState.SKIPPED: 3}

    async def test_who_lost_shard_0_neither_stores_nor_settles_law_3(self, store: Store) -> None:
        old = await own_shards(store, "node-1")
        census = Census(taken_at=START, took=timedelta(0), live=(), ended=())
        assert await store.put_census(census, epochs=old)
        new = await own_shards(store, "node-2")
        other = Census(taken_at=at(1), took=timedelta(0), live=(), ended=())
        for epochs in (old, {}, {1: new[1]}):
            assert not await store.put_census(other, epochs=epochs)
            assert not await store.settle_ends(before=at(9), epochs=epochs)
        assert await store.read_census() == census
        assert await store.put_census(other, epochs={0: new[0]})
        assert await store.read_census() == other
