"""Keeps strangers who guess the keys of pings from loading the store.

A ping needs no access token, so everyone who reaches a server may try a key, and each try that has the form of one
costs a read. Keys that this server has seen go through in any case, so no stranger shuts out the jobs.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.api.caller_rates import CallerRates
from mainspring.core.monitors import hash_key
from mainspring.core.rates import Rate

UNKNOWN_OF_ADDRESS = Rate(60, timedelta(minutes=1))
"""How often one address may ping with a key that this server has not seen; all of them may come at once."""
UNKNOWN_IN_ALL = Rate(100, timedelta(seconds=1))
"""The same for all addresses together, of which a stranger may have many."""
MOST_KNOWN = 10_000
_ALL = "everyone together"


class PingGate:
    """Lets pings through, those with unknown keys only so often."""

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}
        self._addresses = CallerRates(
            UNKNOWN_OF_ADDRESS, setting="the limit of unknown ping keys", burst=UNKNOWN_OF_ADDRESS.count
        )
        self._all = CallerRates(UNKNOWN_IN_ALL, setting="the limit of unknown ping keys")

    def let_in(self, key: str, address: str, *, now: datetime) -> None:
        """Let a ping through to the store.

        Raises:
            TooMany: there were too many with keys that are not known.
        """
        digest = hash_key(key)
        if digest is None or digest in self._known:  # without the form of a key, nothing is read
            return
        self._addresses.take(address, now=now)
        self._all.take(_ALL, now=now)

    def note_known(self, key: str, address: str) -> None:
        """Note that a monitor has this key: its ping does not count."""
        digest = hash_key(key)
        if digest is None or digest in self._known:
            return
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[digest] = None
        self._addresses.give_back(address)
        self._all.give_back(_ALL)

    def note_unknown(self, key: str) -> None:
        """Note that no monitor has this key, or not any more."""
        digest = hash_key(key)
        if digest is not None:
            self._known.pop(digest, None)
