"""What a cluster does at a glance, as the HTTP API shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.attention import Attention, AttentionLevel, waiting_of
from mainspring.core.census import LiveLine
from mainspring.core.states import RunState
from mainspring.ports.store.nodes import NodeState
from mainspring.wire.ledger import LedgerCheckView
from mainspring.wire.pauses import PauseList
from mainspring.wire.views import CountsView, Instant


class AttentionView(Struct, kw_only=True):
    """Something that needs attention."""

    kind: Annotated[str, Meta(description="A word for programs, which does not change.")]
    level: Annotated[str, Meta(extra_json_schema={"enum": [level.value for level in AttentionLevel]})]
    sentence: str


class ServerView(Struct, kw_only=True):
    """A server that schedules."""

    name: Annotated[str, Meta(description="Its host and process id.")]
    version: str
    started_at: Instant
    last_beat_at: Instant
    refusal: Annotated[
        str | None, Meta(description="Why it may schedule nothing: `clock` or `tzdata`; null if it may.")
    ]


class JobCountsView(Struct, kw_only=True):
    """How many jobs there are."""

    active: int
    paused: int
    is_more: Annotated[bool, Meta(description="There are more jobs, which were not counted.")]


class SlotsView(Struct, kw_only=True):
    """The slots of the live workers."""

    workers: int
    total: int
    held: Annotated[int, Meta(description="Runs that workers hold: under way, or about to start.")]


class QueueLoadView(Struct, kw_only=True):
    """The live runs of a queue."""

    queue: str
    waiting: Annotated[int, Meta(description="Those that wait for their time, for a slot or for a retry.")]
    running: int
    oldest_ready_at: Annotated[
        Instant | None,
        Meta(
            description="When the first of those that wait became ready, or becomes so; null if none waits."
        ),
    ]


class OverviewView(Struct, kw_only=True):
    """What a cluster does, and what is wrong with it."""

    now: Instant
    version: str
    store: str
    attention: Annotated[list[AttentionView], Meta(description="What needs attention, the worst first.")]
    servers: list[ServerView]
    slots: SlotsView
    jobs: JobCountsView
    runs: CountsView
    dead_letters: Annotated[
        int, Meta(description="Runs that failed for good and were neither redriven nor discarded.")
    ]
    queues: list[QueueLoadView]
    paused: Annotated[PauseList, Meta(description="Pauses that are on, and blackouts that hold now.")]
    ledger: Annotated[
        LedgerCheckView | None,
        Meta(description="What the last check of all jobs' ledgers came to; null before the first one."),
    ] = None


def view_attention(found: Sequence[Attention]) -> list[AttentionView]:
    """Show what needs attention."""
    return [AttentionView(kind=one.kind, level=one.level.value, sentence=one.sentence) for one in found]


def view_server(node: NodeState) -> ServerView:
    """Show a server that schedules."""
    return ServerView(
        name=f"{node.facts.host}-{node.facts.pid}",
        version=node.facts.version,
        started_at=node.started_at,
        last_beat_at=node.last_beat_at,
        refusal=None if node.refusal is None else node.refusal.value,
    )


def view_queues(lines: Sequence[LiveLine]) -> list[QueueLoadView]:
    """Show the live runs of each queue, in order of name."""
    waiting = waiting_of(lines)
    running: dict[str, int] = {}
    for line in lines:
        if line.state is RunState.RUNNING:
            running[line.queue] = running.get(line.queue, 0) + line.runs
    return [
        QueueLoadView(
            queue=queue,
            waiting=waiting[queue][0] if queue in waiting else 0,
            running=running.get(queue, 0),
            oldest_ready_at=waiting[queue][1] if queue in waiting else None,
        )
        for queue in sorted({*waiting, *running})
    ]
