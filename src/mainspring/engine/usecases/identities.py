"""Whom an access token stands for: read once from the store, and kept until accounts or tokens change."""

from __future__ import annotations

import hmac
from datetime import datetime
from typing import NamedTuple

from mainspring.core.access import TOKEN_BYTES, Identity, hash_token, prefix_of, write_token
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, IdSource, Waiter
from mainspring.ports.store import Store

PERIOD = 1.0
"""Seconds between two looks at the revision: so long a revoked token may still work on another server."""
BLIND_SECONDS = 300.0
"""How long known tokens still work while the store cannot be asked."""
UNKNOWN_SECONDS = 5.0
"""How long a token that the store does not know is refused without asking again."""
MOST_KNOWN = 10_000
_USES_PERIOD = 60.0


class _Unknown(NamedTuple):
    """A token that the store did not know."""

    seen_at: float


class Identities:
    """Finds the identity behind a token, mostly without the store. A service keeps what it knows up to date."""

    name = "identities"

    def __init__(self, store: Store, *, clock: Clock, ids: IdSource, waiter: Waiter) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._own_token: str | None = None
        self.waiter: Waiter = waiter
        self._revision = 0
        self._read_at = clock.monotonic()
        self._known: dict[bytes, Identity | _Unknown] = {}
        self._uses: dict[str, datetime] = {}
        self._uses_kept_at = clock.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether there is no account yet."""
        return self._revision == 0

    @property
    def own_token(self) -> str:
        """A token that only this process knows, by which its own app calls its API. The store does not have it."""
        if self._own_token is None:
            self._own_token = write_token(self._ids.new_secret(TOKEN_BYTES))
        return self._own_token

    def now(self) -> datetime:
        """Return the store's time."""
        return self._clock.now()

    async def tick(self, now: datetime) -> float:
        """Read the revision, and now and then keep when tokens were used."""
        del now
        await self.refresh()
        if self._clock.monotonic() - self._uses_kept_at >= _USES_PERIOD:
            uses, self._uses = self._uses, {}
            self._uses_kept_at = self._clock.monotonic()
            await self._store.note_token_uses(uses)
        return PERIOD

    async def refresh(self) -> None:
        """Forget what has changed since the revision was read last."""
        revision = await self._store.read_access_revision()
        self._read_at = self._clock.monotonic()
        if revision > self._revision:
            self._revision = revision
            self._known.clear()

    def recall(self, text: str) -> Identity | None:
        """Return whom a token stands for, if that is known; None if the store is to be asked.

        Raises:
            StoreUnavailable: what is known is too old.
        """
        found = self._known.get(hash_token(text))
        if not isinstance(found, Identity) or found.revision < self._revision:
            return None
        if self._clock.monotonic() - self._read_at > BLIND_SECONDS:
            raise StoreUnavailable("whether the access token still works could not be asked for five minutes")
        return found

    async def look_up(self, text: str) -> Identity | None:
        """Ask the store whom a token stands for; None if nobody.

        Raises:
            StoreUnavailable: it does not answer.
        """
        prefix, digest = prefix_of(text), hash_token(text)
        if prefix is None:
            return None
        known = self._known.get(digest)
        if isinstance(known, _Unknown) and self._clock.monotonic() - known.seen_at < UNKNOWN_SECONDS:
            return None
        found = await self._store.find_token(prefix)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        if found is None or not hmac.compare_digest(found.hash, digest):
            self._known[digest] = _Unknown(self._clock.monotonic())
            return None
        # What was read before a change that is known by now is not recalled: its revision is lower.
        self._known[digest] = found.identity
        return found.identity

    def note_use(self, identity: Identity, now: datetime) -> None:
        """Remember that a token was used."""
        self._uses[identity.token.prefix] = now
