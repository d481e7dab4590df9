"""How long attempts of a tenant hold their slots, on average. A part of the attempts tells enough."""

from __future__ import annotations

from mainspring.core.ids import SHARDS

SAMPLED = 16
"""Of so many runs, one is measured while runs are claimed in large numbers."""
LEAST = 0.0001
"""What an attempt takes at least, in seconds: to claim and report it costs about as much."""
NOT_SAMPLED = (SAMPLED - 1) * SHARDS
"""Of runs that are measured while runs are claimed in large numbers, the id has none of these bits. They are the last
ones of a run's place in the sequence of all runs. Worker and engine agree on it."""
_FIRST_GUESS = 0.01
_SHARE = 0.05
"""How much of a mean the newest measure makes up."""
_MOST_TENANTS = 10_000


class SlotTimes:
    """The mean of each tenant, in seconds, with more weight on what was measured last."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}
        self._suggested: dict[str, float] = {}
        self._usual = _FIRST_GUESS

    def mean(self, tenant: str) -> float:
        """Return what an attempt of a tenant takes; what one takes in general, if none of its own was measured."""
        mean = self._means.get(tenant)
        return self._suggested.get(tenant, self._usual) if mean is None else mean

    def suggest(self, tenant: str, seconds: float) -> None:
        """Note what another server says that an attempt takes. It holds until one is measured here."""
        if tenant not in self._means:
            if len(self._suggested) >= _MOST_TENANTS:
                self._suggested.clear()
            self._suggested[tenant] = max(seconds, LEAST)

    def learn(self, tenant: str, seconds: float) -> None:
        """Note what an attempt has taken."""
        seconds = max(seconds, LEAST)
        self._usual += (seconds - self._usual) * _SHARE
        if len(self._means) >= _MOST_TENANTS and tenant not in self._means:
            self._means.clear()
        mean = self._means.setdefault(tenant, seconds)
        self._suggested.pop(tenant, None)
        self._means[tenant] = mean + (seconds - mean) * _SHARE
