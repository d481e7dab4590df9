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
STEADY = "no-op jobs executed in steady state, 2 workers on PostgreSQL"
REMOTE = "no-op jobs executed through the worker protocol, 2 remote workers"
_REST = "POST /api/v1/{}, 64 connections, one server"
AIMS = (
    Aim("throughput", DRAIN, 1.0, "graphile-worker"),
    Aim("throughput", DRAIN, 1.8, "pgqueuer"),
    Aim("steady", STEADY, 1.0, "graphile-worker"),
    Aim("steady", STEADY, 2.0, "pgqueuer"),
    Aim("remote", REMOTE, 0.9, "pgqueuer"),
    Aim("embedded", "no-op jobs executed, SQLite", 7.0, "huey"),
    Aim("submitting", "bulk submit, chunks of 1,000, PostgreSQL", 2.2, "best"),
    Aim("submitting", "single submit, one caller, PostgreSQL", 1.2, "pgqueuer"),
    Aim("submitting", "single submit, 64 at once, PostgreSQL", 6.0, "pgqueuer"),
    Aim("rest", _REST.format("jobs"), 4000),
    Aim("rest", _REST.format("jobs/{id}/runs"), 4000),
    Aim("pickup", "idle pick-up p50, PostgreSQL", 0.5, "best", at_most=True),
    Aim("pickup", "idle pick-up p99, PostgreSQL", 0.5, "best", at_most=True),
    Aim("pickup", "idle pick-up p50, SQLite embedded", 0.2, "huey", at_most=True),
    Aim("pickup", "idle pick-up p99, SQLite embedded", 0.2, "huey", at_most=True),
    Aim("crash", "run of a killed worker starts again, default settings", 32, at_most=True),
    Aim("crash", "run of a killed worker starts again, fast heartbeat", 3, at_most=True),
)
