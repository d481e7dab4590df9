"""What the store knows of the keys that its contents are encrypted with."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.ciphertexts import EncryptionKey
from mainspring.core.ids import JobId
from mainspring.ports.store import Store
from mainspring.ports.store.jobs import ClockChange
from mainspring.testing.factories import START, IdSequence, add_job, at

KEY = EncryptionKey("2026-11", b"\x00\xff check", START)


class EncryptionKeys:
    """Keys are noted once; jobs never change their tenants."""

    __test__ = False

    async def test_key_is_noted_once(self, store: Store) -> None:
        assert await store.list_encryption_keys() == []
        assert await store.add_encryption_key(KEY) == KEY
        other = EncryptionKey("2026-10", b"other", at(5))
        assert await store.add_encryption_key(other) == other
        assert await store.list_encryption_keys() == [other, KEY]

    async def test_key_of_a_known_id_stays_what_it_is(self, store: Store) -> None:
        await store.add_encryption_key(KEY)
        assert await store.add_encryption_key(replace(KEY, check=b"another", since=at(9))) == KEY
        assert await store.list_encryption_keys() == [KEY]

    async def test_tenants_of_jobs_are_known_of_deleted_ones_too(self, store: Store) -> None:
        one, two = await add_job(store, tenant="a"), await add_job(store, tenant="b")
        change = ClockChange(job_id=two.id, revision=two.revision, fire_at=two.next_fire_at)
        await store.delete_jobs([change], now=at(1))
        unknown = JobId(IdSequence().new_job_id(shard=9))
        assert await store.read_job_tenants([one.id, unknown, two.id]) == {one.id: "a", two.id: "b"}
        assert await store.read_job_tenants([]) == {}
