"""Values and rows for tests. Each function makes a consistent whole from the few facts that a test cares about.

Ids and names come from counters, so the same sequence of calls makes the same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha512
from itertools import count
from typing import Any
from uuid import UUID

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.clocks import NextFire
from mainspring.core.ids import DEFAULT_TENANT, SHARDS, JobId, LaneId, RunId, SessionId
from mainspring.core.limits import keys_of
from mainspring.core.model import FireRangeKind, Job, JobSpec, LaneKey, RunKind, Target
from mainspring.core.outcomes import AttemptFacts
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimedRun, ClaimRequest, HeldRun
from mainspring.ports.store.jobs import AddResult, ClockChange, JobEdit, NewJob
from mainspring.ports.store.limits import LineClaim, LineClaimResult, LineQuota
from mainspring.ports.store.nodes import NodeFacts
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import Fire, NewFireRange
from mainspring.ports.store.sessions import NewSession

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""The instant at which tests begin, a Monday at noon."""

MINUTE = timedelta(minutes=1)


def at(seconds: float) -> datetime:
    """Return the instant this many seconds after `START`."""
    return START + timedelta(seconds=seconds)


class IdSequence:
    """An `IdSource` that counts: its UUIDv7s are one millisecond apart, and take the shards in turn."""

    def __init__(self, start: int = 1) -> None:
        self._numbers = count(start)

    def new_uuid(self) -> UUID:
        """Return the next id."""
        number = next(self._numbers)
        return self._make(number, number % SHARDS)

    def new_secret(self, size: int) -> bytes:
        """Return so many bytes of the next number, at most 64. Everybody can guess them."""
        return sha512(b"%d" % next(self._numbers)).digest()[:size]

    def new_job_id(self, *, shard: int | None = None) -> JobId:
        """Return the next id as a job id, in the given shard if any."""
        number = next(self._numbers)
        return JobId(self._make(number, number % SHARDS if shard is None else shard))

    @staticmethod
    def _make(number: int, shard: int) -> UUID:
        milliseconds = int(START.timestamp() * 1000) + number
        return UUID(int=milliseconds << 80 | 7 << 76 | 2 << 62 | number << 8 | shard)


_IDS = IdSequence()
_NAMES = count(1)
_CLAIMS = count(1)
_NO_LOWS: Mapping[LaneId, datetime] = {}
"""One for all claims, so that a store may answer the claims of a call together, as it does those of a server."""


# -- values ----------------------------------------------------------------------------------------------------


def make_spec(**overrides: Any) -> JobSpec:
    """Make a definition: a function job without a trigger, with a unique name."""
    values: dict[str, Any] = {"target": Target("function", {"function": "work"})}
    if "name" not in overrides:
        values["name"] = f"job-{next(_NAMES)}"
    return JobSpec(**values | overrides)


def make_new_job(
    spec: JobSpec | None = None,
    *,
    tenant: str = DEFAULT_TENANT,
    next_fire_at: datetime | None = None,
    jitter: timedelta = timedelta(0),
    shard: int | None = None,
) -> NewJob:
    """Make a job to insert. Its next fire is due at `next_fire_at` or, with a jitter, so much later."""
    spec = make_spec() if spec is None else spec
    new_id = _IDS.new_job_id(shard=shard)
    return NewJob(id=new_id, tenant=tenant, spec=spec, next_fire=make_next_fire(next_fire_at, jitter=jitter))


def make_next_fire(fire_at: datetime | None, *, jitter: timedelta = timedelta(0)) -> NextFire | None:
    """Make where a clock stands: at this fire, which its jitter holds back. None for no next fire."""
    return None if fire_at is None else NextFire(fire_at, fire_at + jitter)


def lane_of(job: Job | NewJob) -> LaneKey:
    """Return the lane that a job's runs go to."""
    return LaneKey(job.spec.queue, job.spec.route, job.tenant, job.spec.priority)


def make_new_run(job: Job | NewJob, **overrides: Any) -> NewRun:
    """Make a run to insert: a manual run of the job's newest version, due at `START`."""
    values: dict[str, Any] = {
        "job_id": job.id,
        "version": job.version if isinstance(job, Job) else 1,
        "lane": lane_of(job),
        "kind": RunKind.MANUAL,
        "fire_at": None,
        "due_at": START,
        "timeout": job.spec.timeout,
    }
    if "keys" not in overrides and not overrides.get("skip_reason"):
        values["keys"] = keys_of(job.id, job.spec, overrides.get("payload"))
    return NewRun(**values | overrides)


