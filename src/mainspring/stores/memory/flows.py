"""Flows: starts, mail and turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from mainspring.core.audit import AuditEntry
from mainspring.core.fencing import ENGINE_SESSION, is_held
from mainspring.core.ids import RunId, run_shard
from mainspring.core.model import Run
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.workflows.mail import FlowNotice, StepEnded
from mainspring.core.workflows.places import StepPlace
from mainspring.ports.store.flows import (
    FlowStart,
    FlowValue,
    FlowVerdict,
    KeptFlow,
    KeptMail,
    MailPlace,
    NewWait,
    PostedMail,
    PostVerdict,
    TurnedFlow,
    WokenFlow,
)
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.claims import end_attempt
from mainspring.stores.memory.events import EventTables
from mainspring.stores.memory.rows import FlowRow, RunRow
from mainspring.stores.memory.tables import Tables


class MemoryFlowStore:
    """`FlowStore` in memory."""

    _tables: Tables
    _events: EventTables

    async def start_flows(self, starts: Sequence[FlowStart], *, now: datetime) -> list[FlowVerdict]:
        return [self._start(start, now) for start in starts]

    def _start(self, start: FlowStart, now: datetime) -> FlowVerdict:
        tables = self._tables
        run = tables.runs.get(start.run_id)
        if (
            run is None
            or start.session_id == ENGINE_SESSION
            or not is_held(run, start.token, start.session_id)
        ):
            return FlowVerdict.STALE
        tables.unindex(run)
        run.session_id, run.deadline_at, run.is_quarantined, run.mark = ENGINE_SESSION, None, False, None
        for key_id in run.keys:
            if tables.limits.keys[key_id].holds.get(run.id) == run.token:
                tables.limits.keys[key_id].holds[run.id] = run.token + 1
        run.token += 1
        tables.index(run)
        tables.flows.rows[run.id] = FlowRow(state=start.state, live=start.live, wake_at=start.wake_at)
        if run.is_cancel_requested:
            tables.flows.post(run.id, FlowNotice.CANCEL)
        if start.goes_on:
            tables.flows.post(run.id, FlowNotice.GO_ON)
        for new in start.runs:
            tables.add_run(new, now=now)
        self._open(start.run_id, start.waits)
        self._keep_values(run.id, start.values)
        return FlowVerdict.STARTED

    def _keep_values(self, flow_id: RunId, values: Sequence[FlowValue]) -> None:
        for kept in values:
            self._tables.flows.values.setdefault(StepPlace(flow_id, kept.step), kept.value)

    def _open(self, flow_id: RunId, waits: Sequence[NewWait]) -> None:
        for wait in waits:
            self._tables.flows.open(flow_id, wait, [kept.event for kept in self._events.events])

    async def read_flow_seeds(self, run_ids: Sequence[RunId]) -> list[bytes | None]:
        runs = [self._tables.runs.get(run_id) for run_id in run_ids]
        return [None if run is None or run.state in FINAL_STATES else run.flow_seed for run in runs]

    async def post_mail(
        self, mails: Sequence[PostedMail], *, audit: Sequence[AuditEntry] = ()
    ) -> list[PostVerdict]:
        flows = self._tables.flows
        verdicts = [PostVerdict.POSTED if one.flow_id in flows.rows else PostVerdict.MISSING for one in mails]
        for one, verdict in zip(mails, verdicts, strict=True):
            if verdict is PostVerdict.POSTED:
                flows.post(one.flow_id, one.mail)
        write_audit(self._tables, audit, [verdict is PostVerdict.POSTED for verdict in verdicts])
        return verdicts

    async def read_mail(
        self, shards: Sequence[int], *, lows: Mapping[int, int], limit: int
    ) -> list[KeptMail]:
        flows = self._tables.flows
        found = [
            KeptMail(MailPlace(shard, number), flow_id, flows.revision(flow_id), mail)
            for shard in shards
            for number, (flow_id, mail) in flows.mail[shard].items()
            if number >= lows.get(shard, 0)
        ]
        return found[:limit]

    async def read_woken(self, shards: Sequence[int], *, until: datetime, limit: int) -> list[WokenFlow]:
        found = [
            WokenFlow(flow_id, row.revision, row.wake_at)
            for flow_id, row in self._tables.flows.rows.items()
            if row.wake_at is not None and row.wake_at <= until and run_shard(flow_id) in shards
        ]
        return sorted(found, key=attrgetter("wake_at", "flow_id"))[:limit]

    async def drop_mail(self, mails: Sequence[MailPlace]) -> None:
        flows = self._tables.flows
        for place in mails:
            flow_id, _ = flows.mail[place.shard].get(place.number, (None, None))
            if flow_id is not None and flow_id not in flows.rows:
                del flows.mail[place.shard][place.number]

    async def read_flows(self, flow_ids: Sequence[RunId]) -> list[KeptFlow | None]:
        rows = self._tables.flows.rows
        return [
            _view(self._tables.runs[flow_id], rows[flow_id]) if flow_id in rows else None
            for flow_id in flow_ids
        ]

    async def turn_flows(
        self, turns: Sequence[TurnedFlow], *, epochs: Epochs, now: datetime
    ) -> list[FlowVerdict]:
        return [self._turn(turn, epochs, now) for turn in turns]

    def _turn(self, turn: TurnedFlow, epochs: Epochs, now: datetime) -> FlowVerdict:
        tables, flows = self._tables, self._tables.flows
        shard = run_shard(turn.flow_id)
        if epochs.get(shard) != tables.shards[shard].epoch:
            return FlowVerdict.FENCED
        if flows.revision(turn.flow_id) != turn.revision or not self._has_all(turn):
            return FlowVerdict.LOST
        for place in turn.mails:
            del flows.mail[shard][place.number]
        for new in turn.runs:
            tables.add_run(new, now=now)
        self._open(turn.flow_id, turn.waits)
        if turn.goes_on:
            flows.post(turn.flow_id, FlowNotice.GO_ON)
        for run in self._live_of(turn.flow_id):
            if run.place is not None and run.place.step in turn.cancels:
                tables.cancel(run.id, reason=turn.cancel_reason, now=now)
        if turn.end is None:
            row = flows.rows[turn.flow_id]
            row.state, row.live, row.wake_at = turn.state, turn.live, turn.wake_at
            row.revision += 1
            self._keep_values(turn.flow_id, turn.values)
        else:
            del flows.rows[turn.flow_id]
            if turn.drops_values:
                kept_places = [place for place in flows.values if place.flow_id == turn.flow_id]
                for kept_place in kept_places:
                    del flows.values[kept_place]
            if turn.drops_waits:
                for wait_place in [place for place in flows.waits if place.flow_id == turn.flow_id]:
                    del flows.waits[wait_place]
            run = tables.runs[turn.flow_id]
            end_attempt(tables, run, turn.end, now)
            if run.state in FINAL_STATES:  # else it is tried again, from the beginning
                flows.ended[turn.flow_id] = turn.state
        return FlowVerdict.TURNED

    def _has_all(self, turn: TurnedFlow) -> bool:
        """Say whether the flow has the mail and the lease that the turn is about."""
        mail = self._tables.flows.mail[run_shard(turn.flow_id)]
        if any(mail.get(place.number, (None,))[0] != turn.flow_id for place in turn.mails):
            return False
        end = turn.end
        return end is None or is_held(self._tables.runs[turn.flow_id], end.token, end.session_id)

    def _live_of(self, flow_id: RunId) -> list[RunRow]:
        runs = (self._tables.runs[run_id] for run_id in self._tables.flows.runs.get(flow_id, ()))
        return [run for run in runs if run.state not in FINAL_STATES]

    async def reconcile_flows(self, shards: Sequence[int], *, now: datetime, limit: int) -> list[RunId]:
        flows = self._tables.flows
        found: list[RunId] = []
        for flow_id, row in sorted(flows.rows.items()):
            mail = flows.mail[run_shard(flow_id)].values()
            told = sum(to == flow_id and isinstance(one, StepEnded) for to, one in mail)
            live, made = len(self._live_of(flow_id)), len(flows.runs.get(flow_id, ()))
            if run_shard(flow_id) in shards and row.live > live + told and made > live:
                found.append(flow_id)
        found = found[:limit]
        for flow_id in found:
            # A workflow that was retried has the runs of its earlier attempts, too.
            runs = (self._tables.runs[run_id] for run_id in sorted(flows.runs.get(flow_id, ())))
            for run in {run.place: run for run in runs}.values():
                self._tables.tell_end(run)
        return found

    async def read_flow_states(self, flow_ids: Sequence[RunId]) -> list[bytes | None]:
        flows = self._tables.flows
        return [
            flows.rows[flow_id].state if flow_id in flows.rows else flows.ended.get(flow_id)
            for flow_id in flow_ids
        ]

    async def read_step_ends(self, places: Sequence[StepPlace]) -> list[Run | None]:
        return [self._newest_end(place) for place in places]

    def _newest_end(self, place: StepPlace) -> Run | None:
        tables = self._tables
        for run_id in sorted(tables.flows.runs.get(place.flow_id, ()), reverse=True):
            run = tables.runs.get(run_id)
            if run is not None and run.place == place and run.state in FINAL_STATES:
                return run.view()
        return None

    async def read_flow_values(self, places: Sequence[StepPlace]) -> list[bytes | None]:
        return [self._tables.flows.values.get(place) for place in places]

    async def list_flow_runs(
        self,
        flow_id: RunId,
        *,
        steps: Sequence[int] | None = None,
        state: RunState | None = None,
        after: RunId | None = None,
        limit: int = 100,
    ) -> list[Run]:
        runs = (self._tables.runs[run_id] for run_id in sorted(self._tables.flows.runs.get(flow_id, ())))
        page = [
            run
            for run in runs
            if run.place is not None
            and (steps is None or run.place.step in steps)
            and (state is None or run.state is state)
            and (after is None or run.id > after)
        ]
        return [run.view() for run in page[:limit]]


def _view(run: RunRow, row: FlowRow) -> KeptFlow:
    assert run.started_at is not None
    return KeptFlow(
        id=run.id,
        revision=row.revision,
        state=row.state,
        job_id=run.job_id,
        version=run.version,
        token=run.token,
        attempt=run.attempt,
        lane=run.lane.key,
        fire_at=run.fire_at,
        due_at=run.due_at,
        started_at=run.started_at,
        target_key=run.target_key,
        payload=run.payload,
        trace=run.trace,
        parent=None if run.place is None else run.place.flow_id,
    )
