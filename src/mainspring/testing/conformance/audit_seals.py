"""Seals of the audit: a chain over all entries, set by the owner of shard 0 only."""

from __future__ import annotations

import asyncio
from datetime import datetime

from mainspring.core.audit import KeptEntry
from mainspring.core.audit_seals import AuditSeal, find_fault
from mainspring.core.queues import Queue
from mainspring.ports.store import Store
from mainspring.testing.conformance.audit import kept, note
from mainspring.testing.factories import START, at, own_shards


async def write(store: Store, *names: str, seconds: float = 0) -> None:
    """Write an entry about each of these."""
    for name in names:
        await store.write_queues(
            [Queue(name=name)], audit=note(name, at=at(seconds), after={"n": [1.5, "ä"]})
        )


async def chain(store: Store, *, checked_from: datetime = START) -> list[tuple[AuditSeal, list[KeptEntry]]]:
    """Return all seals with what they cover, of which none is broken."""
    seals = await store.list_seals(after=0, limit=1000)
    found = [(seal, await store.list_sealed(seal.id)) for seal in seals]
    last: AuditSeal | None = None
    for seal, entries in found:
        assert find_fault(seal, last, entries, checked_from=checked_from) is None
        last = seal
    return found


class EntriesAreSealed:
    """Each entry gets one seal, and each seal follows the one before."""

    __test__ = False

    async def test_seals_follow_each_other(self, store: Store) -> None:
        epochs = await own_shards(store)
        assert await store.seal_audit(epochs=epochs, now=at(1), limit=100) is None
        await write(store, "a", "b", "c")
        first = await store.seal_audit(epochs=epochs, now=at(1), limit=2)
        second = await store.seal_audit(epochs=epochs, now=at(2), limit=2)
        assert await store.seal_audit(epochs=epochs, now=at(3), limit=2) is None
        assert first is not None
        assert second is not None
        assert (first.id, first.at, first.entries, first.previous) == (1, at(1), 2, None)
        assert (second.id, second.at, second.entries, second.previous) == (2, at(2), 1, first.digest)
        found = await chain(store)
        assert [seal for seal, _ in found] == [first, second]
        assert [[one.entry.subject_id for one in entries] for _, entries in found] == [["a", "b"], ["c"]]
        assert [one.seal for one in await kept(store)] == [1, 1, 2]
        assert await store.list_seals(after=1, limit=100) == [second]
        assert await store.list_seals(after=0, limit=1) == [first]

    async def test_only_the_owner_of_the_first_shard_seals(self, store: Store) -> None:
        epochs = await own_shards(store)
        await write(store, "a")
        for others in ({}, {**epochs, 0: epochs[0] + 1}, {shard: epochs[shard] for shard in range(1, 256)}):
            assert await store.seal_audit(epochs=others, now=at(1), limit=100) is None
        assert [one.seal for one in await kept(store)] == [None]

    async def test_two_calls_at_once_seal_each_entry_once(self, store: Store) -> None:
        epochs = await own_shards(store)
        await write(store, *"abcd")
        calls = [store.seal_audit(epochs=epochs, now=at(1), limit=100) for _ in range(4)]
        seals = [seal for seal in await asyncio.gather(*calls) if seal is not None]
        assert [(seal.id, seal.entries) for seal in seals] == [(1, 4)]
        await chain(store)

    async def test_no_seal_is_set_before_the_last(self, store: Store) -> None:
        epochs = await own_shards(store)
        for seconds in (20.000001, 10):  # another server seals, whose clock is behind
            await write(store, "a")
            await store.seal_audit(epochs=epochs, now=at(seconds), limit=100)
        assert [seal.at for seal, _ in await chain(store)] == [at(20.000001)] * 2

    async def test_old_seals_go_but_for_the_newest_of_them(self, store: Store) -> None:
        epochs = await own_shards(store)
        for seconds in (10, 20, 30):
            await write(store, "a", seconds=seconds - 1)
            await store.seal_audit(epochs=epochs, now=at(seconds), limit=100)
        digests = [seal.digest for seal, _ in await chain(store)]
        await store.prune_history(before=START, limit=100, audit_before=at(15))
        assert await store.read_audit_horizon() == at(15)
        assert [seal.id for seal, _ in await chain(store, checked_from=at(15))] == [1, 2, 3]
        await store.prune_history(before=START, limit=100, audit_before=at(20.5))
        assert [seal.id for seal in await store.list_seals(after=0, limit=100)] == [2, 3]
        await store.prune_history(before=START, limit=100, audit_before=at(1000))
        assert [seal.id for seal in await store.list_seals(after=0, limit=100)] == [3]
        await write(store, "b", seconds=2000)
        following = await store.seal_audit(epochs=epochs, now=at(2000), limit=100)
        assert following is not None
        assert (following.id, following.previous) == (4, digests[2])

    async def test_an_entry_is_told_whose_seal_is_not_there(self, store: Store) -> None:
        epochs = await own_shards(store)
        assert await store.find_stray_entry(since=START) is None
        for number, written in enumerate(
            (9, 5000, 25, 35)
        ):  # the second one is written by a clock that is ahead
            await write(store, str(number), seconds=written)
            await store.seal_audit(epochs=epochs, now=at(10 * (number + 1)), limit=100)
        assert await store.find_stray_entry(since=START) is None
        await store.prune_history(before=START, limit=100, audit_before=at(100))
        assert [seal.id for seal in await store.list_seals(after=0, limit=100)] == [4]
        stray = await store.find_stray_entry(since=at(5000))
        assert stray is not None
        assert (stray.entry.subject_id, stray.seal) == ("1", 2)
        assert await store.find_stray_entry(since=at(5000.1)) is None

    async def test_the_horizon_only_moves_on(self, store: Store) -> None:
        for seconds in (60, 30):
            await store.prune_history(before=START, limit=100, audit_before=at(seconds))
        assert await store.read_audit_horizon() == at(60)
