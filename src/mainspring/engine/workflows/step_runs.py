"""Makes the runs of a flow's steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from mainspring.core.ciphertexts import has_encrypted, is_encrypted_bytes
from mainspring.core.expiry import QueueExpiries, expiry_of
from mainspring.core.fields import decode_payload, encode_payload
from mainspring.core.ids import JobId, RunId, key_for_target
from mainspring.core.limits import keys_of
from mainspring.core.model import INLINE_LIMIT, Job, JobSpec, LaneKey, RunKind
from mainspring.core.values import value
from mainspring.core.workflows.places import NO_ITEM, StepPlace
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import UnreadableFlow
from mainspring.core.workflows.step_jobs import spec_of_step, step_job_id, step_version
from mainspring.core.workflows.turn import FlowTurn
from mainspring.errors import InvalidInput
from mainspring.ports.store.runs import NewRun


@value(kw_only=True)
class FlowFacts:
    """What the runs of a flow's steps take over from the workflow's run.

    Attributes:
        target_key: as it was submitted; None means the run's id. Those of its steps begin with it, so a redrive, which
            has that of the first run, gives targets the same keys again.
        payload: None means the job's.
    """

    run_id: RunId
    job_id: JobId
    version: int
    tenant: str
    fire_at: datetime | None
    target_key: str | None
    payload: bytes | None
    trace: bytes | None


class StepFault(Exception):
    """The run of a step cannot be made. So the step fails.

    Attributes:
        step: its place.
        reason: in words.
    """

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(f"step {step}: {reason}")
        self.step = step
        self.reason = reason


MakeRuns: TypeAlias = Callable[[FlowTurn, Mapping[str, Job]], tuple[NewRun, ...]]


def make_step_runs(
    facts: FlowFacts,
    spec: JobSpec,
    plan: FlowPlan,
    decided: FlowTurn,
    *,
    now: datetime,
    jobs: Mapping[str, Job],
    expiries: QueueExpiries,
) -> tuple[NewRun, ...]:
    """Make the runs of steps that start now.

    A step with a target and no payload, for which none was made, gets that of the workflow's run. A job gets its own,
    with the fields of the step's over it. An item's fields go over both; what is no object takes the place of what it
    goes over.

    Args:
        jobs: those that the steps run, by name.
        expiries: the expiries of queues.

    Raises:
        StepFault: the run of a step that runs a job cannot be made.
        UnreadableFlow: it cannot be made here, because something is encrypted.
        ValueError: there are too many versions or steps for the versions of their runs.
    """
    made = dict(decided.payloads)
    starts: list[tuple[int, int]] = [(step, NO_ITEM) for step in decided.starts]
    starts += [(step, item) for step, items in decided.items for item in items]
    return tuple(
        [
            _make(facts, spec, plan, StepPlace(facts.run_id, step, item), made, now, jobs, expiries)
            for step, item in starts
        ]
    )


def _make(
    facts: FlowFacts,
    spec: JobSpec,
    plan: FlowPlan,
    place: StepPlace,
    payloads: Mapping[tuple[int, int], bytes],
    now: datetime,
    jobs: Mapping[str, Job],
    expiries: QueueExpiries,
) -> NewRun:
    step, item = place.step, place.item
    own, made = plan.workflow.steps[step], payloads.get((step, NO_ITEM))
    given = payloads.get((step, item)) if item != NO_ITEM else None
    if own.map is not None and given is None and not isinstance(own.map.over, str):
        given = own.map.over[item]
    key = f"{key_for_target(facts.run_id, facts.target_key)}.{own.name}"
    target_key = key if item == NO_ITEM else f"{key}.{item}"
    if own.job is not None:
        payload = own.payload if made is None else made
        return _make_of_job(facts, jobs[own.job], payload, given, place, target_key, now, expiries)
    derived = spec_of_step(spec, plan.workflow, step)
    payload = made
    if given is not None:
        payload = _check_size(_lay_over(own.payload if made is None else made, given), step)
    elif made is None and own.payload is None:
        payload = facts.payload
    return NewRun(
        job_id=step_job_id(facts.job_id),
        version=step_version(facts.version, step),
        lane=LaneKey(derived.queue, derived.route, facts.tenant, derived.priority),
        kind=RunKind.WORKFLOW,
        fire_at=facts.fire_at,
        due_at=now,
        timeout=own.timeout,
        payload=payload,
        target_key=target_key,
        trace=facts.trace,
        place=place,
    )


def _make_of_job(
    facts: FlowFacts,
    job: Job,
    payload: bytes | None,
    item: bytes | None,
    place: StepPlace,
    target_key: str,
    now: datetime,
    expiries: QueueExpiries,
) -> NewRun:
    spec = job.spec
    payload = _payload_of_job(spec, payload, item, place.step)
    try:
        keys = keys_of(job.id, spec, payload)
    except InvalidInput as error:
        raise StepFault(place.step, f"job {spec.name!r} cannot run: {error}") from error
    return NewRun(
        job_id=job.id,
        version=job.version,
        lane=LaneKey(spec.queue, spec.route, facts.tenant, spec.priority),
        kind=RunKind.WORKFLOW,
        fire_at=facts.fire_at,
        due_at=now,
        timeout=spec.timeout,
        payload=payload,
        expires_at=expiry_of(spec, now, expiries),
        target_key=target_key,
        keys=keys,
        trace=facts.trace,
        place=place,
    )


def _payload_of_job(spec: JobSpec, payload: bytes | None, item: bytes | None, step: int) -> bytes | None:
    """Return the payload of a run of a job; None: that of the job."""
    if has_encrypted(spec.target.params):
        raise UnreadableFlow(f"job {spec.name!r}, which a step runs, cannot be decrypted here")
    given = [one for one in (payload, item) if one is not None]
    if not given:
        return None
    if is_encrypted_bytes(spec.payload):
        raise UnreadableFlow(f"the payload of job {spec.name!r}, which a step runs, cannot be decrypted here")
    made = spec.payload
    for one in given:
        made = _lay_over(made, one)
    return None if made is None else _check_size(made, step)


def _check_size(payload: bytes, step: int) -> bytes:
    """Return a payload that was put together, whose parts fit by themselves."""
    if len(payload) > INLINE_LIMIT:
        raise StepFault(step, f"its payload has {len(payload)} bytes; at most {INLINE_LIMIT} fit")
    return payload


def _lay_over(below: bytes | None, above: bytes) -> bytes:
    """Return an object's fields over those of another. If one of them is no object, it is the upper one."""
    if below is None or not (below.startswith(b"{") and above.startswith(b"{")):
        return above
    return encode_payload({**decode_payload(below), **decode_payload(above)})
