"""Reads the secrets in Vault once, to tell what is wrong with the settings of this host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainspring.core.vault import place_of
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.config.sources import Choices


async def find_vault_problems(choices: Choices, environment: Mapping[str, str]) -> list[InvalidInput]:
    """Return why secrets in Vault cannot be read from here, each named by its setting. No value is shown.

    Args:
        environment: the variables, which may say where Vault is and hold a token.
    """
    if not count_in_vault(choices):
        return []
    from mainspring.runtime import find_unread

    try:
        unread = await find_unread(choices["secrets"].value, lambda name: choices[name].value, environment)
    except InvalidInput as error:
        return [choices.tell(error)]
    return [InvalidInput(f"secrets.{name}", f"cannot be read: {problem}") for name, problem in unread.items()]


def count_in_vault(choices: Choices) -> int:
    """Return how many secrets of the settings are in Vault."""
    return sum(place_of(place.source) is not None for place in choices["secrets"].value)
