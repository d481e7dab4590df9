"""What is wrong with a cluster, or may soon be, said in sentences. It judges facts that were read together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.core.census import LiveLine
from mainspring.core.fields import show
from mainspring.core.job_findings import JobFindings, JobProblem
from mainspring.core.job_warnings import UNDEFINED
from mainspring.core.ledger_check import EVERY, LedgerCheck
from mainspring.core.states import RunState
from mainspring.core.values import value

LATE = timedelta(seconds=60)
"""A fire that is this late, or a run that has been ready this long, is worth a sentence."""
MOST_PROBLEMS = 5
"""Problems of jobs that are told of; `/health` has more of them."""
_BEATS = 5
"""Heartbeats of a server that may be missing before it is said to be silent."""
_LEAST_SILENCE = timedelta(seconds=10)
_USUAL_PERIOD = timedelta(seconds=1.4)
_WAITING = frozenset({RunState.PENDING, RunState.RETRYING})


class AttentionLevel(StrEnum):
    """How bad it is. Only what is BAD makes `mainspring status` end with an exit code of its own."""

    BAD = "bad"
    WARNING = "warning"


@value()
class Attention:
    """Something that needs attention.

    Attributes:
        kind: a word for programs, which never changes.
    """

    kind: str
    level: AttentionLevel
    sentence: str


@value(kw_only=True)
class ServerFacts:
    """A server that schedules.

    Attributes:
        period: the time between its heartbeats; None if its release does not report one.
        refusal: why it owns no shards; None if it may.
    """

    name: str
    period: timedelta | None
    last_beat_at: datetime
    refusal: str | None

    def is_silent(self, now: datetime) -> bool:
        """Whether so many of its heartbeats are missing that it has probably died."""
        return now - self.last_beat_at > max(_BEATS * (self.period or _USUAL_PERIOD), _LEAST_SILENCE)


@value(kw_only=True)
class ClusterFacts:
    """What there is to judge.

    Attributes:
        lines: the live runs, by queue and state.
        served: the queues of each live worker; empty for all queues.
        paused_queues: queues that give out nothing.
        overdue: clocks that have been due for longer than `LATE`; `overdue_since` is the oldest of those instants.
        runs_lost: acknowledged runs that a failover of the database is known to have lost.
        findings: what the last look at all jobs has found; None if there was none.
        ledger: what the last check of all ledgers came to; None before the first one.
        alerts: what each alert that fires says, the worst and newest first.
    """

    servers: tuple[ServerFacts, ...]
    lines: tuple[LiveLine, ...]
    served: tuple[tuple[str, ...], ...]
    paused_queues: Collection[str] = ()
    overdue: int = 0
    overdue_since: datetime | None = None
    runs_lost: int = 0
    findings: JobFindings | None = None
    ledger: LedgerCheck | None = None
    alerts: tuple[str, ...] = ()


def judge_cluster(facts: ClusterFacts, now: datetime) -> list[Attention]:
    """Return what needs attention, the worst first."""
    found = [
        *_judge_servers(facts, now),
        *_judge_ledger(facts.ledger, now),
        *_judge_queues(facts, now),
        *_judge_jobs(facts.findings),
        *_judge_alerts(facts.alerts),
    ]
    return sorted(found, key=lambda each: each.level is not AttentionLevel.BAD)


def _judge_servers(facts: ClusterFacts, now: datetime) -> Iterator[Attention]:
    alive = [server for server in facts.servers if not server.is_silent(now)]
    if not any(server.refusal is None for server in alive):
        yield Attention("no_scheduler", AttentionLevel.BAD, "no server schedules: nothing fires")
    for server in facts.servers:
        if server.refusal is not None:
            yield Attention(
                "server_refused",
                AttentionLevel.BAD,
                f"server {server.name} schedules nothing: {_REFUSALS[server.refusal]}",
            )
        elif server.is_silent(now):
            silence = _show(now - server.last_beat_at)
            yield Attention(
                "server_silent", AttentionLevel.WARNING, f"server {server.name} has been silent for {silence}"
            )
    if facts.overdue:
        since = "" if facts.overdue_since is None else f", the oldest by {_show(now - facts.overdue_since)}"
        yield Attention("overdue", AttentionLevel.BAD, f"{_count(facts.overdue, 'fire')} overdue{since}")
    if facts.runs_lost:
        lost = f"a failover of the database lost {_count(facts.runs_lost, 'run')} that had been acknowledged"
        yield Attention("runs_lost", AttentionLevel.BAD, lost)


_REFUSALS = {
    "clock": "its host's clock differs from the store's",
    "tzdata": "its time zone data is of another version than the store's",
}


def _judge_queues(facts: ClusterFacts, now: datetime) -> Iterator[Attention]:
    for queue, (runs, since) in sorted(waiting_of(facts.lines).items()):
        if queue in facts.paused_queues or now - since < LATE:
            continue
        wait = f"{_count(runs, 'run')} in queue {queue} wait, the oldest for {_show(now - since)}"
        if not any(not queues or queue in queues for queues in facts.served):
            yield Attention("unserved", AttentionLevel.BAD, f"no worker serves queue {queue}: {wait}")
        else:
            yield Attention("backlog", AttentionLevel.WARNING, wait)


def _judge_ledger(check: LedgerCheck | None, now: datetime) -> Iterator[Attention]:
    """Tell of fires that the last check missed, and of a check that has not been made for long."""
    if check is None:
        return
    if not check.is_even:
        differences = f"{_count(check.missing, 'fire')} missing, {check.surplus:,} surplus"
        sentence = (
            f"the ledgers of {_count(check.uneven, 'job')} are uneven: {differences}; see mainspring ledger"
        )
        yield Attention("ledger_uneven", AttentionLevel.BAD, sentence)
    if now - check.next_at > EVERY:
        sentence = f"the ledgers of all jobs were last checked {_show(now - check.ended_at)} ago"
        yield Attention("ledger_unchecked", AttentionLevel.WARNING, sentence)


def _judge_alerts(alerts: tuple[str, ...]) -> Iterator[Attention]:
    """Tell of alerts that fire; what they found may be told of by itself, too."""
    if alerts:
        verb = "fires" if len(alerts) == 1 else "fire"
        more = "" if len(alerts) == 1 else f" and {len(alerts) - 1:,} more"
        sentence = f"{_count(len(alerts), 'alert')} {verb}: {alerts[0]}{more}; see mainspring alert list"
        yield Attention("alerts", AttentionLevel.WARNING, sentence)


def _judge_jobs(findings: JobFindings | None) -> Iterator[Attention]:
    """Tell of jobs that no code defines any more, or that no worker can run."""
    for problem in () if findings is None else findings.problems[:MOST_PROBLEMS]:
        kind = "jobs_undefined" if problem.code == UNDEFINED else "jobs_unserved"
        yield Attention(kind, AttentionLevel.WARNING, f"{_name(problem)}: {problem.sentence}")


def _name(problem: JobProblem) -> str:
    """Name the jobs that have a problem, or the first of them."""
    more = problem.jobs - len(problem.examples)
    names = ", ".join(problem.examples)
    return f"{'job' if problem.jobs == 1 else 'jobs'} {names}{f' and {more:,} more' if more > 0 else ''}"


def waiting_of(lines: Iterable[LiveLine]) -> dict[str, tuple[int, datetime]]:
    """Return for each queue how many runs wait, and since when the first of them has been ready."""
    found: dict[str, tuple[int, datetime]] = {}
    for line in lines:
        if line.state in _WAITING:
            runs, since = found.get(line.queue, (0, line.earliest_ready_at))
            found[line.queue] = (runs + line.runs, min(since, line.earliest_ready_at))
    return found


def _show(duration: timedelta) -> str:
    """Return a duration as people tell it: whole seconds, and no seconds where they no longer matter."""
    step = timedelta(minutes=1) if duration >= timedelta(hours=1) else timedelta(seconds=1)
    return show(duration - duration % step)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
