"""Reads what a flow takes over from the run that its run repeats, when it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.core.ciphertexts import is_encrypted_bytes
from mainspring.core.ids import RunId, format_run_id
from mainspring.core.values import value
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import FlowState, UnreadableFlow
from mainspring.core.workflows.taken import TakenStep
from mainspring.engine.workflows.values import value_of
from mainspring.ports.flow_codec import decode_flow_state
from mainspring.ports.gateway import Lease
from mainspring.ports.store import Store


@value()
class TakenSeed:
    """With what a flow begins.

    Attributes:
        values: what the steps that were taken over have left, by their places, as far as expressions name it.
    """

    state: FlowState
    values: Mapping[int, bytes | None]


class SeedReader:
    """Finds the seeds of runs that repeat others. Runs that do not cost nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, leases: Sequence[Lease]) -> dict[RunId, bytes]:
        """Return the seeds of those runs that have one.

        A run that repeats another one has the idempotency key of that. So without a key of its own, it repeats none.
        """
        keyed = [lease.run_id for lease in leases if lease.target_key is not None]
        seeds = await self._store.read_flow_seeds(keyed) if keyed else []
        return {run_id: seed for run_id, seed in zip(keyed, seeds, strict=True) if seed is not None}

    async def read(self, plan: FlowPlan, kept: bytes | None) -> TakenSeed | None:
        """Return what a seed says; None if there is none.

        Raises:
            UnreadableFlow: this program cannot read it, or cannot decrypt what steps have left.
            ValueError: what a step has left is not kept any more.
        """
        if kept is None:
            return None
        state = decode_flow_state(kept)
        named = [one for one in state.taken if one.step in plan.users and one.is_whole]
        return TakenSeed(state, await self._read_values(plan, named) if named else {})

    async def _read_values(self, plan: FlowPlan, named: Sequence[TakenStep]) -> dict[int, bytes | None]:
        runs = await self._store.read_step_ends([StepPlace(one.flow_id, one.place) for one in named])
        values: dict[int, bytes | None] = {}
        for one, run in zip(named, runs, strict=True):
            if run is None:
                raise ValueError(tell_missing(plan.workflow.steps[one.step].name, one.flow_id))
            values[one.step] = value_of(run)
            if is_encrypted_bytes(values[one.step]):
                raise UnreadableFlow("what a step has left cannot be decrypted here")
        return values


def tell_missing(step: str, flow_id: RunId) -> str:
    """Say that what a step has returned is gone."""
    return f"what step {step} has returned in {format_run_id(flow_id)} is not kept any more"
