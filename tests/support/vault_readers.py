"""What reads from a Vault in tests: the keeper of secrets, with a clock that stands still and rounds on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainspring.core.vault import Login, VaultFailed, VaultPlace, VaultRules, place_of
from mainspring.ports.telemetry import Telemetry
from mainspring.testing.clock import ManualWaiter
from mainspring.vault import VaultSecrets
from tests.support.vaults import Vault


class _Middle:
    """Chance that is none."""

    def random(self) -> float:
        return 0.0


def place(text: str) -> VaultPlace:
    """Return where a secret is, from its text without `vault:`."""
    found = place_of(f"vault:{text}")
    assert found is not None
    return found


REPORTS = place("secret/reports#token")


class Reader:
    """A keeper with its signals."""

    def __init__(self, secrets: VaultSecrets, waiter: ManualWaiter, telemetry: Telemetry) -> None:
        self.secrets = secrets
        self.waiter = waiter
        self.telemetry = telemetry

    def reveal(self, where: VaultPlace = REPORTS) -> str:
        """Return the value that counts."""
        return self.secrets.reveal(where)

    def failure(self, where: VaultPlace = REPORTS) -> VaultFailed:
        """Return why there is none."""
        with pytest.raises(VaultFailed) as refused:
            self.secrets.reveal(where)
        return refused.value

    async def read_again(self) -> None:
        """Return after one more round."""
        before = self.secrets.rounds
        self.waiter.signal()
        while self.secrets.rounds == before:
            await asyncio.sleep(0)
            await self.waiter.until_waiting()

    def count(self, kind: str) -> float:
        """Return how often a read failed for a reason."""
        return self.telemetry.figures()[f"vault_failures_total.{kind}"]


@asynccontextmanager
async def reading(vault: Vault, login: Login, *places: VaultPlace, **rules: Any) -> AsyncIterator[Reader]:
    """Read secrets until the block ends.

    Args:
        rules: the other settings.
    """
    told = VaultRules(address=vault.address, login=login, **rules)
    waiter, telemetry = ManualWaiter(), Telemetry()
    secrets = VaultSecrets(
        told, places or (REPORTS,), monotonic=vault.clock.monotonic, random=_Middle(), waiter=waiter
    )
    async with secrets.running(telemetry):
        yield Reader(secrets, waiter, telemetry)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "vault"]
