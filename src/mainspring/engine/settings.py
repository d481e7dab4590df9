"""What an engine is made of, and how it behaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from datetime import datetime, timedelta

from mainspring.core.backfill_settings import BackfillLimits
from mainspring.core.pacing import USUAL_CATCH_UP, Pace
from mainspring.core.values import value
from mainspring.engine.common.traces import SAMPLE, SPLIT_AFTER
from mainspring.engine.scheduling.shards import ShardSettings
from mainspring.engine.settling.janitor import Retention
from mainspring.engine.usecases.artifacts import KEEP, LIMIT
from mainspring.engine.usecases.browsing import BUDGET
from mainspring.engine.usecases.definitions import Accepted
from mainspring.engine.usecases.runs import KEY_LIFETIME
from mainspring.ports.clock import Clock, IdSource, RandomSource, Waiter
from mainspring.ports.secrets import Secrets
from mainspring.ports.store.nodes import NodeFacts


@value(kw_only=True)
class Tools:
    """Where an engine gets time, chance and ids from: the process, a test, or the simulator.

    Attributes:
        waiter: makes a waiter; every service gets its own.
        host_time: the host's wall clock, to compare with the store's. None skips the comparison.
        secrets: those of the process. The engine only hands them to what runs beside it.
    """

    clock: Clock
    random: RandomSource
    ids: IdSource
    waiter: Callable[[], Waiter]
    host_time: Callable[[], datetime] | None
    secrets: Secrets | None = None


@value(kw_only=True)
class EngineSettings:
    """How an engine behaves.

    Attributes:
        node: its identity as a scheduler. Without one, the engine only gives out work (to a worker directly on the
            store).
        beat_period: the time between two heartbeats of a worker.
        shards: how the node divides the shards with other nodes.
        retention: how long ended runs and sessions are kept.
        accepted: what definitions of jobs may hold.
        key_lifetime: how long an idempotency key is remembered after its use.
        list_budget: how long a list of runs looks before it answers what it has found.
        backfills: what backfills get that say nothing else, and how large they may be.
        catch_up: the pace of the catch-up of jobs that say nothing else.
        logs_events: whether the log gets failed attempts, lost runs and missed fires.
        seals_audit: whether the node that owns shard 0 sets seals on the audit.
        records_usage: whether it is stored by the minute what became of runs.
        judges_alerts: whether it judges the rules of alerts, and delivers what is told.
        trace_sample: the share of runs that are traced if their caller has not decided about it.
        trace_split_after: how long after its submission a run starts that gets a trace of its own.
        keep_artifacts: how long files of runs are kept.
        artifact_limit: the most bytes of one.
        public_url: where people reach the server, for links in messages; None links nowhere.
    """

    node: NodeFacts | None
    beat_period: timedelta
    shards: ShardSettings
    retention: Retention
    accepted: Accepted
    key_lifetime: timedelta = KEY_LIFETIME
    list_budget: timedelta = BUDGET
    backfills: BackfillLimits = field(default_factory=BackfillLimits)
    catch_up: Pace = USUAL_CATCH_UP
    logs_events: bool = True
    seals_audit: bool = True
    records_usage: bool = True
    judges_alerts: bool = True
    trace_sample: float = SAMPLE
    trace_split_after: timedelta = SPLIT_AFTER
    keep_artifacts: timedelta = KEEP
    artifact_limit: int = LIMIT
    public_url: str | None = None
