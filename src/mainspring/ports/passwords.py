"""What makes of a password the text that the store keeps, and compares the two."""

from __future__ import annotations

from typing import Protocol


class PasswordHasher(Protocol):
    """Hashes passwords slowly, so that one who has the store cannot try many."""

    async def hash(self, password: str) -> str:
        """Return what the store keeps of a password.

        Raises:
            MissingExtra: the extra `login` is not installed.
            TooMany: too many wait for their turn.
        """
        ...

    async def verify(self, kept: str | None, password: str) -> bool:
        """Return whether a password is the one of which the store keeps this.

        Args:
            kept: None is nothing. That takes as long, and is false.

        Raises:
            MissingExtra: the extra `login` is not installed.
            TooMany: too many wait for their turn.
        """
        ...
