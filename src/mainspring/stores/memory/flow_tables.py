"""Flows and their mail, as a memory store holds them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

from mainspring.core.ids import SHARDS, RunId, run_shard
from mainspring.core.workflows.mail import Mail
from mainspring.core.workflows.places import StepPlace
from mainspring.stores.memory.rows import FlowRow


@dataclass(slots=True)
class FlowTables:
    """Flows, the last states of those that have ended, the runs of their steps, and their mail by shard and number.

    Attributes:
        values: what turns have kept of steps.
    """

    rows: dict[RunId, FlowRow] = field(default_factory=dict)
    ended: dict[RunId, bytes] = field(default_factory=dict)
    runs: dict[RunId, list[RunId]] = field(default_factory=lambda: defaultdict(list))
    values: dict[StepPlace, bytes] = field(default_factory=dict)
    mail: list[dict[int, tuple[RunId, Mail]]] = field(default_factory=lambda: [{} for _ in range(SHARDS)])
    sequence: count[int] = field(default_factory=lambda: count(1))

    def post(self, flow_id: RunId, mail: Mail) -> None:
        """Write mail to a flow."""
        self.mail[run_shard(flow_id)][next(self.sequence)] = flow_id, mail

    def revision(self, flow_id: RunId) -> int | None:
        """Return a flow's revision; None if it does not exist."""
        row = self.rows.get(flow_id)
        return None if row is None else row.revision
