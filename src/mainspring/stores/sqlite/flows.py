"""Flows on SQLite: starts, mail and turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.fencing import is_held
from mainspring.core.ids import RunId, run_shard
from mainspring.core.model import Run
from mainspring.core.outcomes import Transition
from mainspring.core.states import RunState
from mainspring.core.workflows.mail import FlowNotice, columns_of_mail, make_mail, words_of_mail
from mainspring.core.workflows.places import StepPlace
from mainspring.ports.store.flows import (
    FlowStart,
    FlowValue,
    FlowVerdict,
    KeptFlow,
    KeptMail,
    MailPlace,
    PostedMail,
    PostVerdict,
    TurnedFlow,
    WokenFlow,
)
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.completion import apply_others
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.event_waits import open_waits
from mainspring.stores.sqlite.inserts import InternedLanes, insert_steps
from mainspring.stores.sqlite.rows import (
    NamedRow,
    make_job_id,
    make_lane_key,
    make_live,
    make_run,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
    to_optional_micros,
)
from mainspring.stores.sqlite.runs import cancel_run
from mainspring.stores.sqlite.schedule import find_fenced
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_rows, fetch_value, fetch_values


class SqliteFlowStore:
    """Implements `FlowStore`."""

    _browser: Database
    _reader: Database
    _writer: Database
    _lane_ids: InternedLanes

    async def start_flows(self, starts: Sequence[FlowStart], *, now: datetime) -> list[FlowVerdict]:
        """See `FlowStore`."""
        if not starts:
            return []
        at = to_micros(now)
        return await self._writer.call(lambda db: [_start(db, self._lane_ids, start, at) for start in starts])

    async def read_flow_seeds(self, run_ids: Sequence[RunId]) -> list[bytes | None]:
        """See `FlowStore`."""
        if not run_ids:
            return []
        return await self._reader.call(
            lambda db: [fetch_value(db, "read_flow_seed", {"run_id": run_id}) for run_id in run_ids]
        )

    async def post_mail(
        self, mails: Sequence[PostedMail], *, audit: Sequence[AuditEntry] = ()
    ) -> list[PostVerdict]:
        """See `FlowStore`."""
        if not mails:
            return []

        def work(db: apsw.Connection) -> list[PostVerdict]:
            are_posted = [_post(db, one) for one in mails]
            write_audit(db, audit, are_posted)
            return [PostVerdict.POSTED if is_posted else PostVerdict.MISSING for is_posted in are_posted]

        return await self._writer.call(work)

    async def read_mail(
        self, shards: Sequence[int], *, lows: Mapping[int, int], limit: int
    ) -> list[KeptMail]:
        """See `FlowStore`."""

        def read(db: apsw.Connection) -> list[KeptMail]:
            found: list[KeptMail] = []
            for shard in shards:
                values = {"shard": shard, "low": lows.get(shard, 0), "limit": limit - len(found)}
                found += map(_make_mail, fetch_rows(db, "read_mail", values))
                if len(found) == limit:
                    break
            return found

        return await self._reader.call(read) if shards else []

    async def read_woken(self, shards: Sequence[int], *, until: datetime, limit: int) -> list[WokenFlow]:
        """See `FlowStore`."""
        if not shards:
            return []
        values = {"shards": to_json(list(shards)), "until": to_micros(until), "limit": limit}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_woken", values))
        return [WokenFlow(RunId(row.id), row.revision, to_instant(row.wake_at)) for row in rows]

    async def drop_mail(self, mails: Sequence[MailPlace]) -> None:
        """See `FlowStore`."""
        if mails:
            await self._writer.call(lambda db: execute_many(db, "drop_mail", _values_of(mails)))

    async def read_flows(self, flow_ids: Sequence[RunId]) -> list[KeptFlow | None]:
        """See `FlowStore`."""
        if not flow_ids:
            return []
        values = {"flow_ids": to_json(list(flow_ids))}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_flows", values))
        found = {flow.id: flow for flow in map(_make_flow, rows)}
        return [found.get(flow_id) for flow_id in flow_ids]

    async def turn_flows(
        self, turns: Sequence[TurnedFlow], *, epochs: Epochs, now: datetime
    ) -> list[FlowVerdict]:
        """See `FlowStore`."""
        if not turns:
            return []

        def work(db: apsw.Connection) -> list[FlowVerdict]:
            fenced = find_fenced(db, (run_shard(turn.flow_id) for turn in turns), epochs)
            return [
                FlowVerdict.FENCED
                if run_shard(turn.flow_id) in fenced
                else _turn(db, self._lane_ids, turn, now)
                for turn in turns
            ]

        return await self._writer.call(work)

    async def reconcile_flows(self, shards: Sequence[int], *, now: datetime, limit: int) -> list[RunId]:
        """See `FlowStore`."""
        del now
        if not shards:
            return []
        values = {"shards": to_json(list(shards)), "limit": limit}

        def work(db: apsw.Connection) -> list[RunId]:
            found = [RunId(flow_id) for flow_id in fetch_values(db, "find_untold", values)]
            if found:
                execute(db, "tell_again", {"flow_ids": to_json(found)})
            return found

        return await self._writer.call(work)

    async def read_flow_states(self, flow_ids: Sequence[RunId]) -> list[bytes | None]:
        """See `FlowStore`."""
        if not flow_ids:
            return []
        values = {"flow_ids": to_json(list(flow_ids))}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_flow_states", values))
        found: dict[RunId, bytes | None] = {row.id: row.flow_state for row in rows}
        return [found[flow_id] for flow_id in flow_ids]

    async def read_step_ends(self, places: Sequence[StepPlace]) -> list[Run | None]:
        """See `FlowStore`."""
        if not places:
            return []

        def read(db: apsw.Connection) -> list[NamedRow]:
            found = [fetch_value(db, "find_step_end", _place_values(place)) for place in places]
            ids = to_json([run_id for run_id in found if run_id is not None])
            return fetch_rows(db, "get_runs", {"run_ids": ids})

        runs = {run.place: run for run in map(make_run, await self._reader.call(read))}
        return [runs.get(place) for place in places]

    async def read_flow_values(self, places: Sequence[StepPlace]) -> list[bytes | None]:
        """See `FlowStore`."""
        if not places:
            return []
        values = [_place_values(place) for place in places]
        return await self._reader.call(
            lambda db: [fetch_value(db, "read_flow_value", each) for each in values]
        )

    async def list_flow_runs(
        self,
        flow_id: RunId,
        *,
        steps: Sequence[int] | None = None,
        state: RunState | None = None,
        after: RunId | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """See `FlowStore`."""
        values = {"flow_id": flow_id, "after": 0 if after is None else after, "limit": limit}
        of_steps = {**values, "steps": to_json(list(steps or ())), "state": state}

        def read(db: apsw.Connection) -> list[NamedRow]:
            if steps is None:
                found = fetch_values(db, "find_flow_runs", values)
            else:
                found = fetch_values(db, "find_runs_of_steps", of_steps)
            return fetch_rows(db, "get_runs", {"run_ids": to_json(found)})

        return sorted(map(make_run, await self._browser.call(read)), key=attrgetter("id"))


def _start(db: apsw.Connection, lane_ids: InternedLanes, start: FlowStart, now: int) -> FlowVerdict:
    values = {"run_id": start.run_id, "session_id": start.session_id, "token": start.token}
    is_cancel_requested = fetch_value(db, "start_flow", values)
    if is_cancel_requested is None:
        return FlowVerdict.STALE
    execute(db, "keep_places", {"run_id": start.run_id})
    wake_at = to_optional_micros(start.wake_at)
    execute(
        db,
        "add_flow",
        {"flow_id": start.run_id, "live": start.live, "wake_at": wake_at, "state": start.state},
    )
    if is_cancel_requested:
        execute(db, "add_notice", {"flow_id": start.run_id, "what": FlowNotice.CANCEL.value})
    if start.goes_on:
        execute(db, "add_notice", {"flow_id": start.run_id, "what": FlowNotice.GO_ON.value})
    _keep_values(db, start.run_id, start.values)
    insert_steps(db, lane_ids, start.runs, now)
    open_waits(db, start.run_id, start.waits)
    return FlowVerdict.STARTED


def _keep_values(db: apsw.Connection, flow_id: RunId, values: Sequence[FlowValue]) -> None:
    if values:
        kept = [{**_place_values(StepPlace(flow_id, one.step)), "value": one.value} for one in values]
        execute_many(db, "add_flow_value", kept)


def _post(db: apsw.Connection, posted: PostedMail) -> bool:
    step, what = columns_of_mail(posted.mail)
    values = {"flow_id": posted.flow_id, "step": step, "what": what, "value": words_of_mail(posted.mail)}
    return fetch_value(db, "post_mail", values) is not None


def _turn(db: apsw.Connection, lane_ids: InternedLanes, turn: TurnedFlow, now: datetime) -> FlowVerdict:
    key = {"flow_id": turn.flow_id}
    if fetch_value(db, "lock_flow", {**key, "revision": turn.revision}) is None:
        return FlowVerdict.LOST
    numbers = to_json([place.number for place in turn.mails])
    if fetch_value(db, "count_mail", {**key, "mail_ids": numbers}) != len(turn.mails):
        return FlowVerdict.LOST
    if turn.end is not None and not _is_engines(db, turn.end):
        return FlowVerdict.LOST
    execute_many(db, "remove_mail", _values_of(turn.mails))
    _keep_values(db, turn.flow_id, turn.values)
    insert_steps(db, lane_ids, turn.runs, to_micros(now))
    open_waits(db, turn.flow_id, turn.waits)
    if turn.goes_on:
        execute(db, "add_notice", {**key, "what": FlowNotice.GO_ON.value})
    for step in turn.cancels:
        for run_id in fetch_values(db, "find_step_runs", {**key, "step": step}):
            cancel_run(db, run_id, turn.cancel_reason, to_micros(now))
    if turn.end is None:
        wake_at = to_optional_micros(turn.wake_at)
        execute(db, "save_flow", {**key, "live": turn.live, "wake_at": wake_at, "state": turn.state})
    else:
        execute(db, "delete_flow", key)
        if turn.drops_values:
            execute(db, "delete_flow_values", key)
        if turn.drops_waits:
            execute(db, "drop_waits", key)
        apply_others(db, [turn.end], set(), now, flow_states={turn.flow_id: turn.state})
    return FlowVerdict.TURNED


def _is_engines(db: apsw.Connection, end: Transition) -> bool:
    """Say whether the engine holds the run under the lease that ends."""
    rows = fetch_rows(db, "lock_runs", {"run_ids": to_json([end.run_id])})
    return bool(rows) and is_held(make_live(rows[0]), end.token, end.session_id)


def _place_values(place: StepPlace) -> dict[str, int]:
    return {"flow_id": place.flow_id, "step": place.step, "item": place.item}


def _values_of(mails: Sequence[MailPlace]) -> list[dict[str, int]]:
    return [{"shard": place.shard, "mail_id": place.number} for place in mails]


def _make_mail(row: NamedRow) -> KeptMail:
    mail = make_mail(row.step, row.item, row.what, row.value)
    return KeptMail(MailPlace(row.shard, row.id), RunId(row.flow_id), row.revision, mail)


def _make_flow(row: NamedRow) -> KeptFlow:
    return KeptFlow(
        id=RunId(row.id),
        revision=row.revision,
        state=row.flow_state,
        job_id=make_job_id(row.job_id),
        version=row.version,
        token=row.token,
        attempt=row.attempt,
        lane=make_lane_key(row),
        fire_at=to_optional_instant(row.fire_at),
        due_at=to_instant(row.due_at),
        started_at=to_instant(row.started_at),
        target_key=row.target_key,
        payload=row.payload,
        trace=row.trace,
        parent=None if row.parent_id is None else RunId(row.parent_id),
    )
