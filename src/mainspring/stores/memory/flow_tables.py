"""Flows and their mail, as a memory store holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter

from mainspring.core.events.model import Event
from mainspring.core.ids import SHARDS, RunId, run_shard
from mainspring.core.workflows.answers import StepAnswer, pack_event
from mainspring.core.workflows.mail import Mail
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.waits import AnswerKind
from mainspring.ports.store.flows import NewWait
from mainspring.stores.memory.rows import FlowRow


def _is_met(wait: NewWait, event: Event) -> bool:
    return (wait.tenant, wait.topic, wait.key) == (event.tenant, event.topic, event.key)


@dataclass(slots=True)
class FlowTables:
    """Flows, the last states of those that have ended, the runs of their steps, and their mail by shard and number.

    Attributes:
        values: what turns have kept of steps.
        waits: the steps that wait for events, each with what for.
    """

    rows: dict[RunId, FlowRow] = field(default_factory=dict)
    ended: dict[RunId, bytes] = field(default_factory=dict)
    runs: dict[RunId, list[RunId]] = field(default_factory=lambda: defaultdict(list))
    values: dict[StepPlace, bytes] = field(default_factory=dict)
    waits: dict[StepPlace, NewWait] = field(default_factory=dict)
    mail: list[dict[int, tuple[RunId, Mail]]] = field(default_factory=lambda: [{} for _ in range(SHARDS)])
    sequence: count[int] = field(default_factory=lambda: count(1))

    def post(self, flow_id: RunId, mail: Mail) -> None:
        """Write mail to a flow."""
        self.mail[run_shard(flow_id)][next(self.sequence)] = flow_id, mail

    def meet(self, event: Event) -> int:
        """End the waits that an event meets, and return how many."""
        met = [place for place, wait in self.waits.items() if _is_met(wait, event)]
        for place in met:
            del self.waits[place]
            self.tell(place, event)
        return len(met)

    def open(self, flow_id: RunId, wait: NewWait, events: Iterable[Event]) -> None:
        """Open a wait, or end it at once by one of the events that are kept."""
        place = StepPlace(flow_id, wait.step)
        kept = [event for event in events if _is_met(wait, event) and event.received_at >= wait.since]
        if kept:
            self.tell(place, min(kept, key=attrgetter("received_at")))
        else:
            self.waits[place] = wait

    def tell(self, place: StepPlace, event: Event) -> None:
        """Write mail about an event to a step that waits for it."""
        words = pack_event(event.topic, event.data)
        self.post(place.flow_id, StepAnswer(place.step, AnswerKind.EVENT, words))

    def revision(self, flow_id: RunId) -> int | None:
        """Return a flow's revision; None if it does not exist."""
        row = self.rows.get(flow_id)
        return None if row is None else row.revision
