"""Whom an access token stands for: read once from the store, and kept until accounts or tokens change."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, TypeVar

from mainspring.core.access import TOKEN_BYTES, Identity, hash_token, prefix_of, write_token
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, IdSource, Waiter
from mainspring.ports.store import Store

T = TypeVar("T")
PERIOD = 1.0
"""Seconds between two looks at the revision: so long a revoked token may still work on another server."""
BLIND_SECONDS = 300.0
"""How long known tokens still work while the store cannot be asked."""
UNKNOWN_SECONDS = 5.0
"""How long a token that the store does not know is refused without asking again."""
LONGEST_KNOWN = 300.0
"""Seconds after which a token is asked for again, as long as the store answers. A database that failed over may have
lost it without a change of the revision."""
MOST_KNOWN = 10_000
USES_PERIOD = 60.0
_TRIES = 3


class KnownIdentity(NamedTuple):
    """An identity, and when it was read, in monotonic seconds."""

    identity: Identity
    read_at: float


class Identities:
    """Finds the identity behind a token, mostly without the store. A service keeps what it knows up to date.

    Attributes:
        on_change: called when accounts or tokens have changed.
    """

    name = "identities"

    def __init__(self, store: Store, *, clock: Clock, ids: IdSource, waiter: Waiter) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._own_token: str | None = None
        self.waiter: Waiter = waiter
        self.on_change: Callable[[], None] = _do_nothing
        self._revision = 0
        self._is_open = True
        self._read_at = clock.monotonic()
        self._known: dict[bytes, KnownIdentity] = {}
        self._unknown: dict[bytes, float] = {}
        self._uses: set[str] = set()

    @property
    def is_open(self) -> bool:
        """Whether there is no account yet. Once there was one, it stays closed, even if a failover loses it."""
        return self._is_open

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
        """Read the revision. While the store is away, this goes on at the same pace, to know soon after it is back."""
        del now
        await self.hurry()
        return PERIOD

    async def hurry(self) -> None:
        """Do the same as `refresh`, or leave it to the next tick if the store does not answer."""
        with suppress(StoreUnavailable):
            await self.refresh()

    async def refresh(self) -> None:
        """Forget what has changed since the revision was read last.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        revision = await self._store.read_access_revision()
        self._read_at = self._clock.monotonic()
        if revision != self._revision:  # lower after a failover that lost changes
            self._revision = revision
            self._is_open = self._is_open and revision == 0
            self._known.clear()
            self.on_change()

    def recall(self, text: str) -> KnownIdentity | None:
        """Return whom a token stands for, if that is known; None if the store is to be asked.

        Raises:
            StoreUnavailable: what is known is too old.
        """
        found = self._known.get(hash_token(text))
        return found if found is not None and self.still_holds(found) else None

    def still_holds(self, known: KnownIdentity) -> bool:
        """Return whether what was recalled or looked up can still be gone by.

        Raises:
            StoreUnavailable: it is too old, and the store cannot be asked.
        """
        if known.identity.revision != self._revision:
            return False
        now = self._clock.monotonic()
        blind = now - self._read_at
        if blind > BLIND_SECONDS:
            raise StoreUnavailable("whether the access token still works could not be asked for five minutes")
        return now - known.read_at <= LONGEST_KNOWN or blind >= 2 * PERIOD

    async def look_up(self, text: str) -> KnownIdentity | None:
        """Ask the store whom a token stands for; None if nobody.

        What was read before a change that is known by now is read again.

        Raises:
            StoreUnavailable: it does not answer.
        """
        prefix, digest = prefix_of(text), hash_token(text)
        if prefix is None:
            return None
        now = self._clock.monotonic()
        if now - self._unknown.get(digest, -UNKNOWN_SECONDS) < UNKNOWN_SECONDS:
            return None
        for _ in range(_TRIES):
            found = await self._store.find_token(prefix)
            if found is None or not hmac.compare_digest(found.hash, digest):
                _keep(self._unknown, digest, now)
                return None
            if found.identity.revision == self._revision:
                known = KnownIdentity(found.identity, now)
                _keep(self._known, digest, known)
                return known
            await self.refresh()
        raise StoreUnavailable("accounts and tokens change all the time")

    def note_use(self, identity: Identity) -> None:
        """Remember that a token was used."""
        self._uses.add(identity.token.prefix)

    def take_uses(self) -> set[str]:
        """Return the prefixes of the tokens that were used since this was called last."""
        uses, self._uses = self._uses, set()
        return uses

    def give_back_uses(self, uses: set[str]) -> None:
        """Remember what was taken and could not be kept."""
        self._uses |= uses


class TokenUses:
    """Keeps in the store when tokens were used. It is a service of its own, so that no slow write delays a look."""

    name = "token_uses"

    def __init__(self, store: Store, identities: Identities, *, waiter: Waiter) -> None:
        self._store = store
        self._identities = identities
        self.waiter: Waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Store what was used since the last tick."""
        uses = self._identities.take_uses()
        try:
            await self._store.note_token_uses(dict.fromkeys(uses, now))
        except BaseException:
            self._identities.give_back_uses(uses)
            raise
        return USES_PERIOD


def _keep(known: dict[bytes, T], digest: bytes, value: T) -> None:
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[digest] = value


def _do_nothing() -> None:
    """Nobody has to know of changes."""
