"""How much each of several parties has been given, by weight, so that the one that is furthest behind goes next.

This is start-time fair queueing (Goyal, Vin and Cheng, 1996).
"""

from __future__ import annotations

from collections.abc import Container

MOST_LEAD = 10.0
MOST_LEAD_UNITS = 10
"""By how much a party may be ahead of those that wait: the larger of so many seconds and so many of its own units.
Where workers differ in what they can do, some parties have workers for themselves, and get ahead without harm to
others. This bounds how long they wait when they meet."""
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
        self.weights = {} if weights is None else weights
        self._times: dict[str, float] = {}
        self._present = 0.0

    def weight(self, party: str) -> float:
        """Return a party's weight."""
        return self.weights.get(party, 1.0)

    def time(self, party: str) -> float:
        """Return a party's virtual time."""
        return self._times.get(party, self._present)

    def welcome(self, party: str) -> None:
        """Let a party that did not wait start level with those that do, at least.

        So idleness earns no credit. But what it has got beyond that counts, or leaving and coming back would pay.
        """
        self._times[party] = max(self.time(party), self._present)

    def advance(self, least: float) -> None:
        """Note the least virtual time of those that wait."""
        self._present = max(self._present, least)

    def charge(self, party: str, count: float, unit: float) -> None:
        """Note that a party has been given so many units, each of so many seconds."""
        unit /= self.weight(party)
        most = self._present + max(MOST_LEAD, MOST_LEAD_UNITS * unit)
        self._times[party] = min(self.time(party) + count * unit, most)

    def prune(self, waiting: Container[str]) -> None:
        """Forget parties that wait for nothing and would start level, if they have become many."""
        if len(self._times) > _MOST_SPARE:
            self._times = {
                party: time for party, time in self._times.items() if time > self._present or party in waiting
            }
