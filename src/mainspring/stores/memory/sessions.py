"""Worker sessions, scheduler nodes and shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from mainspring.core.ids import SessionId
from mainspring.core.reconciliation import reconcile
from mainspring.core.shards import Refusal
from mainspring.ports.store.nodes import Cluster, Epochs, NodeFacts, ShardLease
from mainspring.ports.store.sessions import Beat, BeatResult, NewSession, SessionFacts, SessionPulse
from mainspring.stores.memory.rows import NodeRow, SessionRow
from mainspring.stores.memory.tables import Tables


class SessionVerbs:
    """`SessionStore` in memory."""

    _tables: Tables

    async def add_sessions(self, sessions: Sequence[NewSession], *, now: datetime) -> list[SessionId]:
        ids = []
        for offer in sessions:
            session_id = SessionId(next(self._tables.session_sequence))
            row = SessionRow(id=session_id, offer=offer, started_at=now, last_beat_at=now)
            self._tables.sessions[session_id] = row
            ids.append(session_id)
        return ids

    async def beat_sessions(self, beats: Sequence[Beat], *, now: datetime) -> list[BeatResult]:
        return [self._beat(beat, now) for beat in beats]

    def _beat(self, beat: Beat, now: datetime) -> BeatResult:
        tables = self._tables
        session = tables.sessions.get(beat.session_id)
        if session is None or not session.is_live:
            return BeatResult(is_session_live=False)
        session.beats += 1
        session.last_beat_at = now
        running = [tables.runs[run_id] for (run_id,) in session.running]
        found = reconcile(
            beat.held,
            [(run.id, run.token, run.claim_number, run.is_cancel_requested) for run in running],
            answered=beat.answered,
            missing_before=session.missing,
        )
        session.missing = found.missing
        return BeatResult(
            is_session_live=True,
            lost=found.lost,
            cancel=found.cancel,
            unknown=tuple(tables.runs[run_id].held() for run_id, _ in found.unknown),
        )

    async def close_sessions(self, session_ids: Sequence[SessionId], *, now: datetime) -> None:
        for session_id in session_ids:
            session = self._tables.sessions.get(session_id)
            if session is not None and session.is_live:
                session.ended_at = now

    async def list_sessions(self) -> list[SessionFacts]:
        return [session.view() for session in self._tables.sessions.values() if session.is_live]

    async def read_pulses(self) -> dict[SessionId, SessionPulse]:
        return {
            session.id: SessionPulse(session.beats, session.offer.beat_period)
            for session in self._tables.sessions.values()
            if session.is_live
        }

    async def expire_sessions(self, judged: Sequence[tuple[SessionId, int]], *, now: datetime) -> list[bool]:
        return [self._expire(session_id, beats, now) for session_id, beats in judged]

    def _expire(self, session_id: SessionId, beats: int, now: datetime) -> bool:
        session = self._tables.sessions.get(session_id)
        if session is None or not session.is_live or session.beats != beats:
            return False
        session.ended_at = now
        return True


class NodeVerbs:
    """`NodeStore` in memory."""

    _tables: Tables

    async def beat_node(
        self,
        node: NodeFacts,
        *,
        period: timedelta | None = None,
        refusal: Refusal | None = None,
        now: datetime,
    ) -> None:
        row = self._tables.nodes.get(node.id)
        if row is None:
            self._tables.nodes[node.id] = NodeRow(node, period, refusal, now, now)
        else:
            row.facts = node
            row.period = period
            row.refusal = refusal
            row.last_beat_at = now
            row.beats += 1

    async def read_cluster(self) -> Cluster:
        nodes = self._tables.nodes
        return Cluster(self._tables.tzdata, tuple(nodes[node_id].view() for node_id in sorted(nodes)))

    async def record_tzdata(self, version: str, *, expected: str | None, now: datetime) -> bool:
        if self._tables.tzdata != expected:
            return False
        self._tables.tzdata = version
        return True

    async def expire_nodes(self, judged: Sequence[tuple[str, int]], *, now: datetime) -> list[bool]:
        return [self._remove_silent(node_id, beats) for node_id, beats in judged]

    def _remove_silent(self, node_id: str, beats: int) -> bool:
        row = self._tables.nodes.get(node_id)
        if row is None or row.beats != beats:
            return False
        del self._tables.nodes[node_id]
        return True

    async def read_shards(self) -> list[ShardLease]:
        beats: dict[str | None, int] = {node_id: row.beats for node_id, row in self._tables.nodes.items()}
        return [
            ShardLease(shard, row.epoch, row.node_id, beats.get(row.node_id))
            for shard, row in enumerate(self._tables.shards)
        ]

    async def take_shards(
        self, node_id: str, expected: Mapping[int, int], *, now: datetime
    ) -> dict[int, int]:
        taken = {}
        for shard in sorted(expected):
            row = self._tables.shards[shard]
            if row.epoch == expected[shard]:
                row.epoch += 1
                row.node_id = node_id
                taken[shard] = row.epoch
        return taken

    async def release_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        self._release(node_id, epochs)

    async def leave_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        self._release(node_id, epochs)
        self._tables.nodes.pop(node_id, None)

    def _release(self, node_id: str, epochs: Epochs) -> None:
        for shard in sorted(epochs):
            row = self._tables.shards[shard]
            if row.epoch == epochs[shard] and row.node_id == node_id:
                row.node_id = None
