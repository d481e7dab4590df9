"""Submissions that need more than one statement: those with keys, in new lanes, and records of skipped runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from mainspring.core.admission import (
    KnownKey,
    SubmissionVerdict,
    admit,
    is_remembered,
    verdict_of_text,
    verdict_to_text,
)
from mainspring.core.dead_letters import SettledLetter
from mainspring.core.ids import JobId, RunId
from mainspring.ports.store.runs import IdempotencyKey, NewRun, SubmitResult
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.dead import lock_settled, settle_redriven
from mainspring.stores.postgres.inserts import LaneIds, insert_decided, reserve_ids
from mainspring.stores.postgres.once import OnceBook, lock_once

_KNOWN = frozenset({SubmissionVerdict.DUPLICATE, SubmissionVerdict.KEY_MISMATCH})
_Pair = tuple[str, str]
"""A tenant and an idempotency key."""
_Versions = Mapping[JobId, int]


async def submit_carefully(
    transaction: Transaction,
    lane_ids: LaneIds,
    runs: Sequence[NewRun],
    now: datetime,
    *,
    locks_holders: bool = True,
) -> list[SubmitResult]:
    """Submit runs with everything that one statement cannot do: keys, new lanes, records of skipped runs.

    Args:
        locks_holders: as in `lock_once`.
    """
    rows = await transaction.fetch("find_existing_jobs", job_ids=sorted({run.job_id for run in runs}))
    versions = {row["id"]: row["version"] for row in rows}
    ids = await reserve_ids(transaction, runs)
    keys = await _KeyBook.reserve(transaction, runs, ids, versions, now)
    settled = await lock_settled(transaction, runs)
    guarded = [
        (run, run_id)
        for run, run_id in zip(runs, ids, strict=True)
        if run.once is not None and keys.may_insert(run, versions, now)
    ]
    # First the idempotency keys, then dead letters, then these, then their holders, then lanes: the same order in
    # every call.
    once = await lock_once(transaction, guarded, locks_holders=locks_holders) if guarded else None
    results = _decide(runs, ids, keys, settled, once, versions, now)
    new = [
        (run, run_id)
        for run, run_id, result in zip(runs, ids, results, strict=True)
        if result.status is SubmissionVerdict.SUBMITTED
    ]
    await keys.write(transaction)
    if once is not None:
        await once.write(transaction, now)
        new = [(once.final(run, run_id), run_id) for run, run_id in new]
    await _insert(transaction, lane_ids, new, now)
    await settle_redriven(transaction, _redriven(runs, results), now)
    return results


async def _insert(
    transaction: Transaction, lane_ids: LaneIds, new: Sequence[tuple[NewRun, RunId]], now: datetime
) -> None:
    await insert_decided(
        transaction,
        lane_ids,
        [(run, run.skip_reason) for run, _ in new],
        now=now,
        run_ids=[run_id for _, run_id in new],
    )
    for run, run_id in new:
        if run.redrive_of is not None:  # rare, and one at a time
            await transaction.execute(
                "mark_redrive", run_id=run_id, redrive_of=run.redrive_of, flow_seed=run.flow_seed
            )


def _redriven(runs: Sequence[NewRun], results: Sequence[SubmitResult]) -> dict[RunId, RunId]:
    """Return the runs that are repeated, and by which; also by those that an earlier release made."""
    return {
        run.redrive_of: result.run_id
        for run, result in zip(runs, results, strict=True)
        if run.redrive_of is not None and result.run_id is not None
    }


def _decide(
    runs: Sequence[NewRun],
    ids: Sequence[RunId],
    keys: _KeyBook,
    settled: Mapping[RunId, SettledLetter],
    once: OnceBook | None,
    versions: _Versions,
    now: datetime,
) -> list[SubmitResult]:
    """Decide runs one after the other, so that a later one finds what an earlier one did."""
    results = []
    for run, run_id in zip(runs, ids, strict=True):
        result = keys.known(run, versions, now)
        if result.status is SubmissionVerdict.SUBMITTED:
            end = None if run.redrive_of is None else settled.get(run.redrive_of)
            if end is not None:
                result = SubmitResult(SubmissionVerdict.SETTLED, end.redriven_as)
            elif run.once is None:
                result = SubmitResult(SubmissionVerdict.SUBMITTED, run_id)
            else:
                assert once is not None, "a run that may be inserted is guarded"
                result = once.decide(run, run_id, now)
            keys.note(run, result)
        results.append(result)
    return results


def _admit(run: NewRun, known: KnownKey | None, versions: _Versions, now: datetime) -> SubmissionVerdict:
    return admit(
        known=known,
        request_hashes=() if run.submit_key is None else run.submit_key.hashes,
        newest_version=versions.get(run.job_id),
        wanted_version=run.version if run.must_be_newest else None,
        now=now,
    )


class _KeyBook:
    """The idempotency keys of the runs of one call, locked.

    Args:
        reserved: the keys that this call has taken, each for the first run that may have it.
        owners: the run that has each other key, and what is known about the key. Of the keys that this call takes, a
            run sees only those of the runs before it: `note` adds them.
    """

    def __init__(
        self,
        reserved: dict[_Pair, tuple[RunId, IdempotencyKey]],
        owners: dict[_Pair, tuple[RunId, KnownKey]],
    ) -> None:
        self._reserved = reserved
        self._owners = owners
        self._used: dict[_Pair, tuple[RunId, IdempotencyKey, SubmissionVerdict]] = {}

    @classmethod
    async def reserve(
        cls,
        transaction: Transaction,
        runs: Sequence[NewRun],
        ids: Sequence[RunId],
        versions: _Versions,
        now: datetime,
    ) -> _KeyBook:
        """Take each free key for the first run that may have it, and read the owners of the others."""
        asked: set[_Pair] = set()
        first: dict[_Pair, tuple[RunId, IdempotencyKey]] = {}
        for run, run_id in zip(runs, ids, strict=True):
            if run.submit_key is not None:
                pair = (run.lane.tenant, run.submit_key.key)
                asked.add(pair)
                if _admit(run, None, versions, now) is SubmissionVerdict.SUBMITTED:
                    first.setdefault(pair, (run_id, run.submit_key))
        if not asked:
            return cls({}, {})
        ordered = sorted(first)  # in one order, so that two callers cannot deadlock
        await transaction.execute(
            "reserve_keys",
            tenants=[tenant for tenant, _ in ordered],
            keys=[key for _, key in ordered],
            run_ids=[first[pair][0] for pair in ordered],
            request_hashes=[first[pair][1].request_hash for pair in ordered],
            expiries_at=[first[pair][1].expires_at for pair in ordered],
            now=now,
        )
        rows = await transaction.fetch(
            "read_keys", tenants=[tenant for tenant, _ in asked], keys=[key for _, key in asked]
        )
        owners = {}
        for row in rows:
            known = KnownKey(row["request_hash"], row["expires_at"], verdict_of_text(row["verdict"]))
            owners[row["tenant"], row["key"]] = RunId(row["run_id"]), known
        reserved = {
            pair: taken for pair, taken in first.items() if pair in owners and owners[pair][0] == taken[0]
        }
        return cls(reserved, {pair: owner for pair, owner in owners.items() if pair not in reserved})

    def may_insert(self, run: NewRun, versions: _Versions, now: datetime) -> bool:
        """Say whether no earlier call's key decides the run."""
        return self.known(run, versions, now).status is SubmissionVerdict.SUBMITTED

    def known(self, run: NewRun, versions: _Versions, now: datetime) -> SubmitResult:
        """Decide a run as far as its idempotency key and its job's version do."""
        owner = None if run.submit_key is None else self._owners.get((run.lane.tenant, run.submit_key.key))
        admission = _admit(run, None if owner is None else owner[1], versions, now)
        if owner is None or admission not in _KNOWN:
            return SubmitResult(admission)
        return SubmitResult(admission, owner[0], owner[1].verdict)

    def note(self, run: NewRun, result: SubmitResult) -> None:
        """Note that a run has used its key, unless it was rejected."""
        key = run.submit_key
        if key is None or result.run_id is None or not is_remembered(result.status):
            return
        pair = (run.lane.tenant, key.key)
        self._owners[pair] = result.run_id, KnownKey(key.request_hash, key.expires_at, result.status)
        self._used[pair] = result.run_id, key, result.status

    async def write(self, transaction: Transaction) -> None:
        """Correct the keys that do not stand for the run that they were taken for, and give back those unused."""
        usual = SubmissionVerdict.SUBMITTED
        changed = sorted(
            pair for pair, used in self._used.items() if used != (*self._reserved.get(pair, ()), usual)
        )
        if changed:
            used = [self._used[pair] for pair in changed]
            await transaction.execute(
                "settle_keys",
                tenants=[tenant for tenant, _ in changed],
                keys=[key for _, key in changed],
                run_ids=[run_id for run_id, _, _ in used],
                request_hashes=[key.request_hash for _, key, _ in used],
                expiries_at=[key.expires_at for _, key, _ in used],
                verdicts=[verdict_to_text(verdict) for _, _, verdict in used],
            )
        unused = sorted(self._reserved.keys() - self._used.keys())
        if unused:
            await transaction.execute(
                "release_keys", tenants=[tenant for tenant, _ in unused], keys=[key for _, key in unused]
            )
