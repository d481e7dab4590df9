"""Draws the plan of a simulation from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from mainspring.testing.factories import at
from tools.simulator.accessed import draw_accessed
from tools.simulator.alerted import make_alerted
from tools.simulator.backfilled import make_backfilled
from tools.simulator.batched import make_batched
from tools.simulator.bounded import make_bounded
from tools.simulator.capped import make_capped
from tools.simulator.caught_up import make_caught_up
from tools.simulator.closings import make_closings
from tools.simulator.composed import make_composed
from tools.simulator.counted import make_counted
from tools.simulator.crowd import make_crowd
from tools.simulator.ending import make_ending
from tools.simulator.flowed import draw_flowed
from tools.simulator.following import make_following
from tools.simulator.herd import make_herd
from tools.simulator.kept import make_kept
from tools.simulator.limited import make_limited
from tools.simulator.moved import make_moved
from tools.simulator.once import make_once
from tools.simulator.paused import make_pauses
from tools.simulator.plan import CRASH_VERBS, LOOK_VERBS, Action, FaultPlan, JobPlan, Plan
from tools.simulator.preempting import make_preempting
from tools.simulator.quiet import draw_quiet
from tools.simulator.redriven import make_redriven
from tools.simulator.reserved import make_reserved
from tools.simulator.ruled import make_ruled
from tools.simulator.starting import make_starting
from tools.simulator.still import make_still


def make_plan(seed: int, *, seconds: float = 120.0, store: str = "memory") -> Plan:
    """Draw a plan. The same seed gives the same plan, and on SQLite a similar one."""
    special = draw_quiet(seed, seconds) or draw_accessed(seed, seconds) or draw_flowed(seed, seconds)
    plan = special or _draw(seed, seconds)
    if store == "memory":
        return plan
    faults = tuple(
        replace(fault, target="server-0" if fault.target.startswith("server") else fault.target)
        for fault in plan.faults
    )
    return replace(plan, store=store, servers=1, workers=(False,) * len(plan.workers), faults=faults)


def _draw(seed: int, seconds: float) -> Plan:
    random = Random(f"plan:{seed}")
    servers = random.choice([1, 2, 2, 3])
    workers = tuple(random.random() < 0.4 for _ in range(random.choice([1, 2, 3, 4])))
    beat_period = random.choice([1.0, 2.0, 3.0])
    jobs = tuple(_make_job(random, index) for index in range(random.randint(3, 9)))
    herd, changes, crashes = make_herd(seed, servers, seconds)
    crowd, floods = make_crowd(seed, seconds)
    closed, closings, failings = make_closings(seed, servers, seconds)
    moved, moves = make_moved(seed, seconds)
    limited, limits = make_limited(seed, seconds)
    batched, gathered = make_batched(seed, seconds)
    once, bursts = make_once(seed, seconds)
    bounded, surges, uncounted = make_bounded(seed, servers, seconds)
    following, follow_ups, troubles = make_following(seed, servers, seconds)
    past, backfills, stumbles = make_backfilled(seed, servers, seconds)
    composed, remakes = make_composed(seed, seconds)
    ruled, excuses = make_ruled(seed, seconds)
    starting, halting, ends = make_starting(seed, servers, seconds)
    counted, recounts, gaps = make_counted(seed, servers, seconds)
    ending, remarks, breaks = make_ending(seed, servers, seconds)
    dying, redrives, tumbles = make_redriven(seed, servers, seconds)
    watched, tellings, silencings = make_alerted(seed, servers, seconds)
    late, repaces, outages = make_caught_up(seed, servers, seconds)
    names = [f"server-{index}" for index in range(servers)]
    slots = random.choice([2, 5, 20])
    promised, promises, miscounts = make_reserved(seed, servers, slots * len(workers), seconds)
    if crowd:
        promised, promises, miscounts = (), (), ()
    # Whose turn it is is not judged beside pauses, which stop some of those who share the workers.
    pauses, halts = ((), ()) if crowd or promised else make_pauses(seed, names, seconds)
    capped, caps, slips = make_capped(seed, names, seconds)
    names += [f"worker-{index}" for index in range(len(workers))]
    still, stops, stalls = ((), (), ()) if crowd or promised else make_still(seed, names, seconds)
    # Neither are these judged beside long work, which keeps the slots.
    long, urges, losses = (
        ((), (), ()) if crowd or promised else make_preempting(seed, servers, slots * len(workers), seconds)
    )
    # Nor are they beside functions whose steps take long.
    kept, journeys, mishaps = ((), (), ()) if crowd or promised else make_kept(seed, names, seconds)
    return Plan(
        seed=seed,
        servers=servers,
        workers=workers,
        slots=slots,
        prefetch=Random(f"prefetch:{seed}").choice([0.0, 0.05, 0.25]),
        judges_alerts=bool(watched),
        few_lanes=Random(f"lanes:{seed}").choice([256, 256, 256, 2]),
        seconds=seconds,
        beat_period=beat_period,
        latency=random.choice([0.0005, 0.002, 0.02]),
        failure_rate=random.choice([0.0, 0.0, 0.002, 0.02]),
        drift=random.choice([0.0, 1e-4, 1e-2]),
        jobs=(
            *(*jobs, *herd, *crowd, *closed, *limited, *once, *batched, *bounded, *following, *past, *late),
            *(*still, *promised, *capped, *long, *moved, *composed, *ruled, *starting, *counted, *ending),
            *(*dying, *watched, *kept),
        ),
        actions=tuple(
            sorted(
                (
                    *_make_actions(random, jobs, seconds),
                    *_make_policy_edits(seed, jobs, seconds),
                    *_make_lone_submissions(seed, jobs, seconds),
                    *changes,
                    *floods,
                    *closings,
                    *moves,
                    *limits,
                    *gathered,
                    *bursts,
                    *surges,
                    *follow_ups,
                    *pauses,
                    *stops,
                    *backfills,
                    *repaces,
                    *promises,
                    *caps,
                    *urges,
                    *remakes,
                    *excuses,
                    *halting,
                    *recounts,
                    *remarks,
                    *redrives,
                    *tellings,
                    *journeys,
                ),
                key=lambda action: action.at,
            )
        ),
        faults=tuple(
            sorted(
                (
                    *_make_faults(random, names, seconds, beat_period),
                    *_make_stragglers(seed, names, seconds),
                    *_make_unfit(seed, servers, seconds),
                    *_make_strangers(seed, servers, seconds),
                    *_make_crashes_at_looks(seed, names, seconds),
                    *crashes,
                    *failings,
                    *uncounted,
                    *troubles,
                    *halts,
                    *stalls,
                    *stumbles,
                    *outages,
                    *miscounts,
                    *slips,
                    *losses,
                    *mishaps,
                    *ends,
                    *gaps,
                    *breaks,
                    *tumbles,
                    *silencings,
                ),
                key=lambda fault: fault.at,
            )
        ),
    )


def _make_job(random: Random, index: int) -> JobPlan:
    body: dict[str, Any] = dict(_make_trigger(random))
    if "cron" in body or "every" in body:
        body["misfire"] = {
            "policy": random.choice(["skip", "fire_latest", "fire_all"]),
            "grace": random.choice(["1s", "3s", "60s"]),
        }
        if random.random() < 0.3:
            body["misfire"] |= (
                {"max_count": random.choice([1, 3])} if body["misfire"]["policy"] == "fire_all" else {}
            )
        body["overlap"] = random.choice(["allow", "allow", "skip"])
        if random.random() < 0.2:
            body["jitter"] = random.choice(["1s", "5s"])
    body["retry"] = {
        "max_retries": random.choice([0, 1, 3]),
        "backoff": random.choice(["fixed", "linear", "exponential"]),
        "delay": random.choice(["500ms", "2s"]),
    }
    body["delivery"] = random.choice(["at_least_once", "at_least_once", "at_most_once"])
    body["priority"] = random.choice(["HIGH", "MEDIUM", "LOW"])
    if random.random() < 0.15:
        body["expires_after"] = random.choice(["2s", "10s"])
    body["timeout"] = random.choice(["5s", "60s"])
    body["poison_limit"] = random.choice([1, 3])
    longest = random.choice([0.05, 0.2, 0.5, 2.0, 8.0])
    return JobPlan(
        name=f"job-{index}",
        body=body,
        seconds=(0.0, longest),
        fail=random.choice([0.0, 0.0, 0.2, 0.6]),
        snooze=random.choice([0.0, 0.0, 0.0, 0.2]),
        crash=random.choice([0.0] * 12 + [0.02, 0.02, 0.3]),
    )


def _make_trigger(random: Random) -> dict[str, Any]:
    kind = random.choice(["cron", "cron", "every", "every", "once", "none"])
    if kind == "cron":
        seconds = random.choice(["*/2", "*/5", "0,10,20,30,40,50", "*/15", "0-20/4", "7,37"])
        return {"cron": f"{seconds} * * * * *"}
    if kind == "every":
        return {"every": random.choice(["1s", "2500ms", "7s", "20s"])}
    if kind == "once":
        return {"run_at": at(round(random.uniform(5, 90), 3)).isoformat()}
    return {}


def _make_actions(random: Random, jobs: Sequence[JobPlan], seconds: float) -> tuple[Action, ...]:
    actions = [Action(at=round(random.uniform(0, 5), 3), kind="create", job=job.name) for job in jobs]
    for _ in range(random.randint(5, 40)):
        job = random.choice(jobs).name
        instant = round(random.uniform(3, seconds), 3)
        kind = random.choices(
            ["submit", "cancel", "edit", "pause", "resume", "delete"], [10, 4, 2, 2, 3, 0.6]
        )[0]
        body: dict[str, Any] = {}
        if kind == "submit":
            if random.random() < 0.3:
                body["delay"] = round(random.uniform(0, 20), 3)
            if random.random() < 0.5:
                body["key"] = f"key-{random.randint(1, 10)}-{job}"
                body.pop("delay", None)  # the same key is to be the same request
            elif random.random() < 0.3:
                body["priority"] = random.choice(["HIGH", "LOW"])
        elif kind == "edit":
            body = random.choice([_make_trigger(random), {"timeout": "30s"}, {"priority": "LOW"}])
        actions.append(Action(at=instant, kind=kind, job=job, body=body))
        if kind == "pause" and random.random() < 0.7:
            later = min(round(instant + random.uniform(1, 20), 3), seconds)
            actions.append(Action(at=later, kind="resume", job=job))
    return tuple(sorted(actions, key=lambda action: action.at))


def _make_lone_submissions(seed: int, jobs: Sequence[JobPlan], seconds: float) -> tuple[Action, ...]:
    """Draw plain submissions, one at a time, some of which find a worker that waits for them.

    They have a random source of their own.
    """
    random = Random(f"lone:{seed}")
    return tuple(
        Action(at=round(random.uniform(5, seconds), 3), kind="submit", job=random.choice(jobs).name)
        for _ in range(random.choice([0, 0, 10, 60]))
    )


_POLICIES: tuple[dict[str, Any], ...] = (
    {"delivery": "at_most_once"},
    {"delivery": "at_least_once"},
    {"overlap": "skip"},
    {"overlap": "allow"},
    {"retry": {"max_retries": 0}},
    {"retry": {"max_retries": 2, "backoff": "fixed", "delay": "1s"}},
    {"misfire": {"policy": "skip", "grace": "1s"}},
    {"misfire": {"policy": "fire_all", "grace": "3s"}},
    {"expires_after": "5s"},
    {"expires_after": None},
    {"poison_limit": 1},
    {"jitter": "1s"},
    {"queue": "other"},
)


def _make_policy_edits(seed: int, jobs: Sequence[JobPlan], seconds: float) -> tuple[Action, ...]:
    """Draw edits of policies while runs of the version before are under way. They have a random source of their own."""
    random = Random(f"policies:{seed}")
    return tuple(
        Action(
            at=round(random.uniform(5, seconds), 3),
            kind="edit",
            job=random.choice(jobs).name,
            body=random.choice(_POLICIES),
        )
        for _ in range(random.choice([0, 0, 2, 6]))
    )


def _make_faults(
    random: Random, names: Sequence[str], seconds: float, beat_period: float
) -> tuple[FaultPlan, ...]:
    faults = []
    lease = 3 * beat_period
    for _ in range(random.choice([0, 2, 5, 10, 20])):
        kind = random.choices(
            ["kill", "pause", "stop", "outage", "full", "cut", "lossy", "slow", "crash_at", "cut_off"],
            [4, 5, 1, 1, 1, 3, 2, 2, 5, 2],
        )[0]
        verb = random.choice(CRASH_VERBS) if kind == "crash_at" else ""
        earliest, latest = (0.0 if kind == "crash_at" else 2.0), seconds * 0.9
        if verb == "add_jobs":
            latest = 4.0  # jobs are made in the first seconds
        faults.append(
            FaultPlan(
                at=round(random.uniform(earliest, latest), 3),
                seconds=round(random.choice([0.2, 1.0, lease * random.uniform(0.8, 1.2), lease * 3]), 3),
                kind=kind,
                target="" if kind in {"outage", "full"} else random.choice(names),
                verb=verb,
                is_after=random.random() < 0.5,
            )
        )
    # Some verbs are called only at the start of a process. To reach them, kill the process once the crash is set.
    starts = [fault for fault in faults if fault.verb in {"take_shards", "add_sessions"}]
    faults += [replace(fault, at=fault.at + 0.1, seconds=0.2, kind="kill", verb="") for fault in starts]
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _make_stragglers(seed: int, names: Sequence[str], seconds: float) -> tuple[FaultPlan, ...]:
    """Draw when requests are carried out late. A random source of their own leaves other draws as they are."""
    random = Random(f"late:{seed}")
    return tuple(
        FaultPlan(
            at=round(random.uniform(2.0, seconds * 0.8), 3),
            seconds=round(random.uniform(1.0, 20.0), 3),
            kind="late",
            target=random.choice(names),
        )
        for _ in range(random.choice([0, 0, 1, 3]))
    )


def _make_unfit(seed: int, servers: int, seconds: float) -> tuple[FaultPlan, ...]:
    """Draw when hosts have a wrong clock or other zone data, from a random source of their own."""
    random = Random(f"unfit:{seed}")
    faults = []
    for _ in range(random.choice([0, 0, 1, 2, 4])):
        is_clock = random.random() < 0.6
        faults.append(
            FaultPlan(
                at=round(random.uniform(0.0, seconds * 0.7), 3),
                seconds=round(random.uniform(2.0, 30.0), 3),
                kind="skew" if is_clock else "tzdata",
                target=f"server-{random.randrange(servers)}",
                skew=random.choice([-3600.0, -60.0, 60.0, 3600.0]) if is_clock else 0.0,
                version="" if is_clock else random.choice(["2025b", "2026b"]),
            )
        )
    return tuple(faults)


def _make_strangers(seed: int, servers: int, seconds: float) -> tuple[FaultPlan, ...]:
    """Draw when a stranger reports leases of other sessions, from a random source of its own."""
    random = Random(f"strangers:{seed}")
    return tuple(
        FaultPlan(
            at=round(random.uniform(2.0, seconds * 0.8), 3),
            seconds=round(random.uniform(2.0, 20.0), 3),
            kind="stranger",
            target=f"server-{random.randrange(servers)}",
        )
        for _ in range(random.choice([0, 1, 2]))
    )


def _make_crashes_at_looks(seed: int, names: Sequence[str], seconds: float) -> tuple[FaultPlan, ...]:
    """Draw crashes at looks that not all plans lead to, from a random source of their own."""
    random = Random(f"looks:{seed}")
    return tuple(
        FaultPlan(
            at=round(random.uniform(2.0, seconds * 0.8), 3),
            seconds=round(random.uniform(0.2, 5.0), 3),
            kind="crash_at",
            target=random.choice(names),
            verb=random.choice(LOOK_VERBS),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 0, 1, 2]))
    )
