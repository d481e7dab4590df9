"""What a backup says of itself, and what a restore changes so that nobody of before is taken for somebody of now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256

from mainspring.core.ids import JobId
from mainspring.core.values import value

FORMAT = 1
"""The form of manifests. A program reads those of its own form."""
_LEAST_STEP = 1_000_000
_STEP_PER_SECOND = 100_000
"""More ids than a store gives in a second: it makes some ten thousand runs."""
_MOST_SECONDS = 10 * 365 * 86_400
"""Ids of runs have 55 bits for what grows. Beyond ten years nobody of before is left."""


@value(kw_only=True)
class KeptClock:
    """Where a job's clock stands, and what it has fired.

    Attributes:
        fires: how many scheduled runs of the job there are, ended ones among them.
        last_fire_at: the latest instant for which there is one; None if there is none.
    """

    job_id: JobId
    next_fire_at: datetime | None
    fired_through: datetime | None
    fires: int
    last_fire_at: datetime | None


@value(kw_only=True)
class LedgerFacts:
    """The record of fires as a whole.

    Attributes:
        digest: SHA-256 over all clocks and what they fired, in hexadecimal.
    """

    jobs: int
    fires: int
    digest: str


@value(kw_only=True)
class SealFacts:
    """The newest seal of the audit; its digest depends on all seals before it, and on what they cover."""

    id: int
    digest: str


@value(kw_only=True)
class StoreFacts:
    """What is in a store, by which a copy is compared with it.

    Attributes:
        schema: the number of the last migration.
        rows: how many rows each table has.
        seal: None if nothing is sealed.
    """

    schema: int
    rows: Mapping[str, int]
    seal: SealFacts | None
    ledger: LedgerFacts


@value(kw_only=True)
class FileFacts:
    """The backup's file: how large it is, and its SHA-256 in hexadecimal."""

    bytes: int
    sha256: str


@value(kw_only=True)
class BackupManifest:
    """What lies beside a backup.

    Attributes:
        form: `FORMAT`.
        product: the version of Mainspring that made it.
        kind: `sqlite` or `postgresql`: only such a store can take it.
        tool: what wrote the file, with its version, like `pg_dump 15.4`.
        taken_at: the instant as of which it is, by the store's clock.
    """

    form: int
    product: str
    kind: str
    tool: str
    taken_at: datetime
    file: FileFacts
    store: StoreFacts


@value(kw_only=True)
class KeyCheck:
    """Whether this host has the keys with which a restored store is encrypted.

    Attributes:
        used: their ids; empty if nothing is encrypted.
        missing: those that are in no file of keys here.
        other: those under whose id another key is there.
    """

    used: Sequence[str] = ()
    missing: Sequence[str] = ()
    other: Sequence[str] = ()


def compare_keys(used: Mapping[str, bytes], here: Mapping[str, bytes]) -> KeyCheck:
    """Compare the keys of a store with those of this host, by what tells keys of one id apart."""
    return KeyCheck(
        used=sorted(used),
        missing=sorted(used.keys() - here.keys()),
        other=sorted(key_id for key_id in used.keys() & here.keys() if used[key_id] != here[key_id]),
    )


def sum_up_ledger(clocks: Iterable[KeptClock]) -> LedgerFacts:
    """Return the digest of all clocks, whatever their order."""
    found = list(clocks)
    lines = sorted(
        f"{clock.job_id.hex} {_show(clock.next_fire_at)} {_show(clock.fired_through)} {clock.fires}"
        f" {_show(clock.last_fire_at)}"
        for clock in found
    )
    digest = sha256("\n".join(lines).encode()).hexdigest()
    return LedgerFacts(jobs=len(lines), fires=sum(clock.fires for clock in found), digest=digest)


def _show(at: datetime | None) -> str:
    return "-" if at is None else at.isoformat()


def find_differences(expected: StoreFacts, found: StoreFacts) -> list[str]:
    """Return in words how a restored store differs from what its manifest says; nothing if it does not."""
    said = []
    if found.schema != expected.schema:
        said.append(f"its schema is {found.schema:04}, not {expected.schema:04}")
    for table in sorted(expected.rows.keys() | found.rows.keys()):
        here, there = found.rows.get(table), expected.rows.get(table)
        if here != there:
            said.append(f"the table {table} has {_count(here)} rows, not {_count(there)}")
    if found.seal != expected.seal:
        said.append(f"the newest seal of its audit is {_name(found.seal)}, not {_name(expected.seal)}")
    if found.ledger != expected.ledger:
        said.append("the digest of its clocks and fires is another one")
    return said


def _count(rows: int | None) -> str:
    return "no" if rows is None else f"{rows:,}"


def _name(seal: SealFacts | None) -> str:
    return "none" if seal is None else f"{seal.id} {seal.digest[:12]}…"


def step_over(taken_at: datetime, now: datetime) -> int:
    """Return by how much a restore raises epochs, revisions and the ids that are given next.

    Servers and workers may have gone on after the backup, with epochs and ids that the backup does not know. None of
    them may be given again: who has one of these would be taken for the one who gets it now.
    """
    seconds = max(now - taken_at, timedelta()) // timedelta(seconds=1)
    return _LEAST_STEP + _STEP_PER_SECOND * min(seconds, _MOST_SECONDS)


@value(kw_only=True)
class Restored:
    """What a restore found and changed before anybody else could use the store.

    Attributes:
        found: the store as the file had it.
        step: by how much epochs, revisions and ids were raised.
        sessions: how many workers' sessions were ended.
        runs: how many runs were under way in them. They count as lost.
    """

    found: StoreFacts
    step: int
    sessions: int
    runs: int


@value(kw_only=True)
class Proof:
    """What a restored store was found to be.

    Attributes:
        differences: from its manifest, in words.
        seals, entries: of the audit, as far as they fit.
        broken_seal: what is wrong with the audit; None if nothing is.
        owed, missing, surplus: fires, of all jobs' ledgers up to the backup.
        uneven: names of jobs whose ledger is not even, the first few.
        unknown: how many jobs have a trigger or a calendar that is not known here.
    """

    differences: Sequence[str]
    seals: int
    entries: int
    broken_seal: str | None
    jobs: int
    owed: int
    missing: int
    surplus: int
    uneven: Sequence[str]
    unknown: int

    @property
    def holds(self) -> bool:
        """Whether all is as it was."""
        return not (self.differences or self.broken_seal or self.missing or self.surplus)