def make_scheduled_run(job: Job, fire_at: datetime, **overrides: Any) -> NewRun:
    """Make the run of a fire."""
    return make_new_run(job, **{"kind": RunKind.SCHEDULED, "fire_at": fire_at, "due_at": fire_at} | overrides)


def make_fire(job: Job, **overrides: Any) -> Fire:
    """Plan the next fire of a job as it was read: one run, which counts, with the clock moved on by a minute."""
    fire_at: datetime = overrides["fire_at"] if "fire_at" in overrides else _fire_at(job)
    values: dict[str, Any] = {
        "job_id": job.id,
        "revision": job.revision,
        "fire_at": fire_at,
        "next_fire": make_next_fire(overrides.pop("next_fire_at", fire_at + MINUTE)),
        "fired_through": fire_at,
        "fires_left": None if job.fires_left is None else job.fires_left - 1,
    }
    if "runs" not in overrides:
        values["runs"] = (make_scheduled_run(job, fire_at),)
    return Fire(**values | overrides)


def _fire_at(job: Job) -> datetime:
    assert job.next_fire_at is not None
    return job.next_fire_at


def make_fire_range(job: Job, **overrides: Any) -> NewFireRange:
    """Make a catch-up fire range over the ten minutes before `START`."""
    values: dict[str, Any] = {
        "job_id": job.id,
        "version": job.version,
        "kind": FireRangeKind.CATCH_UP,
        "from_at": START - 10 * MINUTE,
        "to_at": START,
        "reason": "downtime",
    }
    return NewFireRange(**values | overrides)


def make_edit(job: Job, spec: JobSpec | None = None, **overrides: Any) -> JobEdit:
    """Make an edit of a job as it was read; the clock stays where it is."""
    values: dict[str, Any] = {
        "job_id": job.id,
        "revision": job.revision,
        "fire_at": job.next_fire_at,
        "spec": job.spec if spec is None else spec,
        "next_fire": make_next_fire(overrides.pop("next_fire_at", job.next_fire_at)),
        "fires_left": job.fires_left,
    }
    return JobEdit(**values | overrides)


def make_change(job: Job, **overrides: Any) -> ClockChange:
    """Make a resume or delete of a job as it was read."""
    values: dict[str, Any] = {
        "job_id": job.id,
        "revision": job.revision,
        "fire_at": job.next_fire_at,
        "next_fire": make_next_fire(overrides.pop("next_fire_at", None)),
    }
    return ClockChange(**values | overrides)


def make_pause(job: Job, *, from_at: datetime = START) -> ClockChange:
    """Make a pause of a job as it was read, with the gap that it opens."""
    gap = make_fire_range(job, kind=FireRangeKind.GAP, from_at=from_at, to_at=None, reason="paused")
    return make_change(job, fire_ranges=(gap,))


def make_session(**overrides: Any) -> NewSession:
    """Make a worker's offer."""
    values: dict[str, Any] = {"worker": "worker-1", "host": "host-1", "pid": 4711, "slots": 10}
    return NewSession(**values | overrides)


def make_node(node_id: str = "node-1") -> NodeFacts:
    """Make a scheduler node."""
    return NodeFacts(id=node_id, host="host-1", pid=4711, version="0", tzdata="2026a")


def facts_of(held: HeldRun) -> AttemptFacts:
    """Return what the core needs to know about a RUNNING run."""
    return AttemptFacts(
        run_id=held.run_id,
        token=held.token,
        session_id=held.session_id,
        attempt=held.attempt,
        is_quarantined=held.is_quarantined,
        quarantined_crashes=held.quarantined_crashes,
        is_cancel_requested=held.is_cancel_requested,
    )


# -- rows ------------------------------------------------------------------------------------------------------


