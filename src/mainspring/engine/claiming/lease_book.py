"""Remembers what was given out, so that reports tell how long the attempts of a tenant take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mainspring.core.ids import KeyId, RunId
from mainspring.core.slot_times import NOT_SAMPLED
from mainspring.ports.store.claims import ClaimedRun

_FEW = 100
"""Of a claim of at most so many runs all are noted, as workers then measure all."""
_MOST = 50_000


class NotedLease(NamedTuple):
    """A lease: its token, its tenant, and when it was given, in monotonic seconds."""

    token: int
    tenant: str
    at: float


class LeaseBook:
    """The leases that were given by this process, by run.

    It is a hint: it ends with the process, it forgets the oldest if they are many, and another process may get the
    report. So it decides nothing but the order in which tenants are served.
    """

    def __init__(self) -> None:
        self._young: dict[RunId, NotedLease] = {}
        self._old: dict[RunId, NotedLease] = {}
        self._keys: dict[RunId, tuple[KeyId, ...]] = {}

    def note(self, runs: Sequence[ClaimedRun], at: float) -> None:
        """Note what a claim has given."""
        if len(runs) > _FEW:
            runs = [run for run in runs if not run.run_id & NOT_SAMPLED]
        for run in runs:
            self._young[run.run_id] = NotedLease(run.token, run.tenant, at)
        if len(self._young) > _MOST:
            self._old, self._young = self._young, {}

    def note_keys(self, keys: Mapping[RunId, tuple[KeyId, ...]]) -> None:
        """Note the keys of runs with limits."""
        if len(self._keys) > _MOST:
            self._keys.clear()
        self._keys.update(keys)

    def take_keys(self, run_ids: Iterable[RunId]) -> set[KeyId]:
        """Return the keys of runs, as far as they are known, and forget them."""
        if not self._keys:
            return set()
        return {key_id for run_id in run_ids for key_id in self._keys.pop(run_id, ())}

    def take(self, run_id: RunId, token: int) -> NotedLease | None:
        """Return a lease and forget it; None if it is not known."""
        given = self._young.pop(run_id, None) or self._old.pop(run_id, None)
        return given if given is not None and given.token == token else None
