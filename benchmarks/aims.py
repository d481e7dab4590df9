"""What is aimed at: by the part that measures it and the name of its figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aim:
    """One line of the table.

    Attributes:
        amount: in the figure's unit; or, where `peer` is named, how many times the peer's figure.
        peer: whose figure counts, by the beginning of its name; `best` for the best of all; None for an amount.
        at_most: smaller is better.
    """

    part: str
    name: str
    amount: float
    peer: str | None = None
    at_most: bool = False

    def target(self, peers: Mapping[str, float]) -> tuple[float | None, str]:
        """Return the figure to be reached, if it can be told, and what the aim is called."""
        word = "at most" if self.at_most else "at least"
        if self.peer is None:
            return self.amount, f"{word} {self.amount:,g}"
        pick = min if self.at_most else max
        chosen = [value for name, value in peers.items() if self.peer == "best" or name.startswith(self.peer)]
        whose = "the best" if self.peer == "best" else self.peer
        return (self.amount * pick(chosen) if chosen else None), f"{word} {self.amount:g} times {whose}"

    def is_reached(self, value: float, target: float) -> bool:
        return value <= target if self.at_most else value >= target


DRAIN = "no-op jobs executed, 2 workers on PostgreSQL"
AIMS = (
    Aim("throughput", DRAIN, 1.0, "graphile-worker"),
    Aim("throughput", DRAIN, 1.8, "pgqueuer"),
)