async def add_job(
    store: Store,
    spec: JobSpec | None = None,
    *,
    tenant: str = DEFAULT_TENANT,
    next_fire_at: datetime | None = None,
    jitter: timedelta = timedelta(0),
    shard: int | None = None,
    now: datetime = START,
) -> Job:
    """Insert a job, and return it as the store holds it."""
    new = make_new_job(spec, tenant=tenant, next_fire_at=next_fire_at, jitter=jitter, shard=shard)
    assert await store.add_jobs([new], now=now) == [AddResult.ADDED]
    return await read_job(store, new.id)


async def read_job(store: Store, job_id: JobId) -> Job:
    """Return a job that exists."""
    [job] = await store.get_jobs([job_id])
    assert job is not None
    return job


async def add_session(store: Store, *, now: datetime = START, **offer: Any) -> SessionId:
    """Open a worker session."""
    [session_id] = await store.add_sessions([make_session(**offer)], now=now)
    return session_id


async def submit(
    store: Store, job: Job, number: int = 1, *, now: datetime = START, **overrides: Any
) -> list[RunId]:
    """Submit runs of a job, and return their ids in order."""
    results = await store.submit_runs([make_new_run(job, **overrides) for _ in range(number)], now=now)
    assert all(result.status is SubmissionVerdict.SUBMITTED for result in results)
    return [result.run_id for result in results if result.run_id is not None]


def make_claim(session_id: SessionId, lanes: Sequence[LaneId], **overrides: Any) -> ClaimRequest:
    """Make a claim with a number that was not used before."""
    values: dict[str, Any] = {
        "session_id": session_id,
        "number": next(_CLAIMS),
        "lanes": tuple(lanes),
        "limit": 1,
        "lows": _NO_LOWS,
    }
    low = overrides.pop("low", None)  # one lower bound for all lanes
    if low is not None:
        values["lows"] = dict.fromkeys(lanes, low)
    return ClaimRequest(**values | overrides)


async def all_lanes(store: Store) -> tuple[LaneId, ...]:
    """Return the ids of all lanes in ascending order."""
    return tuple(sorted(lane.id for lane in await store.read_lanes([])))


async def claim(
    store: Store, session_id: SessionId, *, now: datetime = START, **overrides: Any
) -> tuple[ClaimedRun, ...]:
    """Claim for a live session, by default one run from any lane."""
    lanes = overrides["lanes"] if "lanes" in overrides else await all_lanes(store)
    request = make_claim(session_id, lanes, **{key: overrides[key] for key in overrides if key != "lanes"})
    [result] = await store.claim_runs([request], now=now)
    assert result.is_session_live
    return result.runs


async def claim_lined_up(
    store: Store, session_id: SessionId, *, now: datetime = START, limit: int = 1, **overrides: Any
) -> LineClaimResult:
    """Claim for a session from the lines, by default one run of any line."""
    if "lines" not in overrides:
        lines = await store.read_lines(limit=1000)
        ready = [line for line in lines if line.ready_at <= now]
        overrides["lines"] = tuple(LineQuota(line.key, line.ready_at, limit) for line in ready)
    values = {"session_id": session_id, "number": next(_CLAIMS), "limit": limit}
    [result] = await store.claim_lined_up([LineClaim(**values | overrides)], now=now)
    return result


async def running_run(
    store: Store,
    job: Job | None = None,
    *,
    session_id: SessionId | None = None,
    now: datetime = START,
    **overrides: Any,
) -> HeldRun:
    """Submit a run and claim it. No other ready run may be ahead of it in its lane."""
    job = await add_job(store, now=now) if job is None else job
    session_id = await add_session(store, now=now) if session_id is None else session_id
    [run_id] = await submit(store, job, now=now, **{"due_at": now} | overrides)
    [leased] = await claim(store, session_id, now=now)
    assert leased.run_id == run_id
    return await read_held(store, run_id)


async def read_held(store: Store, run_id: RunId) -> HeldRun:
    """Return the facts about a RUNNING run."""
    [held] = await store.read_held([run_id])
    assert held is not None
    return held


async def own_shards(store: Store, node_id: str = "node-1", *, now: datetime = START) -> dict[int, int]:
    """Let a node take every shard. Return the epochs for its writes."""
    await store.beat_node(make_node(node_id), now=now)
    expected = {lease.shard: lease.epoch for lease in await store.read_shards()}
    return await store.take_shards(node_id, expected, now=now)
