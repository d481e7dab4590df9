"""From a request to run a job to the run that a store inserts."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from mainspring.core.expiry import QueueExpiries, expiry_of
from mainspring.core.fields import read_instant
from mainspring.core.ids import JobId
from mainspring.core.limits import KeyMaker
from mainspring.core.model import INLINE_LIMIT, Job, LaneKey, Priority, RunKind
from mainspring.core.once_keys import OnceKeys, canonical, once_keys_of
from mainspring.core.values import value
from mainspring.errors import InvalidInput, PayloadTooLarge
from mainspring.ports.store.runs import IdempotencyKey, NewRun

MAX_KEY_LENGTH = 255


@value(kw_only=True)
class Submission:
    """A request to run a job.

    Attributes:
        payload: the run's own payload, as JSON text in UTF-8; None uses the job's.
        run_at: the earliest instant to start; None means at once.
        delay: the same, as a time from the store's now; give only one of the two.
        priority: the run's own tier, or the class that names it; None uses the job's.
        idempotency_key: the same key returns the same run, for as long as it is remembered (24 h by default).
        traceparent: the header by which the caller passes on a trace; None if it passes none on.
    """

    job_id: JobId
    payload: bytes | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    priority: Priority | str | None = None
    idempotency_key: str | None = None
    traceparent: str | None = None


class JobForm:
    """What the runs of a job have in common.

    Attributes:
        lane: the lane of runs without a priority of their own.
        once: makes the keys of what runs once; None if the job has no such rule.
        wait: how long a debounced run waits for others; None if its job is not debounced.
        keys: makes what its runs are counted under; None if it has no limits.
    """

    __slots__ = ("job", "key_lifetime", "keys", "lane", "once", "timeout", "wait")

    def __init__(self, job: Job, key_lifetime: timedelta) -> None:
        spec = job.spec
        self.job: Job = job
        self.key_lifetime: timedelta = key_lifetime
        self.lane: LaneKey = LaneKey(spec.queue, spec.route, job.tenant, spec.priority)
        self.timeout: timedelta = spec.timeout
        self.once: OnceKeys | None = once_keys_of(spec)
        self.wait: timedelta | None = None if spec.debounce is None else spec.debounce.wait
        self.keys: KeyMaker | None = KeyMaker(job.id, spec) if spec.is_lined_up else None


def make_submitted_run(
    form: JobForm,
    submission: Submission,
    *,
    now: datetime,
    expiries: QueueExpiries,
    must_be_newest: bool = False,
) -> NewRun:
    """Make the run of a submission.

    Args:
        expiries: the expiries of queues.
        must_be_newest: the form may be outdated, so the store is to say if the job has changed since.

    Raises:
        InvalidInput, PayloadTooLarge: the submission is wrong.
    """
    if submission.payload is not None and len(submission.payload) > INLINE_LIMIT:
        size = len(submission.payload)
        message = f"{size} bytes; at most {INLINE_LIMIT} fit, put large data elsewhere and pass a link"
        raise PayloadTooLarge("payload", message)
    due_at = _due_at(form, submission, now)
    payload, once = submission.payload, None
    if form.once is not None:
        once = form.once.guard(payload)
        if payload is None:  # a run that joins one of an older version brings the payload of the newer
            payload = form.once.own_payload
    lane = form.lane
    if submission.priority is not None:
        assert isinstance(submission.priority, Priority), "the tier of a class has been found"
        lane = LaneKey(lane.queue, lane.route, lane.tenant, submission.priority)
    return NewRun(
        form.job.id,
        form.job.version,
        lane,
        RunKind.MANUAL,
        None,  # no fire
        due_at,
        form.timeout,
        payload,
        expiry_of(form.job.spec, due_at, expiries),
        None,  # it is not skipped
        submission.idempotency_key,
        _submit_key(submission, due_at, now, form.key_lifetime),
        None,  # it is not of a fire range
        must_be_newest,
        () if form.keys is None else form.keys.make(submission.payload),
        once,
    )


def _due_at(form: JobForm, submission: Submission, now: datetime) -> datetime:
    if form.wait is not None:
        if submission.run_at is not None or submission.delay is not None:
            field = "delay" if submission.run_at is None else "run_at"
            raise InvalidInput(field, "does not go with the job's debounce, which says when its runs start")
        return now + form.wait
    if submission.run_at is None:
        return now if submission.delay is None else now + submission.delay
    if submission.delay is not None:
        raise InvalidInput("delay", "says the same as 'run_at'; give one of them")
    return read_instant(submission.run_at, "run_at")


def _submit_key(
    submission: Submission, due_at: datetime, now: datetime, lifetime: timedelta
) -> IdempotencyKey | None:
    key = submission.idempotency_key
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise InvalidInput("idempotency_key", f"must be 1 to {MAX_KEY_LENGTH} printable characters")
    digest = sha256(submission.job_id.bytes)
    digest.update(canonical(submission.payload) if submission.payload is not None else b"\xff")
    run_at = None if submission.run_at is None else due_at  # in UTC: the same instant is the same request
    digest.update(f"|{run_at}|{submission.priority}".encode())
    if submission.delay is not None:  # not the resulting instant, which differs at each repeat
        digest.update(f"|{submission.delay}".encode())
    return IdempotencyKey(key=key, request_hash=digest.digest(), expires_at=now + lifetime)
