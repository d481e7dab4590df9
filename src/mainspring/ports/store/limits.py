"""Limits: their rules, the lines of runs that wait under them, and claims that keep within them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import NamedTuple, Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.holding import LineStop
from mainspring.core.ids import KeyId, LaneId, RunId, SessionId
from mainspring.core.limits import LimitRule
from mainspring.core.values import value
from mainspring.ports.store.claims import ClaimedRun

PLAIN = KeyId(0)
"""In the place of a key: the runs of a lane that have none. They are a line, too, if their lane has a cap."""
MOST_IN_BATCHES = 5000
"""A claim of batches begins no further one beyond so many runs."""


class LineKey(NamedTuple):
    """One line: the runs of a lane whose first key is the same, or those without keys (see `PLAIN`)."""

    key_id: KeyId
    lane_id: LaneId


class Line(NamedTuple):
    """A line with its earliest `ready_at`, which may lie in the future."""

    key: LineKey
    ready_at: datetime


class BatchLine(NamedTuple):
    """A line whose runs are taken in batches.

    Attributes:
        ready_at: when its next batch may start, as far as is known; it may lie in the future.
        head_at: the earliest `ready_at` of its runs.
    """

    key: LineKey
    ready_at: datetime
    head_at: datetime


class LineQuota(NamedTuple):
    """How many runs, or batches, a claim may take of a line, and the lower bound of the runs' `ready_at`."""

    key: LineKey
    low: datetime
    quota: int


@value(kw_only=True)
class LineClaim:
    """A session's request for runs that wait in lines; see `LimitStore.claim_lined_up`.

    Attributes:
        number: the session's request number, one sequence with those of `ClaimRequest`.
        limit: the most runs; the most batches if they are taken so.
        lines: in order of preference. Requests of one call that have the same object here share the quotas.
        policy_epoch: that of the restrictions under which the lines were chosen.
        caps: the keys of the caps of each lane that has some. Its runs need places under these, too.
        is_oldest_first: of the runs of all these lines that may be taken, the oldest goes first.
        are_batches: the runs of these lines are taken in batches, each for one slot.
    """

    session_id: SessionId
    number: int
    limit: int
    lines: tuple[LineQuota, ...]
    policy_epoch: int = 0
    caps: Mapping[LaneId, tuple[KeyId, ...]] = field(default_factory=dict)
    are_batches: bool = False
    is_oldest_first: bool = False


@value()
class LineClaimResult:
    """The leases given to one request.

    Attributes:
        taken: how many of them, or how many batches, are of each line; empty if the answer is that of an earlier
            claim.
        keys: what each run has places under; of batches only the keys of caps, as others wait for no end of theirs.
        stops: the lines that were stopped, for all requests of the call with the same lines.
        is_policy_old: see `ClaimResult`.
    """

    runs: tuple[ClaimedRun, ...]
    is_session_live: bool = True
    taken: Mapping[LineKey, int] = field(default_factory=dict, compare=False)
    keys: Mapping[RunId, tuple[KeyId, ...]] = field(default_factory=dict, compare=False)
    stops: Mapping[LineKey, LineStop] = field(default_factory=dict, compare=False)
    is_policy_old: bool = False


@value(kw_only=True)
class KeyUse:
    """How much of a key is taken.

    Attributes:
        held: how many runs have a place under it.
        run_ids: some of them, at most five.
        next_permit_at: when the next start is allowed by its rate; None if one is allowed now, or there is no rate.
        waiting_since: the earliest `ready_at` of the runs that wait in its line; None if none does.
    """

    id: KeyId
    key: str
    held: int
    run_ids: tuple[RunId, ...]
    next_permit_at: datetime | None
    waiting_since: datetime | None


class LimitStore(Protocol):
    """The rules of limits, and the claims that keep within them.

    A place under a key is an entry that counts only while its run is RUNNING under the entry's token, or with
    `hold: run` while its run is live. So whatever ends an attempt frees the place, and nothing has to be given back.
    """

    async def write_limits(
        self, tenant: str, rules: Sequence[LimitRule], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """Store shared limits. Return for each whether it is new.

        The newest numbers hold for runs that wait, too. Runs under way go on, whatever the cap is now.
        """
        ...

    async def list_limits(self, tenant: str) -> list[LimitRule]:
        """Return the tenant's shared limits by name."""
        ...

    async def delete_limit(
        self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()
    ) -> LimitDeletion:
        """Delete a shared limit, unless a job uses it. It waits for jobs that are just being stored."""
        ...

    async def list_keys(
        self, tenant: str, name: str, *, after: str | None = None, limit: int, now: datetime
    ) -> list[KeyUse]:
        """Return a page of the keys of a limit that are in use, by key. That of jobs that name no key is empty."""
        ...

    async def list_keys_by_age(
        self, tenant: str, name: str, *, after: KeyId = PLAIN, limit: int, now: datetime
    ) -> list[KeyUse]:
        """Return the same by the age of the keys: in the order of their ids, which tells nothing of what they are."""
        ...

    async def read_lines(self, *, after: LineKey | None = None, limit: int) -> list[Line]:
        """Return lines in order of key and lane, from the one after `after` on, each with its earliest `ready_at`."""
        ...

    async def read_some_lines(self, keys: Sequence[LineKey]) -> list[Line]:
        """Return those of these lines in which a run waits, each with its earliest `ready_at`."""
        ...

    async def read_batches(self, keys: Sequence[LineKey], *, now: datetime) -> list[BatchLine]:
        """Return those of these lines in which a run waits that has not expired, each with when it has a batch.

        That is when its first run has waited as long as the job says, or when the run that fills a batch is ready. If
        the first is over at `now`, the other is not looked for.
        """
        ...

    async def claim_lined_up(self, requests: Sequence[LineClaim], *, now: datetime) -> list[LineClaimResult]:
        """Give runs that wait in lines to sessions, as `claim_runs` does for those of lanes.

        A run starts if all its keys have room (see `admit_to_keys`), and those of the caps of its lane. It then has a
        place under each. Keys are decided about one by one: where another claim is at it, the line is stopped as busy.
        Repeats, late requests and those under an old policy epoch are answered as by `claim_runs`, and a session that
        runs a quarantined run gets nothing.

        Where batches are asked for, a slot gets up to as many runs of a line as its newest rule says, if so many are
        ready, or if the first of them has waited (see `cut`), and no more than there is room for under the caps of the
        lane. The line is decided about under the lock of its key. A line that gives nothing is stopped as busy. A call
        gives at most `MOST_IN_BATCHES` runs, and a batch more.
        """
        ...

    async def prune_limits(self, *, now: datetime, limit: int) -> int:
        """Remove places that do not count, keys that nobody needs, and rules of deleted jobs without keys.

        Removes at most `limit` of each, and returns the largest of the counts.
        """
        ...


@value()
class LimitDeletion:
    """What became of a delete.

    Attributes:
        is_known: there was such a limit.
        used_by: names of jobs that use it, at most five; then it is still there.
    """

    is_known: bool
    used_by: tuple[str, ...] = ()
