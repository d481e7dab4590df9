"""Blackouts: kept like pauses, by the calendars' versions, and exact where one begins."""

from __future__ import annotations

from typing import Any

from mainspring.core.blackouts import Blackout
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.pauses import PauseKey, PauseMode, PauseScope
from mainspring.ports.store import Store
from mainspring.ports.store.calendars import CalendarDeletion
from mainspring.ports.store.restrictions import BlackoutsWritten
from mainspring.testing.conformance.calendars import make_calendar, write
from mainspring.testing.conformance.restrictions import ALL, MAIL, paused, restrictions_of
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    make_claim,
    make_spec,
    submit,
)

DONE = BlackoutsWritten()


def blackout(key: PauseKey = MAIL, **facts: Any) -> Blackout:
    """Make a blackout by version 1 of the calendar `holidays`."""
    values: dict[str, Any] = {
        "tenant": DEFAULT_TENANT,
        "calendar": "holidays",
        "version": 1,
        "made_by": "ann",
        "since": START,
    }
    return Blackout(scope=key.scope, name=key.name, **values | facts)


async def put(store: Store, *blackouts: Blackout, key: PauseKey = MAIL, seconds: float = 0) -> None:
    """Give a queue its blackouts."""
    revision = await store.read_calendar_revision()
    assert await store.set_blackouts(key, blackouts, revision=revision, now=at(seconds)) == DONE


async def blackouts_of(store: Store) -> tuple[Blackout, ...]:
    """Return all blackouts."""
    return (await restrictions_of(store)).blackouts


class BlackoutsAreKept:
    """Blackouts are read by all processes together with pauses, and go by versions of calendars."""

    __test__ = False

    async def test_they_replace_those_of_the_same_and_no_others(self, store: Store) -> None:
        await write(store, make_calendar(), make_calendar("nights"), make_calendar(tenant="acme"))
        tenant = PauseKey(PauseScope.TENANT, "mail")
        one = blackout(mode=PauseMode.SKIP, note="closed")
        others = (blackout(calendar="nights"), blackout(tenant="acme", is_pinned=True))
        await put(store, one, *others)
        await put(store, blackout(tenant), key=tenant)
        await put(store, blackout(ALL), key=ALL)
        await store.add_pauses([paused(until=at(60))], now=START)
        assert await blackouts_of(store) == (
            blackout(ALL),
            others[1],
            one,
            others[0],
            blackout(tenant),
        )
        assert (await restrictions_of(store)).pauses.on(START) == (paused(until=at(60)),)
        await put(store, others[0])
        assert await blackouts_of(store) == (blackout(ALL), others[0], blackout(tenant))
        await put(store)
        assert await blackouts_of(store) == (blackout(ALL), blackout(tenant))

    async def test_what_was_set_with_the_same_mode_goes_on_since_then(self, store: Store) -> None:
        await write(store, make_calendar())
        await put(store, blackout())
        await put(store, blackout(note="b", since=at(5)), seconds=5)
        assert await blackouts_of(store) == (blackout(note="b"),)
        skipping = blackout(mode=PauseMode.SKIP, since=at(6))
        await put(store, skipping, seconds=6)
        assert await blackouts_of(store) == (skipping,)

    async def test_nothing_is_written_by_calendars_that_have_changed(self, store: Store) -> None:
        revision = await write(store, make_calendar())
        await write(store, make_calendar("nights"))
        epoch = (await restrictions_of(store)).epoch
        written = await store.set_blackouts(MAIL, [blackout()], revision=revision, now=START)
        assert written == BlackoutsWritten(is_moved=True)
        found = await restrictions_of(store)
        assert (found.blackouts, found.epoch) == ((), epoch)

    async def test_they_follow_the_newest_version_unless_they_are_pinned(self, store: Store) -> None:
        await write(store, make_calendar(), make_calendar(tenant="acme"))
        await put(store, blackout(), blackout(tenant="acme"))
        await put(store, blackout(ALL, is_pinned=True), key=ALL)
        before = (await restrictions_of(store)).epoch
        await write(store, make_calendar(version=2, created_at=at(7)))
        found = await restrictions_of(store)
        assert found.epoch > before
        assert {(one.key, one.tenant): one.version for one in found.blackouts} == {
            (ALL, DEFAULT_TENANT): 1,
            (MAIL, DEFAULT_TENANT): 2,
            (MAIL, "acme"): 1,
        }
        await write(store, make_calendar("nights"))
        assert (await restrictions_of(store)).epoch == found.epoch

    async def test_a_calendar_that_one_names_is_not_deleted(self, store: Store) -> None:
        await write(store, make_calendar())
        await put(store, blackout(is_pinned=True))

        async def delete() -> CalendarDeletion:
            revision = await store.read_calendar_revision()
            return await store.delete_calendar(DEFAULT_TENANT, "holidays", revision=revision)

        assert await delete() is CalendarDeletion.IN_USE
        await put(store)
        assert await delete() is CalendarDeletion.DELETED


class BlackoutsTakeEffect:
    """No claim gives anything that was chosen before a blackout was set, followed a new version, or began."""

    __test__ = False

    async def gives(self, store: Store, session: Any, epoch: int, number: int) -> bool:
        """Say whether a claim that was chosen under a policy epoch gives the run that waits."""
        request = make_claim(session, await all_lanes(store), number=number, policy_epoch=epoch)
        [result] = await store.claim_runs([request], now=at(50))
        assert bool(result.runs) is not result.is_policy_old
        return bool(result.runs)

    async def test_each_change_refuses_what_was_chosen_before(self, store: Store) -> None:
        await write(store, make_calendar())
        job, session = await add_job(store, make_spec(queue="mail")), await add_session(store)
        await submit(store, job)
        epochs = [(await restrictions_of(store)).epoch]
        await put(store, blackout(), seconds=1)
        epochs.append((await restrictions_of(store)).epoch)
        await write(store, make_calendar(version=2, created_at=at(2)))
        epochs.append((await restrictions_of(store)).epoch)
        await put(store, seconds=3)
        epochs.append((await restrictions_of(store)).epoch)
        assert await store.begin_blackouts(at(4), now=at(4.5))
        epochs.append((await restrictions_of(store)).epoch)
        assert sorted(set(epochs)) == epochs
        for epoch in epochs[:-1]:
            assert not await self.gives(store, session, epoch, 1)
        assert await self.gives(store, session, epochs[-1], 1)

    async def test_a_beginning_is_written_once(self, store: Store) -> None:
        assert await store.begin_blackouts(at(10), now=at(10.01))
        epoch = (await restrictions_of(store)).epoch
        assert not await store.begin_blackouts(at(10), now=at(10.02))
        assert not await store.begin_blackouts(at(9), now=at(10.03))
        assert (await restrictions_of(store)).epoch == epoch
        await store.add_pauses([paused(since=at(21))], now=at(21))
        assert not await store.begin_blackouts(at(20), now=at(21))
        assert await store.begin_blackouts(at(30), now=at(30))
