"""The result of the last check of all ledgers: stored as a whole, by the owner of shard 0 alone."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.ledger_check import LedgerCheck, UnevenJob
from mainspring.ports.store import Store
from mainspring.testing.factories import START, IdSequence, at, own_shards

UNEVEN = UnevenJob(
    tenant="t\u00e4",
    job_id=IdSequence().new_job_id(shard=3),
    name="report",
    missing=2,
    surplus=1,
    first_at=at(0.5),
)
CHECK = LedgerCheck(
    began_at=START,
    ended_at=at(9),
    since=at(-86_400),
    jobs=2**40,
    uneven=1,
    expected=10_000_000,
    without_work=5,
    missing=2,
    surplus=1,
    examples=(UNEVEN,),
)


class LedgerChecks:
    """The last result replaces the one before."""

    __test__ = False

    async def test_result_is_stored_as_a_whole(self, store: Store) -> None:
        epochs = await own_shards(store)
        assert await store.read_ledger_check() is None
        for check in (CHECK, replace(CHECK, began_at=at(10), uneven=0, examples=())):
            assert await store.put_ledger_check(check, epochs=epochs)
            assert await store.read_ledger_check() == check

    async def test_who_lost_shard_0_stores_nothing_law_3(self, store: Store) -> None:
        old = await own_shards(store, "node-1")
        assert await store.put_ledger_check(CHECK, epochs=old)
        new = await own_shards(store, "node-2")
        other = replace(CHECK, began_at=at(10))
        for epochs in (old, {}, {1: new[1]}):
            assert not await store.put_ledger_check(other, epochs=epochs)
        assert await store.read_ledger_check() == CHECK
        assert await store.put_ledger_check(other, epochs={0: new[0]})
        assert await store.read_ledger_check() == other
