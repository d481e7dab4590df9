"""What is going to happen in one simulation, as data. It can be printed, saved, and cut down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from mainspring.core.ids import DEFAULT_TENANT


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job and how its work behaves.

    Attributes:
        body: the definition without its target; of a workflow, its `steps`.
        seconds: the shortest and the longest duration of its work.
        fail, snooze, crash: the probabilities that an attempt raises, snoozes, and kills its worker.
        errors: the built-in exceptions of which a failed attempt raises one; by default it is a `RuntimeError`.
        tenant: whose it is.
    """

    name: str
    body: dict[str, Any]
    seconds: tuple[float, float] = (0.0, 0.2)
    fail: float = 0.0
    snooze: float = 0.0
    crash: float = 0.0
    errors: tuple[str, ...] = ("RuntimeError",)
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A client's request at an instant (in seconds from the start).

    Attributes:
        kind: create, edit, pause, resume, delete, submit, cancel, flood, weigh, order, limit, calendar,
            calendar_of_moves, channel, bound, hold, release, cap, backfill, change_backfill, redrive,
            redrive_one, change_redrive, discard, write_still, set_still, urge, create_flow, submit_flow, redrive_flow,
            cancel_flow, pause_flow, resume_flows, skip_step, signal_flow, send_event.
        job: the name of the job; empty for those that are about queues, tenants and others.
        body: the patch of an edit; for a submission `delay` (seconds), `key`, `payload` and `priority`; for a flood of
            submissions their `count`, and among how many `customers`; the `weight` of the job's tenant; the `order` of
            its queue; what is set for the `queue` and `tenant` that are bounded; the `name` and `rule` of a limit, and
            whether its `scope` is the cluster; the `scope`, `name` and `max_running` of a cap; the
            definition of the calendar `closed`, or `moving`; the `scope`, `name`, `mode` and `until` (seconds from the
            start) of a pause; a backfill's `width` and how long `ago` it ends, in seconds, and its `options`; the
            `change` of a backfill; the definition of the calendar `still`; the `scope` and `name` of what it stops, and
            the `modes` of its blackouts; the `queue` that need not wait for long, and its `preempt_after`.
    """

    at: float
    kind: str
    job: str
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """A fault that begins at an instant and lasts for some seconds.

    Attributes:
        kind: see `faults.py`.
        target: the process (`server-1`, `worker-2`); empty if the fault affects all.
        verb, is_after: for a crash at a store call, which call, and whether before or after its commit.
        skew: how far a host's clock is set ahead, in seconds.
        version: the version of the zone data that a server is started with.
    """

    at: float
    seconds: float
    kind: str
    target: str = ""
    verb: str = ""
    is_after: bool = False
    skew: float = 0.0
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One simulation.

    Attributes:
        workers: for each, whether it works directly on the store (otherwise through a server).
        seconds: how long clients and faults are active; a quiet period follows.
        beat_period: seconds between heartbeats.
        latency: the median latency of a store call in seconds, half of it before and half after the commit.
        failure_rate: the share of store calls that fail, half of them after the commit.
        drift: the most by which a process's monotonic clock runs fast or slow, as a share.
        store: `memory` or `sqlite`. With `sqlite`, one server holds the file, and all workers go through it.
        prefetch: seconds of work that each worker claims ahead.
        judges_alerts: whether watchdog and notifier run.
        few_lanes: while there are no more lanes, each look is at all of them.
        tenants: for each worker, the tenant that it is bound to; empty text means none, and no tuple means none at all.
        checks_tokens: whether servers follow the changes of accounts and tokens.
    """

    seed: int
    servers: int
    workers: tuple[bool, ...]
    slots: int
    seconds: float
    beat_period: float
    latency: float
    failure_rate: float
    drift: float
    jobs: tuple[JobPlan, ...]
    actions: tuple[Action, ...]
    faults: tuple[FaultPlan, ...]
    store: str = "memory"
    prefetch: float = 0.0
    few_lanes: int = 256
    judges_alerts: bool = False
    tenants: tuple[str, ...] = ()
    checks_tokens: bool = False


BACKFILL_VERBS = (
    *("list_version_times", "read_fires_of_runs", "add_backfill"),
    *("read_backfill_work", "advance_backfills", "change_backfill", "list_waiting_of_backfill"),
)
"""Calls that only plans with backfills lead to."""
REDRIVE_VERBS = (
    *("count_dead", "add_redrive", "change_redrive", "list_running_redrives", "find_dead_to_redrive"),
    *("advance_redrives", "discard_dead"),
)
"""Calls that only plans with dead letters lead to."""
ALERT_VERBS = ("save_alerts", "take_notifications", "send", "settle_notifications")
"""Calls that only plans with alerts lead to; `send` is that of the channel."""
LOOK_VERBS = ("read_some_lanes", "read_ready_instants")
"""Looks that only some plans lead to: at lanes that are named, and at the runs of queues that go by age."""
INTAKE_VERBS = ("count_waiting", "take_permits")
"""Calls that only submissions lead to that are bounded."""
RESERVE_VERBS = ("count_running",)
"""What only plans with reserved slots lead to."""
PAUSE_VERBS = ("read_restrictions", "add_pauses", "lift_pauses")
"""What only plans with pauses crash at."""
BLACKOUT_VERBS = ("set_blackouts", "begin_blackouts")
"""What only plans with blackouts lead to."""
CAP_VERBS = ("write_caps",)
"""What only plans with caps crash at."""
PREEMPTION_VERBS = ("read_kept_waiting", "read_seated", "request_preemptions")
"""Calls that only plans lead to in which urgent work takes slots."""
END_VERBS = ("read_ended", "find_fires", "follow_ends")
"""What only plans with jobs lead to that fire after the end."""
FLOW_VERBS = (
    "start_flows",
    "read_mail",
    "read_flows",
    "turn_flows",
    "drop_mail",
    "post_mail",
    "add_events",
    "apply",
    "cancel_runs",
)
"""What plans of workflows crash at. The last four post mail."""
KEPT_VERBS = ("keep_checkpoints", "list_checkpoints")
"""What only plans with durable functions lead to."""
CRASH_VERBS = (
    # the planner and the fire ranges' drain
    *(
        "read_due",
        "read_versions",
        "record_fires",
        "fire_outlined",
        "read_fire_ranges",
        "advance_fire_ranges",
    ),
    # the reaper
    *("read_pulses", "expire_sessions", "list_orphans", "list_overdue", "expire_runs"),
    # shards
    *("beat_node", "read_cluster", "read_shards", "expire_nodes", "take_shards", "release_shards"),
    # claims, and the workers' gateway
    *(
        "read_lanes",
        "submit_claimed",
        "try_claim",
        "claim_runs",
        "read_lines",
        "claim_lined_up",
        "add_sessions",
        "beat_sessions",
        "read_held",
        "apply",
    ),
    # clients
    *("write_calendars", "replan_jobs", "read_calendar_uses"),
    *("add_jobs", "edit_jobs", "pause_jobs", "resume_jobs", "delete_jobs", "submit_runs", "cancel_runs"),
    # jobs whose runs fail
    *("read_failing", "pause_failing"),
)
"""Store calls at which a process can be made to crash, before or after their commit."""


def write_plan(plan: Plan) -> bytes:
    """Return a plan as JSON, to be saved. The meaning of a seed changes with the generator; a saved plan does not."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1)


def read_plan(text: bytes) -> Plan:
    """Return the plan that `write_plan` wrote."""
    return msgspec.json.decode(text, type=Plan)
