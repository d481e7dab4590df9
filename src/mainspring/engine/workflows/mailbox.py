"""Which mail of a node's shards is looked at next."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mainspring.ports.store.flows import KeptMail

FULL_LOOK = 30.0
"""Seconds between two looks at all mail of a shard, however old it may be."""
LAG = 2.0
"""Seconds that a transaction may take from when its mail got a number until the mail is seen, without having to wait
for the next full look."""


class MailScan:
    """Where looks at mail begin, so that they do not pass what was removed long ago, and miss nothing for long.

    A look begins at the lowest number that was seen in the period before the last `LAG`. Shards take turns in being
    first, since a look ends when it has found enough.
    """

    def __init__(self) -> None:
        self._lows: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        self._turned_at = -1.0e9
        self._full_at = -1.0e9
        self._first = 0

    def lows(self, at: float) -> dict[int, int]:
        """Return where the look at each shard begins; shards without an entry begin at their first mail.

        Args:
            at: now, in monotonic seconds.
        """
        if at - self._full_at >= FULL_LOOK:
            self._full_at = at
            return {}
        if at - self._turned_at >= LAG:
            self._turned_at = at
            self._lows |= self._seen
            self._seen = {}
        return self._lows

    def order(self, shards: Collection[int]) -> list[int]:
        """Return the shards in the order in which they are looked at: another one is first each time."""
        ordered = sorted(shards)
        self._first = next((shard for shard in ordered if shard > self._first), ordered[0])
        place = ordered.index(self._first)
        return ordered[place:] + ordered[:place]

    def note(self, mails: Sequence[KeptMail]) -> None:
        """Note what a look has found."""
        for mail in mails:
            shard, number = mail.place.shard, mail.place.number
            self._seen[shard] = min(self._seen.get(shard, number), number)

    def keep(self, shards: Collection[int]) -> None:
        """Forget what is known of other shards: if they come back, their mail is looked at from the first on."""
        if not self._lows.keys() <= set(shards):
            self._lows = {shard: low for shard, low in self._lows.items() if shard in shards}
        if not self._seen.keys() <= set(shards):
            self._seen = {shard: low for shard, low in self._seen.items() if shard in shards}
