"""The answer of `/health`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.ids import format_run_id
from mainspring.core.job_findings import JobFindings
from mainspring.ports.figures import ShardFigures
from mainspring.ports.store import FailoverFacts


class SchedulerView(Struct, kw_only=True):
    """This server's part in scheduling: its shards, or the reason why it refuses to own any.

    Attributes:
        nodes: how many live servers schedule on this store, including this one.
        refusal: `clock` or `tzdata`; null if the server may own shards.
        clock_skew: by how many seconds the host's clock is ahead of the store's.
        taken, released, fenced: how many shards, since the start, the server has taken, has given up, and has found
            lost when a write was refused.
    """

    shards: int
    nodes: int
    refusal: str | None
    clock_skew: float
    tzdata: str
    recorded_tzdata: str | None
    taken: int
    released: int
    fenced: int


class FailoverView(Struct, kw_only=True):
    """What a failover of the database has cost, as far as this process can tell.

    Attributes:
        noticed_at: when this process noticed it, by the clock of the new database server.
        last_position: the last position that this process saw in the old server's WAL.
        shared_position: the position up to which the new server certainly has the same WAL. What lies between the two
            positions is lost.
        missing_wal_bytes: the distance between the two; 0 if nothing is known to be missing.
        runs_checked: how many acknowledged submissions and fires of the last minute were looked up.
        are_all_checked: false if there were more of them than the process remembers.
        runs_lost: how many of them are missing.
        lost_run_ids: the first twenty of the missing ones.
    """

    noticed_at: Annotated[datetime, Meta(tz=True)]
    from_timeline: int
    to_timeline: int
    last_position: str
    shared_position: str
    missing_wal_bytes: int
    runs_checked: int
    are_all_checked: bool
    runs_lost: int
    lost_run_ids: list[str]


class JobProblemView(Struct, kw_only=True):
    """A problem that jobs have in common.

    Attributes:
        code: as in a job's `warnings`.
        jobs: how many jobs have it.
        examples: the names of some of them.
    """

    code: str
    sentence: str
    jobs: int
    examples: list[str]


class JobsHealthView(Struct, kw_only=True):
    """What this server has found in its last look at all jobs of all tenants; it looks about every 15 s.

    Attributes:
        jobs: how many there are that are not paused.
        warned: how many of them nobody defines any more, or nobody can run.
        problems: the different problems, at most 20, those of most jobs first.
    """

    looked_at: Annotated[datetime, Meta(tz=True)]
    jobs: int
    warned: int
    problems: list[JobProblemView]


class HealthView(Struct, kw_only=True):
    """The server answers, and its store is reachable. If the server does not schedule, `scheduler` is null.

    Callers who may not read what belongs to all tenants learn only the status; the rest is null or empty.

    Attributes:
        access: who is answered. `loopback`: only processes of the server's user and root; `trusted_network`: everyone
            who can reach the server, and may do everything; `tokens`: callers with an access token.
        figures: what this process has counted since its start, and its current state in numbers.
        failovers: the database failovers that this process has noticed since its start, at most the last twenty, the
            newest last.
        jobs: what is wrong with jobs; null if the server does not schedule, or has not looked yet.
    """

    status: str
    store: str | None = None
    version: str | None = None
    access: str | None = None
    failovers: list[FailoverView] = []
    figures: dict[str, float] = {}
    scheduler: SchedulerView | None = None
    jobs: JobsHealthView | None = None


def view_scheduler(figures: ShardFigures) -> SchedulerView:
    """Show a server's part in scheduling."""
    return SchedulerView(
        shards=figures.owned,
        nodes=figures.nodes,
        refusal=figures.refusal,
        clock_skew=round(figures.skew, 3),
        tzdata=figures.tzdata,
        recorded_tzdata=figures.recorded_tzdata,
        taken=figures.taken,
        released=figures.released,
        fenced=figures.fenced,
    )


def view_failover(facts: FailoverFacts) -> FailoverView:
    """Show a failover of the database."""
    return FailoverView(
        noticed_at=facts.noticed_at,
        from_timeline=facts.from_timeline,
        to_timeline=facts.to_timeline,
        last_position=_position(facts.last_position),
        shared_position=_position(facts.shared_position),
        missing_wal_bytes=facts.missing_wal,
        runs_checked=facts.runs_checked,
        are_all_checked=facts.are_all_checked,
        runs_lost=facts.runs_lost,
        lost_run_ids=[format_run_id(run_id) for run_id in facts.lost_run_ids],
    )


def _position(wal_bytes: int) -> str:
    """Return a position in the WAL as PostgreSQL writes it."""
    return f"{wal_bytes >> 32:X}/{wal_bytes & 0xFFFFFFFF:X}"


def view_findings(findings: JobFindings) -> JobsHealthView:
    """Show what is wrong with jobs."""
    return JobsHealthView(
        looked_at=findings.looked_at,
        jobs=findings.jobs,
        warned=findings.warned,
        problems=[
            JobProblemView(code=one.code, sentence=one.sentence, jobs=one.jobs, examples=list(one.examples))
            for one in findings.problems
        ],
    )
