"""From settings to the secrets of a process: those in variables and files, and those that are kept from Vault."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mainspring.clock import LoopWaiter, monotonic, system_random
from mainspring.config.secret_settings import SecretPlace
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.config.settings import Settings
from mainspring.config.vault_settings import Values, read_rules
from mainspring.core.vault import place_of
from mainspring.ports.secrets import Secrets
from mainspring.ports.telemetry import Telemetry

if TYPE_CHECKING:
    from mainspring.vault import VaultSecrets


def make_vault(
    places: Iterable[SecretPlace],
    values: Values,
    environment: Mapping[str, str] | None = None,
    *,
    is_quiet: bool = False,
) -> VaultSecrets | None:
    """Make what reads the secrets that are in Vault, without asking it; None if none is there.

    Args:
        values: the settings, by name.
        environment: the variables; by default those of this process.
        is_quiet: write nothing into the log.

    Raises:
        InvalidInput: the settings do not say where it is, or how to get in; or a certificate cannot be read.
    """
    in_vault = [found for place in places if (found := place_of(place.source)) is not None]
    if not in_vault:
        return None
    from mainspring.vault import VaultSecrets

    rules = read_rules(values, os.environ if environment is None else environment)
    return VaultSecrets(
        rules, in_vault, monotonic=monotonic, random=system_random(), waiter=LoopWaiter(), is_quiet=is_quiet
    )


class ProcessSecrets:
    """The secrets of one process, and what keeps those of Vault.

    Attributes:
        secrets: by name.

    Raises:
        InvalidInput: as with `make_vault`.
    """

    def __init__(self, settings: Settings) -> None:
        self._vault = make_vault(settings.secrets, settings.by_name)
        self.secrets: Secrets = ConfiguredSecrets(settings.secrets, vault=self._vault)

    @asynccontextmanager
    async def running(self, telemetry: Telemetry) -> AsyncIterator[None]:
        """Read what is in Vault, if anything is, and again until the block ends.

        Args:
            telemetry: what the process counts.
        """
        if self._vault is None:
            yield
            return
        async with self._vault.running(telemetry):
            yield


async def find_unread(
    places: Iterable[SecretPlace], values: Values, environment: Mapping[str, str]
) -> dict[str, str]:
    """Read the secrets that are in Vault once. Return why some cannot be read, by their names.

    Raises:
        InvalidInput: as with `make_vault`.
    """
    named = {place.name: place_of(place.source) for place in places}
    vault = make_vault(places, values, environment, is_quiet=True)
    problems = {} if vault is None else await vault.read_once()
    return {name: problems[place] for name, place in named.items() if place is not None and place in problems}
