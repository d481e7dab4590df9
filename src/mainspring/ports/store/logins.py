"""How people sign in: passwords, accounts of an identity provider, and the sessions that a login begins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.access import Account
from mainspring.core.audit import AuditEntry
from mainspring.ports.store.access import NewToken


class SessionAdded(StrEnum):
    """What became of a session that was to begin."""

    ADDED = "added"
    TAKEN = "taken"
    """Its prefix is taken."""
    STALE = "stale"
    """What somebody signed in with holds no more: another password, a disabled account, or a token that is revoked,
    or ends before the session would."""


class LoginStore(Protocol):
    """Passwords, the subjects of identity providers, and sessions. A session is a token; see `AccessToken.login`."""

    async def find_password(self, account: str) -> str | None:
        """Return what the store keeps of an account's password; None if it has none, or there is no such account."""
        ...

    async def find_subject(self, issuer: str, subject: str) -> Account | None:
        """Return the account of somebody whom an identity provider knows; None if there is none."""
        ...

    async def write_password(
        self,
        account: str,
        password: str,
        *,
        expected: str | None,
        spares: str | None,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        """Set what is kept of an account's password, and end the sessions that began without a token.

        All that was begun in those sessions ends, too.

        Args:
            expected: what is kept of it now; otherwise nothing changes.
            spares: the prefix of the one session that goes on.

        Returns:
            Whether it is set. False also if there is no such account, or it signs in at an identity provider.
        """
        ...

    async def add_session(
        self,
        new: NewToken,
        *,
        password: str | None,
        forgets: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> SessionAdded:
        """Insert a session, and keep when its account signed in, unless that was by a token.

        One that `replaces` another session takes the place of that, which is revoked at once. It is `STALE` if that is
        unknown, or was revoked before.

        Args:
            password: what is kept of the password with which somebody signed in; None if that was something else.
            forgets: the account's sessions that expired before this instant are deleted.
        """
        ...

    async def add_audit(self, audit: Sequence[AuditEntry]) -> None:
        """Write entries about what changes nothing here, such as a login that failed."""
        ...
