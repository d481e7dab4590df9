"""A cache of definitions. A version never changes, so it is read only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import structlog

from mainspring.core.ciphertexts import has_encrypted, why_unreadable
from mainspring.core.ids import JobId, format_job_id
from mainspring.core.model import JobSpec
from mainspring.core.targets import TARGETS
from mainspring.core.triggers import UnknownTrigger
from mainspring.core.workflows.state import UnreadableFlow
from mainspring.core.workflows.step_jobs import (
    is_step_job,
    spec_of_step,
    split_step_version,
    workflow_job_id,
)
from mainspring.engine.common.workflows import FlowPlans
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
_CAPACITY = 30_000


class Definitions:
    """Looks up definitions by job and version, a batch at a time.

    Those of steps follow from the definitions of their workflows (`core.workflows.step_jobs`).

    Attributes:
        plans: of the workflows among them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.plans: FlowPlans = FlowPlans()
        self._known: dict[tuple[JobId, int], JobSpec] = {}
        self._told: set[tuple[JobId, int]] = set()

    async def load(self, keys: Iterable[tuple[JobId, int]]) -> dict[tuple[JobId, int], JobSpec]:
        """Return the definitions of these keys. A key that the store does not have is left out.

        One that cannot be decrypted here is in the answer, with all but what is encrypted. Each load reads it again.
        """
        known = self._known
        # Looked up before the wait: by the end of it, a known entry may have been dropped to make room.
        wanted = {key: known.get(key) for key in keys}
        missing = [key for key, spec in wanted.items() if spec is None]
        if missing:
            steps = [key for key in missing if is_step_job(key[0])]
            stored = [key for key in missing if not is_step_job(key[0])] if steps else missing
            wanted |= await self._read(stored)
            if steps:
                wanted |= await self._derive(steps)
        return {key: spec for key, spec in wanted.items() if spec is not None}

    async def _read(self, missing: Sequence[tuple[JobId, int]]) -> dict[tuple[JobId, int], JobSpec]:
        specs = await self._store.read_versions(missing)
        read = {key: spec for key, spec in zip(missing, specs, strict=True) if spec is not None}
        self._keep(self._readable(read))
        _warn_of_unknown_types(read)
        return read

    async def _derive(self, steps: Sequence[tuple[JobId, int]]) -> dict[tuple[JobId, int], JobSpec]:
        """Return the definitions of steps. Without the key of an encrypted workflow, its steps are encrypted, too."""
        places = {key: split_step_version(key[1]) for key in steps}
        owners = {key: (workflow_job_id(key[0]), version) for key, (version, _) in places.items()}
        specs = await self.load(dict.fromkeys(owners.values()))
        derived: dict[tuple[JobId, int], JobSpec] = {}
        for key, owner in owners.items():
            if (spec := specs.get(owner)) is None:
                continue
            try:
                plan = self.plans.find(owner, spec)
            except UnreadableFlow as error:
                _log.warning("step_unreadable", job=format_job_id(owner[0]), version=owner[1], why=str(error))
                if has_encrypted(spec.target.params):
                    derived[key] = replace(spec, trigger=None)
                continue
            derived[key] = spec_of_step(spec, plan.workflow, places[key][1])
        self._keep(self._readable(derived))
        return derived

    def _readable(self, read: dict[tuple[JobId, int], JobSpec]) -> dict[tuple[JobId, int], JobSpec]:
        """Return what can be decrypted. What cannot is logged once."""
        hidden = {key: spec for key, spec in read.items() if has_encrypted(spec.target.params)}
        if not hidden:
            return read
        for key in hidden.keys() - self._told:
            why, _ = why_unreadable(hidden[key].target.params)
            _log.error("definition_cannot_be_decrypted", job=format_job_id(key[0]), version=key[1], why=why)
        if len(self._told) > _CAPACITY:
            self._told.clear()
        self._told |= hidden.keys()
        return {key: spec for key, spec in read.items() if key not in hidden}

    def _keep(self, read: dict[tuple[JobId, int], JobSpec]) -> None:
        """Remember definitions, and forget the oldest if there are too many."""
        excess = len(self._known) + len(read) - _CAPACITY
        if excess > 0:
            for key in list(islice(self._known, max(excess, _CAPACITY // 10))):
                del self._known[key]
        self._known |= read


def has_hidden_keys(spec: JobSpec) -> bool:
    """Say whether runs may have keys of a payload that cannot be decrypted here, so that no run can be made."""
    return spec.is_lined_up and has_encrypted(spec.target.params)


def _warn_of_unknown_types(read: dict[tuple[JobId, int], JobSpec]) -> None:
    """Warn of types that this process does not know. It keeps such jobs, for processes that know the types."""
    for (job_id, version), spec in read.items():
        if isinstance(spec.trigger, UnknownTrigger):
            name = spec.trigger.type
            _log.warning("trigger_type_unknown", job=format_job_id(job_id), version=version, type=name)
        if spec.target.type not in TARGETS.by_name:
            name = spec.target.type
            _log.warning("target_type_unknown", job=format_job_id(job_id), version=version, type=name)
