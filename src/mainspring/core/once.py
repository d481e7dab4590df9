"""What runs once: rules by which a submission joins an earlier run of its job, or is dropped.

A key belongs to one job and one rule. A store keeps for each key the run that took it last, its holder. Nothing is
released when a run ends: whether the holder still counts is judged at the next submission with that key.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.claiming import is_expired
from mainspring.core.ids import RunId
from mainspring.core.values import value

_TICK = timedelta(microseconds=1)
_NO_TIME = timedelta(0)


class UniqueScope(StrEnum):
    """For how long a run keeps others with its key out."""

    QUEUED = "queued"
    LIVE = "live"
    PERIOD = "period"


class OnConflict(StrEnum):
    """What becomes of a submission whose key is held."""

    EXISTING = "existing"
    REJECT = "reject"
    REPLACE = "replace"


@value(kw_only=True)
class UniqueRule:
    """At most one run per key.

    Attributes:
        key: see `core.keypath`; None stands for the whole payload.
        period: with the scope `period`, how long a run keeps others out, from its submission.
    """

    key: str | None = None
    scope: UniqueScope = UniqueScope.LIVE
    period: timedelta | None = None
    on_conflict: OnConflict = OnConflict.EXISTING


@value(kw_only=True)
class DebounceRule:
    """Submissions with one key become one run, when no more have come for a while.

    Attributes:
        key: None stands for all runs of the job.
        wait: how long no other must have come.
        max_wait: how long the run may be put off in all, from the first submission; None is ten times `wait`.
    """

    key: str | None = None
    wait: timedelta
    max_wait: timedelta | None = None

    @property
    def longest(self) -> timedelta:
        """How long the run may be put off in all."""
        return 10 * self.wait if self.max_wait is None else self.max_wait


@value(kw_only=True)
class ThrottleRule:
    """At most so many runs per key and time; other submissions are dropped.

    Each key has `limit` permits. One comes back each `per / limit`.

    Attributes:
        key: None stands for all runs of the job.
    """

    key: str | None = None
    limit: int
    per: timedelta

    @property
    def step(self) -> timedelta:
        """How long it takes until one permit comes back: `per / limit`, rounded up."""
        return -(-self.per // _TICK // self.limit) * _TICK


OnceRule = UniqueRule | DebounceRule | ThrottleRule


def needs_own_transaction(rule: OnceRule) -> bool:
    """Say whether a submission under this rule must be decided in a transaction of the store's own.

    In one of the submitter's, which may last and may be rolled back, it would keep others from deciding, or change a
    run that others see. Only a rule under which a submission joins the holder as it is does not.
    """
    return not isinstance(rule, UniqueRule) or rule.on_conflict is not OnConflict.EXISTING


@value()
class OnceGuard:
    """A submission's key, as 16 bytes, and the rule that it is for."""

    key: bytes
    rule: OnceRule


@value(kw_only=True)
class Holder:
    """The holder of a key, as far as it is still live.

    Attributes:
        is_running: it was claimed, and has not ended or gone back to waiting.
        expires_at: when it is too late to start it.
    """

    is_running: bool
    ready_at: datetime
    created_at: datetime
    expires_at: datetime | None


@value()
class HeldKey:
    """What a store knows about a key.

    Attributes:
        run_id: the holder.
        expires_at: with the scope `period`, when it ceases to count. For a throttle, when all permits will be back.
        holder: None if the run has ended.
    """

    run_id: RunId
    expires_at: datetime | None
    holder: Holder | None


@value()
class OnceDecision:
    """What becomes of a submission with a key.

    Attributes:
        verdict: `SUBMITTED` makes it the key's holder. With `REPLACED` and `DEBOUNCED`, the holder gets its payload.
        expires_at: what the key keeps, if it is `SUBMITTED`.
        shift: how much later the holder may start. Its expiry moves as far, and so does its due instant, unless it was
            started before.
        skips_holder: the holder waits, though it has expired. It is to be recorded as skipped in the same transaction:
            a claim with a clock that is behind would still give it out, beside the new holder.
    """

    verdict: SubmissionVerdict
    expires_at: datetime | None = None
    shift: timedelta = _NO_TIME
    skips_holder: bool = False


def decide_once(rule: OnceRule, held: HeldKey | None, *, now: datetime) -> OnceDecision:
    """Decide a submission that has a key.

    Args:
        held: what is known about the key; None if it is free.
    """
    if isinstance(rule, UniqueRule):
        return _decide_unique(rule, held, now)
    if isinstance(rule, DebounceRule):
        return _decide_debounce(rule, held, now)
    return _decide_throttle(rule, held, now)


def _decide_unique(rule: UniqueRule, held: HeldKey | None, now: datetime) -> OnceDecision:
    if held is None or not _counts(rule.scope, held, now):
        until = None if rule.period is None else now + rule.period
        return OnceDecision(SubmissionVerdict.SUBMITTED, until, skips_holder=_has_expired(held, now))
    if rule.on_conflict is OnConflict.REJECT:
        return OnceDecision(SubmissionVerdict.REJECTED)
    if rule.on_conflict is OnConflict.REPLACE and _is_waiting(held.holder, now):
        return OnceDecision(SubmissionVerdict.REPLACED)
    return OnceDecision(SubmissionVerdict.EXISTING)


def _counts(scope: UniqueScope, held: HeldKey, now: datetime) -> bool:
    """Say whether a key's holder keeps others out."""
    if scope is UniqueScope.PERIOD:
        return held.expires_at is not None and held.expires_at > now
    if held.holder is not None and held.holder.is_running:
        return scope is UniqueScope.LIVE
    return _is_waiting(held.holder, now)


def _is_waiting(holder: Holder | None, now: datetime) -> bool:
    """Say whether a run will still be claimed. One that has expired will not, even before it is recorded as skipped."""
    return holder is not None and not holder.is_running and not is_expired(holder.expires_at, now)


def _has_expired(held: HeldKey | None, now: datetime) -> bool:
    """Say whether the holder still waits although it has expired."""
    holder = None if held is None else held.holder
    return holder is not None and not holder.is_running and is_expired(holder.expires_at, now)


def _decide_debounce(rule: DebounceRule, held: HeldKey | None, now: datetime) -> OnceDecision:
    holder = None if held is None else held.holder
    if holder is None or not _is_waiting(holder, now):
        return OnceDecision(SubmissionVerdict.SUBMITTED, skips_holder=_has_expired(held, now))
    wanted = min(now + rule.wait, holder.created_at + rule.longest)
    return OnceDecision(SubmissionVerdict.DEBOUNCED, shift=max(wanted - holder.ready_at, _NO_TIME))


def _decide_throttle(rule: ThrottleRule, held: HeldKey | None, now: datetime) -> OnceDecision:
    # One instant tells how many permits are out: it lies one step ahead for each of them.
    step = rule.step
    all_out = now + rule.limit * step
    full_at = now
    if held is not None and held.expires_at is not None:
        full_at = min(max(held.expires_at, now), all_out)  # an edit may have made the bucket smaller
    if full_at + step > all_out:
        return OnceDecision(SubmissionVerdict.THROTTLED)
    return OnceDecision(SubmissionVerdict.SUBMITTED, full_at + step)
