"""Which faults there are, by their codes in the fault matrix of the reliability notes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from tests.chaos.cluster import network_faults, process_faults, store_faults
from tests.chaos.cluster.scene import Cluster


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of harm.

    Attributes:
        inflict: does it and puts it right again.
        owes_refusal: whether the store has to refuse a stale write; a trial without one proves nothing.
    """

    code: str
    inflict: Callable[[Cluster, Random], Awaitable[None]]
    owes_refusal: bool = False

    @property
    def what(self) -> str:
        """What it does, in a line."""
        return (self.inflict.__doc__ or "").partition(": ")[2]


FAULTS = {
    kind.code: kind
    for kind in (
        FaultKind("F1", process_faults.kill_owner),
        FaultKind("F2", process_faults.kill_at_commit),
        FaultKind("F3", process_faults.kill_worker),
        FaultKind("F4", process_faults.kill_all),
        FaultKind("F5", process_faults.pause_owner, owes_refusal=True),
        FaultKind("F6", process_faults.pause_worker, owes_refusal=True),
        FaultKind("F7", process_faults.pause_at_the_edge),
        FaultKind("F8", network_faults.cut_off),
        FaultKind("F9", network_faults.lose_answers),
        FaultKind("F10", network_faults.slow_down),
        FaultKind("F11", store_faults.restart_store),
        FaultKind("F13", store_faults.use_up_connections),
        FaultKind("F14", store_faults.undo_transactions),
        FaultKind("F21", process_faults.shift_clock),
    )
}
