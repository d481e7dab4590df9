"""Remembers what was given out, so that reports tell how long attempts take, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

from mainspring.core.ids import KeyId, RunId
from mainspring.core.model import JobSpec
from mainspring.core.workflows.places import may_be_of_step
from mainspring.errors import StoreUnavailable
from mainspring.ports.gateway import Lease
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimedRun

_MOST = 50_000


class NotedLeases:
    """The leases of one claim that are of one definition. Each claim has its own, so they are told apart by identity.

    Attributes:
        at: when they were given, in monotonic seconds.
        is_of_step: their runs may be those of a workflow's step. That is only a hint.
    """

    __slots__ = ("at", "is_of_step", "spec", "tenant")

    def __init__(self, tenant: str, spec: JobSpec, at: float, *, is_of_step: bool = False) -> None:
        self.tenant: str = tenant
        self.spec: JobSpec = spec
        self.at: float = at
        self.is_of_step: bool = is_of_step


def _note(lease: Lease, at: float) -> NotedLeases:
    return NotedLeases(lease.tenant, lease.spec, at, is_of_step=may_be_of_step(lease.target_key))


class LeaseBook:
    """The leases that were given by this process, by run.

    It is a hint: it ends with the process, it forgets the oldest if they are many, and another process may get the
    report. So it decides nothing but the order in which tenants are served, and what is measured.
    """

    def __init__(self) -> None:
        self._young: dict[RunId, NotedLeases] = {}
        self._old: dict[RunId, NotedLeases] = {}
        self._keys: dict[RunId, tuple[KeyId, ...]] = {}

    def note(self, leases: Sequence[Lease], at: float) -> list[tuple[NotedLeases, list[Lease]]]:
        """Note what a claim has given, and return it by definition."""
        if not leases:
            return []
        young = self._young
        first = leases[0]
        is_of_one = {id(lease.spec) for lease in leases} == {id(first.spec)}
        if is_of_one and len(leases) > 1:  # as in nearly every large claim
            noted = _note(first, at)
            young.update(dict.fromkeys([lease.run_id for lease in leases], noted))
            self._turn_over()
            return [(noted, list(leases))]
        groups: dict[int, tuple[NotedLeases, list[Lease]]] = {}
        for lease in leases:
            group = groups.get(id(lease.spec))
            if group is None:
                noted = _note(lease, at)
                group = groups[id(lease.spec)] = (noted, [])
            young[lease.run_id] = group[0]
            group[1].append(lease)
        self._turn_over()
        return list(groups.values())

    def _turn_over(self) -> None:
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

    def tenant_of(self, run_id: RunId) -> str | None:
        """Return whose a run is; None if it is not known."""
        noted = self._young.get(run_id) or self._old.get(run_id)
        return None if noted is None else noted.tenant

    def take(self, run_ids: Sequence[RunId]) -> list[NotedLeases | None]:
        """Return with which leases runs were given, and forget them; None for those that are not known."""
        found = list(map(self._young.pop, run_ids, repeat(None)))
        if self._old:
            for place, noted in enumerate(found):
                if noted is None:
                    found[place] = self._old.pop(run_ids[place], None)
        return found


async def find_tenants(store: Store, run_ids: Sequence[RunId]) -> dict[RunId, str]:
    """Return whose runs are that are in no book of this process; none if the store does not answer."""
    if not run_ids:
        return {}
    try:
        runs = await store.get_runs(run_ids)
    except StoreUnavailable:
        return {}
    return {run.id: run.tenant for run in runs if run is not None}


def make_lease(run: ClaimedRun, spec: JobSpec) -> Lease:
    """Return what a worker gets of a run that it has claimed."""
    return Lease(
        run.run_id,
        run.token,
        run.job_id,
        run.version,
        run.tenant,
        run.attempt,
        run.fire_at,
        run.due_at,
        spec.payload if run.payload is None else run.payload,
        run.target_key,
        run.is_quarantined,
        run.is_cancel_requested,
        spec,
        None,  # batches are made of leases
        run.trace,
    )
