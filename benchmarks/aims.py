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
_ONCE = "100,000 one-off jobs due at one instant: all begun after"
_REST = "POST /api/v1/{}, 64 connections, one server"
AIMS = (
    Aim("throughput", DRAIN, 1.2, "graphile-worker"),
    Aim("throughput", DRAIN, 1.8, "pgqueuer"),
    Aim("throughput", DRAIN, 0.6, "bare loop"),
    Aim("steady", STEADY, 1.2, "graphile-worker"),
    Aim("steady", STEADY, 2.0, "pgqueuer"),
    Aim("remote", REMOTE, 0.9, "pgqueuer"),
    Aim("embedded", "no-op jobs executed, SQLite", 7.0, "huey"),
    Aim("submitting", "bulk submit, chunks of 1,000, PostgreSQL", 2.2, "best"),
    Aim("submitting", "single submit, one caller, PostgreSQL", 1.2, "pgqueuer"),
    Aim("submitting", "single submit, 64 at once, PostgreSQL", 6.0, "pgqueuer"),
    Aim("rest", _REST.format("jobs"), 4000),
    Aim("rest", _REST.format("jobs/{id}/runs"), 4000),
    Aim("pickup", "idle pick-up p50, PostgreSQL", 0.9, "best", at_most=True),
    Aim("pickup", "idle pick-up p99, PostgreSQL", 1.0, "best", at_most=True),
    Aim("pickup", "idle pick-up p50, SQLite embedded", 0.3, "huey", at_most=True),
    Aim("pickup", "idle pick-up p99, SQLite embedded", 0.3, "huey", at_most=True),
    Aim("crash", "run of a killed worker starts again, default settings", 32, at_most=True),
    Aim("crash", "run of a killed worker starts again, fast heartbeat", 3, at_most=True),
    *(
        Aim("schedules", f"10,000,000 cron jobs, {how}: start minus due, {place}", amount, at_most=True)
        for how, place, amount in (
            ("spread over the second", "p99", 50),
            ("spread over the second", "max", 500),
            ("on the full second", "p99", 250),
        )
    ),
    Aim("schedules", "10,000,000 cron jobs: scheduler's memory", 200, at_most=True),
    Aim("schedules", "100,000 cron jobs: scheduler's memory", 200, at_most=True),
    Aim("schedules", "10,000,000 cron jobs: loaded in bulk", 10_000_000 / 600),
    Aim("schedules, at one instant", _ONCE, 4, at_most=True),
    Aim("schedules, at one instant", _ONCE, 0.75, "River", at_most=True),
    Aim("growth", "processor time of a run, 100,000 stored jobs", 1.2, "1,000 jobs", at_most=True),
    Aim("growth", "processor time of a run, 10,000,000 stored jobs", 1.2, "1,000 jobs", at_most=True),
    Aim("nodes", "runs executed, 4 workers over HTTP, 2 server nodes", 0.95, "1 server node"),
    Aim("nodes", "runs executed, 4 workers on PostgreSQL, 2 server nodes", 0.95, "1 server node"),
    *(
        Aim("flows", f"{what}, {where}", amount, at_most=at_most)
        for where in ("SQLite", "PostgreSQL, 2 processes")
        for what, amount, at_most in (
            ("workflows of 5 steps, 1,000 a second offered", 1000, False),
            ("hop to the next step at that rate, p99", 100, True),
            ("chain of 1,000 steps", 30, True),
            ("steps that one waits for, of plain runs", 0.6, False),
        )
    ),
    *(
        Aim("events", f"{what}, {count} triggers, {where}", amount, at_most=True)
        for where in ("SQLite", "PostgreSQL")
        for count in ("10", "10,000")
        for what, amount in (
            ("event to the begin of its run p99", 100),
            ("events that have not started one run", 0),
        )
    ),
    Aim("sessions", "submit to start, p99, 5,000 sessions, 1,000 runs/s", 250, at_most=True),
    Aim("start", "cold start of `mainspring up`, fresh folder", 1, at_most=True),
    Aim("start", "`import mainspring`", 100, at_most=True),
)
