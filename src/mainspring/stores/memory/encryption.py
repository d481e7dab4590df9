"""Which keys contents are encrypted with, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.ciphertexts import EncryptionKey
from mainspring.core.ids import JobId
from mainspring.stores.memory.tables import Tables


class MemoryEncryptionStore:
    """`EncryptionStore` in memory."""

    _tables: Tables

    async def list_encryption_keys(self) -> list[EncryptionKey]:
        return [key for _, key in sorted(self._tables.encryption_keys.items())]

    async def add_encryption_key(self, key: EncryptionKey) -> EncryptionKey:
        return self._tables.encryption_keys.setdefault(key.id, key)

    async def read_job_tenants(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        tenants = self._tables.tenants
        return {job_id: tenants[job_id] for job_id in job_ids if job_id in tenants}
