"""How much each of several parties has been given, by weight, so that the one that is furthest behind goes next.

This is start-time fair queueing (Goyal, Vin and Cheng, 1996), with a bound on how far a party may be ahead.
"""

from __future__ import annotations

from collections.abc import Container

MOST_LEAD = 10.0
MOST_LEAD_STEPS = 10
"""By how much a party may be ahead of those that wait: the larger of so many seconds, and so many times what one claim
has given to one of them. Where workers differ in what they can do, some parties have workers for themselves, and get
ahead without harm to others. This bounds how long they wait when they meet."""
_FADE = 0.99
"""How fast the largest of these steps is forgotten."""
_MOST_SPARE = 1000
"""Parties that wait for nothing and are remembered all the same, at most about this many."""


class Shares:
    """The virtual time of each party: what it has been given, in seconds of slots, divided by its weight.

    Among those that wait, the one with the least virtual time goes next. So over time each gets its share, which is in
    proportion to its weight, however much the others want.

    Attributes:
        weights: those of parties that do not weigh 1; all above 0.
    """

    def __init__(self, weights: dict[str, float] | None = None) -> None:
        self.weights: dict[str, float] = {} if weights is None else weights
        self._times: dict[str, float] = {}
        self._least = 0.0
        self._step = 0.0
        self._prune_at = _MOST_SPARE

    def weight(self, party: str) -> float:
        """Return a party's weight."""
        return self.weights.get(party, 1.0)

    def time(self, party: str) -> float:
        """Return a party's virtual time."""
        return self._times.get(party, self._least)

    def welcome(self, party: str, unit: float) -> None:
        """Let a party that did not wait start one unit behind the one that is furthest behind, at least.

        So idleness earns no credit, and others that are new again and again do not pass those who wait. But what a
        party has got beyond that counts, or leaving and coming back would pay.
        """
        self._times[party] = max(self.time(party), self._least + unit / self.weight(party))

    def keep_up(self, party: str, unit: float) -> None:
        """Let a party that waits, and may not have waited just before, not be behind all that did."""
        if party in self._times:
            self._times[party] = max(self._times[party], self._least)
        else:
            self.welcome(party, unit)

    def advance(self, least: float) -> None:
        """Note the least virtual time of those that wait."""
        self._least = max(self._least, least)

    def charge(self, party: str, count: float, unit: float) -> None:
        """Note that a party has been given so many units, each of so many seconds."""
        amount = count * unit / self.weight(party)
        self._step = max(self._step * _FADE, amount)
        most = self._least + max(MOST_LEAD, MOST_LEAD_STEPS * self._step)
        self._times[party] = min(self.time(party) + amount, most)

    def prune(self, waiting: Container[str]) -> None:
        """Forget parties that wait for nothing and would start level, if they have become many."""
        if len(self._times) > self._prune_at:
            self._times = {
                party: time for party, time in self._times.items() if time > self._least or party in waiting
            }
            self._prune_at = 2 * len(self._times) + _MOST_SPARE
