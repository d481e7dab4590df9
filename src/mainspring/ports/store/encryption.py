"""Which keys the store's contents are encrypted with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mainspring.core.ciphertexts import EncryptionKey
from mainspring.core.ids import JobId


class EncryptionStore(Protocol):
    """What a process needs to know before it encrypts or decrypts what the store holds.

    Keys themselves are never in the store.
    """

    async def list_encryption_keys(self) -> list[EncryptionKey]:
        """Return the keys that anything was ever encrypted with, by id."""
        ...

    async def add_encryption_key(self, key: EncryptionKey) -> EncryptionKey:
        """Note a key before it is used, unless one of its id is noted; return what is noted.

        From then on, programs of releases that know no encryption do not open the store.
        """
        ...

    async def read_job_tenants(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        """Return whose jobs these are, deleted ones too; unknown ones are left out."""
        ...
