"""Submissions with a key of what runs once, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.expiry import EXPIRED
from mainspring.core.ids import JobId, RunId
from mainspring.core.once import HeldKey, Holder, OnceDecision, decide_once
from mainspring.core.states import RunState
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.ports.store.upkeep import UniqueKeyPlace
from mainspring.stores.postgres.completion import finish_waiting
from mainspring.stores.postgres.connection import Transaction

_Place = tuple[str, JobId, bytes]
_Kept = tuple[RunId, datetime | None]
"""What is stored for a key: its holder, and until when."""
_MICROSECOND = timedelta(microseconds=1)
_NO_TIME = timedelta(0)


class OnceBook:
    """The keys of the runs of one call, locked together with their holders.

    The runs are decided one after the other, so that a later one finds what an earlier one did. `write` stores what has
    come of it.

    Args:
        may_skip: holders that have expired are locked, and may be SKIPPED.
    """

    def __init__(
        self,
        stored: dict[_Place, _Kept],
        taken: set[_Place],
        holders: dict[RunId, Holder],
        *,
        may_skip: bool,
    ) -> None:
        self._stored = stored
        self._kept = {place: kept for place, kept in stored.items() if place not in taken}
        self._holders = holders
        self._may_skip = may_skip
        self._skipped: set[RunId] = set()
        self._new: set[RunId] = set()
        self._replaced: dict[RunId, tuple[bytes | None, timedelta]] = {}

    def decide(self, run: NewRun, run_id: RunId, now: datetime) -> SubmitResult:
        """Decide a submission, and note what it changes."""
        assert run.once is not None
        place = _place_of(run)
        kept = self._kept.get(place)
        held = None if kept is None else HeldKey(*kept, self._holders.get(kept[0]))
        decision = decide_once(run.once.rule, held, now=now)
        if decision.verdict is SubmissionVerdict.SUBMITTED:
            skipped = kept[0] if decision.skips_holder and self._may_skip and kept is not None else None
            if skipped is not None:
                self._skipped.add(skipped)
            self._kept[place] = run_id, decision.expires_at
            self._holders[run_id] = Holder(
                is_running=False, ready_at=max(run.due_at, now), created_at=now, expires_at=run.expires_at
            )
            self._new.add(run_id)
            return SubmitResult(decision.verdict, run_id, skipped=skipped)
        assert kept is not None, "a free key is given"
        if decision.verdict in {SubmissionVerdict.REPLACED, SubmissionVerdict.DEBOUNCED}:
            self._put_off(kept[0], run.payload, decision)
        return SubmitResult(decision.verdict, kept[0])

    def _put_off(self, run_id: RunId, payload: bytes | None, decision: OnceDecision) -> None:
        before = self._replaced.get(run_id, (None, _NO_TIME))[1]
        self._replaced[run_id] = payload, before + decision.shift
        holder = self._holders[run_id]
        self._holders[run_id] = replace(
            holder,
            ready_at=holder.ready_at + decision.shift,
            expires_at=None if holder.expires_at is None else holder.expires_at + decision.shift,
        )

    def final(self, run: NewRun, run_id: RunId) -> NewRun:
        """Return a run of this call as later ones have left it."""
        if run_id in self._skipped:
            return replace(run, skip_reason=EXPIRED)
        if run_id not in self._replaced:
            return run
        payload, shift = self._replaced[run_id]
        expires_at = None if run.expires_at is None else run.expires_at + shift
        return replace(run, payload=payload, due_at=run.due_at + shift, expires_at=expires_at)

    async def write(self, transaction: Transaction, now: datetime) -> None:
        """Store who holds the keys, and the payloads of holders that are not of this call."""
        unused = sorted(self._stored.keys() - self._kept.keys())
        if unused:  # they were taken for runs that an idempotency key of this call decided
            await transaction.execute("delete_unique_keys", **_columns(unused), now=now)
        changed = sorted(
            (place, kept) for place, kept in self._kept.items() if self._stored.get(place) != kept
        )
        if changed:
            await transaction.execute(
                "pass_unique_keys",
                **_columns(place for place, _ in changed),
                run_ids=[kept[0] for _, kept in changed],
                expiries_at=[kept[1] for _, kept in changed],
            )
        await finish_waiting(transaction, sorted(self._skipped - self._new), RunState.SKIPPED, EXPIRED, now)
        waiting = sorted(self._replaced.keys() - self._new - self._skipped)
        if waiting:
            await transaction.execute(
                "replace_waiting",
                run_ids=waiting,
                payloads=[self._replaced[run_id][0] for run_id in waiting],
                shifts=[self._replaced[run_id][1] // _MICROSECOND for run_id in waiting],
            )


async def lock_once(
    transaction: Transaction, runs: Sequence[tuple[NewRun, RunId]], *, locks_holders: bool = True
) -> OnceBook:
    """Take the keys of runs, or lock them and, in the next statement, their holders.

    Args:
        runs: those that may be inserted, with their ids.
        locks_holders: if not, the holders are only read, which will do where none of them is changed. One that has
            expired is then left to the scheduler: a submitter's role may not end runs.
    """
    first: dict[_Place, RunId] = {}
    for run, run_id in runs:
        first.setdefault(_place_of(run), run_id)
    stored: dict[_Place, _Kept] = {}
    taken: set[_Place] = set()
    while missing := sorted(first.keys() - stored.keys()):  # again only if the janitor removed one in between
        rows = await transaction.fetch(
            "take_unique_keys",
            **_columns(missing),
            run_ids=[first[place] for place in missing],
            expiries_at=[None] * len(missing),
        )
        free = {(row["tenant"], row["job_id"], row["key"]) for row in rows}
        taken |= free
        stored |= {place: (first[place], None) for place in free}
        held = [place for place in missing if place not in free]
        if held:
            rows = await transaction.fetch("lock_unique_keys", **_columns(held))
            for row in rows:
                place = (row["tenant"], row["job_id"], row["key"])
                stored[place] = RunId(row["run_id"]), row["expires_at"]
    statement = "lock_holders" if locks_holders else "read_holders"
    holders = await _read_holders(transaction, statement, stored, taken)
    return OnceBook(stored, taken, holders, may_skip=locks_holders)


async def _read_holders(
    transaction: Transaction, statement: str, stored: dict[_Place, _Kept], taken: set[_Place]
) -> dict[RunId, Holder]:
    run_ids = sorted({kept[0] for place, kept in stored.items() if place not in taken})
    if not run_ids:
        return {}
    rows = await transaction.fetch(statement, run_ids=run_ids)
    return {
        RunId(row["id"]): Holder(
            is_running=row["state"] == RunState.RUNNING,
            ready_at=row["ready_at"],
            created_at=row["created_at"],
            expires_at=row["expires_at"],
        )
        for row in rows
    }


async def prune_unique_keys(
    transaction: Transaction, now: datetime, after: UniqueKeyPlace | None, limit: int
) -> tuple[int, UniqueKeyPlace | None]:
    """See `UpkeepStore.prune_unique_keys`."""
    rows = await transaction.fetch(
        "find_unique_keys",
        tenant="" if after is None else after.tenant,
        job_id=UUID(int=0) if after is None else after.job_id,
        unique_key=b"" if after is None else after.key,
        now=now,
        limit=limit,
    )
    places = [(row["tenant"], row["job_id"], row["key"]) for row in rows]
    void = [place for place, row in zip(places, rows, strict=True) if row["is_void"]]
    removed = 0
    if void:
        locked = await transaction.fetch("lock_void_keys", **_columns(void))
        mine = [(row["tenant"], row["job_id"], row["key"]) for row in locked]
        # A second statement sees what submissions did with the keys until they were locked.
        removed = await transaction.execute("delete_unique_keys", **_columns(mine), now=now)
    return removed, UniqueKeyPlace(*places[-1]) if len(places) == limit else None


def _place_of(run: NewRun) -> _Place:
    assert run.once is not None
    return run.lane.tenant, run.job_id, run.once.key


def _columns(places: Iterable[_Place]) -> dict[str, list[object]]:
    every = list(places)
    return {
        "tenants": [tenant for tenant, _, _ in every],
        "job_ids": [job_id for _, job_id, _ in every],
        "unique_keys": [key for _, _, key in every],
    }
