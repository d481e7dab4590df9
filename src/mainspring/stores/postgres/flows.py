"""Flows: starts, mail and turns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

from asyncpg import Record

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import RunId, run_shard
from mainspring.core.model import LaneKey, Priority, Run
from mainspring.core.states import RunState
from mainspring.core.workflows.mail import FlowNotice, Mail, columns_of_mail, make_mail, words_of_mail
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
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.completion import apply_any
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.event_waits import lock_waits, open_waits
from mainspring.stores.postgres.inserts import LaneIds, insert_steps
from mainspring.stores.postgres.overlap import cancel_runs
from mainspring.stores.postgres.rows import run_of
from mainspring.stores.postgres.schedule import hold_these_shards


class PostgresFlowStore:
    """`FlowStore` on PostgreSQL."""

    _connections: Connections
    _lane_ids: LaneIds

    async def start_flows(self, starts: Sequence[FlowStart], *, now: datetime) -> list[FlowVerdict]:
        if not starts:
            return []

        async def work(transaction: Transaction) -> list[FlowVerdict]:
            begun: set[int] = set()  # by position
            await lock_waits(transaction, [wait for start in starts for wait in start.waits])
            for wave in _in_waves(starts):
                handed = await _hand_over(transaction, [starts[place] for place in wave])
                begun |= {place for place in wave if starts[place].run_id in handed}
            own = [starts[place] for place in sorted(begun)]
            await _keep_values(transaction, [(one.run_id, one.values) for one in own])
            runs = [run for one in own for run in one.runs]
            await insert_steps(transaction, self._lane_ids, runs, now=now)
            opened = [(starts[place].run_id, wait) for place in sorted(begun) for wait in starts[place].waits]
            await open_waits(transaction, opened)
            return [
                FlowVerdict.STARTED if place in begun else FlowVerdict.STALE for place in range(len(starts))
            ]

        return await self._connections.transact(Role.FLOW, work)

    async def read_flow_seeds(self, run_ids: Sequence[RunId]) -> list[bytes | None]:
        if not run_ids:
            return []
        rows = await self._connections.fetch(
            Role.FLOW, "read_flow_seeds", is_repeatable=True, run_ids=sorted(set(run_ids))
        )
        found: dict[RunId, bytes] = {row["id"]: row["flow_seed"] for row in rows}
        return [found.get(run_id) for run_id in run_ids]

    async def post_mail(
        self, mails: Sequence[PostedMail], *, audit: Sequence[AuditEntry] = ()
    ) -> list[PostVerdict]:
        if not mails:
            return []
        columns = [columns_of_mail(one.mail) for one in mails]

        async def work(transaction: Transaction) -> list[PostVerdict]:
            rows = await transaction.fetch(
                "post_mail",
                flow_ids=[one.flow_id for one in mails],
                steps=[step for step, _ in columns],
                whats=[what for _, what in columns],
                values=[words_of_mail(one.mail) for one in mails],
            )
            found = {RunId(row["flow_id"]) for row in rows}
            await write_audit(transaction, audit, [one.flow_id in found for one in mails])
            return [PostVerdict.POSTED if one.flow_id in found else PostVerdict.MISSING for one in mails]

        return await self._connections.transact(Role.FLOW, work)

    async def read_mail(
        self, shards: Sequence[int], *, lows: Mapping[int, int], limit: int
    ) -> list[KeptMail]:
        if not shards:
            return []
        rows = await self._connections.fetch(
            Role.FLOW,
            "read_mail",
            is_repeatable=True,
            shards=shards,
            lows=[lows.get(shard, 0) for shard in shards],
            limit=limit,
        )
        return [
            KeptMail(
                MailPlace(row["shard"], row["id"]), RunId(row["flow_id"]), row["revision"], _mail_of(row)
            )
            for row in rows
        ]

    async def read_woken(self, shards: Sequence[int], *, until: datetime, limit: int) -> list[WokenFlow]:
        if not shards:
            return []
        rows = await self._connections.fetch(
            Role.FLOW, "read_woken", is_repeatable=True, shards=shards, until=until, limit=limit
        )
        return [WokenFlow(RunId(row["id"]), row["revision"], row["wake_at"]) for row in rows]

    async def drop_mail(self, mails: Sequence[MailPlace]) -> None:
        if not mails:
            return

        async def work(transaction: Transaction) -> None:
            await transaction.execute("drop_mail", **_columns_of_mail(mails))

        await self._connections.run(Role.FLOW, work, is_repeatable=True, is_atomic=True)

    async def read_flows(self, flow_ids: Sequence[RunId]) -> list[KeptFlow | None]:
        if not flow_ids:
            return []
        rows = await self._connections.fetch(
            Role.FLOW, "read_flows", is_repeatable=True, flow_ids=sorted(set(flow_ids))
        )
        found = {row["id"]: _flow_of(row) for row in rows}
        return [found.get(flow_id) for flow_id in flow_ids]

    async def turn_flows(
        self, turns: Sequence[TurnedFlow], *, epochs: Epochs, now: datetime
    ) -> list[FlowVerdict]:
        torn: set[RunId] = set()

        async def work(transaction: Transaction) -> list[FlowVerdict]:
            shards = {run_shard(turn.flow_id) for turn in turns}
            await lock_waits(transaction, [wait for turn in turns for wait in turn.waits])
            owned = await hold_these_shards(transaction, shards, epochs)
            whole = [one for one in turns if run_shard(one.flow_id) in owned and one.flow_id not in torn]
            turned = await _turn(transaction, self._lane_ids, sorted(whole, key=_flow_id), now)
            return [
                FlowVerdict.FENCED
                if run_shard(one.flow_id) not in owned
                else FlowVerdict.TURNED
                if one.flow_id in turned
                else FlowVerdict.LOST
                for one in turns
            ]

        while turns:
            try:
                return await self._connections.transact(Role.FLOW, work)
            except _TornError as error:  # nothing was written; the others have their turn without these
                torn |= error.flow_ids
        return []

    async def reconcile_flows(self, shards: Sequence[int], *, now: datetime, limit: int) -> list[RunId]:
        del now
        if not shards:
            return []

        async def work(transaction: Transaction) -> list[RunId]:
            rows = await transaction.fetch("find_untold", shards=shards, limit=limit)
            found = [RunId(row["id"]) for row in rows]
            if found:
                await transaction.execute("tell_again", flow_ids=found)
            return found

        return await self._connections.transact(Role.FLOW, work, is_repeatable=True)

    async def read_flow_states(self, flow_ids: Sequence[RunId]) -> list[bytes | None]:
        if not flow_ids:
            return []
        rows = await self._connections.fetch(
            Role.READ, "read_flow_states", is_repeatable=True, flow_ids=sorted(set(flow_ids))
        )
        found: dict[RunId, bytes] = {row["id"]: row["flow_state"] for row in rows}
        return [found.get(flow_id) for flow_id in flow_ids]

    async def read_step_ends(self, places: Sequence[StepPlace]) -> list[Run | None]:
        if not places:
            return []
        rows = await self._connections.fetch(
            Role.FLOW, "read_step_ends", is_repeatable=True, **_columns_of_places(places)
        )
        found = {run.place: run for run in map(run_of, rows)}
        return [found.get(place) for place in places]

    async def read_flow_values(self, places: Sequence[StepPlace]) -> list[bytes | None]:
        if not places:
            return []
        rows = await self._connections.fetch(
            Role.FLOW, "read_flow_values", is_repeatable=True, **_columns_of_places(places)
        )
        found: dict[StepPlace, bytes] = {
            StepPlace(RunId(row["flow_id"]), row["step"], row["item"]): row["value"] for row in rows
        }
        return [found.get(place) for place in places]

    async def list_flow_runs(
        self,
        flow_id: RunId,
        *,
        steps: Sequence[int] | None = None,
        state: RunState | None = None,
        after: RunId | None = None,
        limit: int = 100,
    ) -> list[Run]:
        values: dict[str, object] = {
            "flow_id": flow_id,
            "after": 0 if after is None else after,
            "limit": limit,
        }
        if steps is None:
            rows = await self._connections.fetch(Role.BROWSE, "list_flow_runs", is_repeatable=True, **values)
        else:
            values |= {"steps": list(steps), "state": state}
            rows = await self._connections.fetch(
                Role.BROWSE, "list_runs_of_steps", is_repeatable=True, **values
            )
        return [run_of(row) for row in rows]


class _TornError(Exception):
    """Flows have the turn's revision, and yet mail or a lease that it is about is gone: it may not be written."""

    def __init__(self, flow_ids: AbstractSet[RunId]) -> None:
        super().__init__(flow_ids)
        self.flow_ids = flow_ids


def _flow_id(turn: TurnedFlow) -> RunId:
    return turn.flow_id


def _in_waves(starts: Sequence[FlowStart]) -> list[list[int]]:
    """Sort starts, by position, by their runs. Those that name a run again come in a wave of their own."""
    waves: list[list[int]] = []
    seen: Counter[RunId] = Counter()
    for place in sorted(range(len(starts)), key=lambda place: starts[place].run_id):
        wave = seen[starts[place].run_id]
        seen[starts[place].run_id] += 1
        if wave == len(waves):
            waves.append([])
        waves[wave].append(place)
    return waves


async def _hand_over(transaction: Transaction, starts: Sequence[FlowStart]) -> set[RunId]:
    """Hand leases (in order of run, each once) over to the engine, and return which runs it has now."""
    rows = await transaction.fetch(
        "start_flows",
        run_ids=[start.run_id for start in starts],
        session_ids=[start.session_id for start in starts],
        tokens=[start.token for start in starts],
        going_on=[start.goes_on for start in starts],
        lives=[start.live for start in starts],
        states=[start.state for start in starts],
        wakes_at=[start.wake_at for start in starts],
    )
    return {RunId(row["id"]) for row in rows}


async def _turn(
    transaction: Transaction, lane_ids: LaneIds, turns: Sequence[TurnedFlow], now: datetime
) -> set[RunId]:
    """Write those turns (in order of flow) whose flows have not moved. Return their flows.

    Raises:
        _TornError: mail or a lease is gone, though the revision is the present one.
    """
    if not turns:
        return set()
    rows = await transaction.fetch(
        "lock_flows", flow_ids=[one.flow_id for one in turns], revisions=[one.revision for one in turns]
    )
    locked = {RunId(row["id"]) for row in rows}
    turns = [one for one in turns if one.flow_id in locked]
    await _remove_mail(transaction, turns)
    if over := [one.flow_id for one in turns if one.drops_waits and one.end is not None]:
        await transaction.execute("drop_waits", flow_ids=over)  # before runs and clocks, as events do it
    await open_waits(transaction, [(one.flow_id, wait) for one in turns for wait in one.waits])
    if going := [one for one in turns if one.end is None]:
        await transaction.execute(
            "save_flows",
            flow_ids=[one.flow_id for one in going],
            lives=[one.live for one in going],
            states=[one.state for one in going],
            wakes_at=[one.wake_at for one in going],
        )
    await _keep_values(transaction, [(one.flow_id, one.values) for one in turns])
    await insert_steps(transaction, lane_ids, [run for one in turns for run in one.runs], now=now)
    if more := [one.flow_id for one in turns if one.goes_on]:
        await transaction.execute("add_notices", flow_ids=more, what=FlowNotice.GO_ON.value)
    await _end(transaction, turns, now)
    return locked


async def _keep_values(transaction: Transaction, left: Sequence[tuple[RunId, Sequence[FlowValue]]]) -> None:
    kept = [(StepPlace(flow_id, new.step), new.value) for flow_id, values in left for new in values]
    if kept:
        columns = _columns_of_places([place for place, _ in kept])
        await transaction.execute("add_flow_values", **columns, values=[text for _, text in kept])


async def _remove_mail(transaction: Transaction, turns: Sequence[TurnedFlow]) -> None:
    read = [place for one in turns for place in one.mails]
    if not read:
        return
    rows = await transaction.fetch("remove_mail", **_columns_of_mail(read))
    removed = Counter(row["flow_id"] for row in rows)
    if torn := {one.flow_id for one in turns if removed[one.flow_id] != len(one.mails)}:
        raise _TornError(torn)


async def _end(transaction: Transaction, turns: Sequence[TurnedFlow], now: datetime) -> None:
    """Cancel runs of steps, and end flows with their runs.

    Raises:
        _TornError: a run that ends is not held under the lease of its end.
    """
    cancels: dict[str, list[tuple[RunId, int]]] = defaultdict(list)
    for one in turns:
        cancels[one.cancel_reason] += [(one.flow_id, step) for step in one.cancels]
    ending = [one for one in turns if one.end is not None]
    ends = [one.end for one in turns if one.end is not None]
    doomed = {reason: await _find_steps(transaction, places) for reason, places in cancels.items() if places}
    together = sorted({*(run_id for found in doomed.values() for run_id in found), *map(_flow_id, ending)})
    if doomed and together:  # whoever else cancels or ends several runs locks them in this order, too
        await transaction.fetch("lock_runs", run_ids=together)
    for reason, found in doomed.items():
        await cancel_runs(transaction, found, reason=reason, now=now)
    if ending:
        await transaction.execute("delete_flows", flow_ids=[one.flow_id for one in ending])
        if dropping := [one.flow_id for one in ending if one.drops_values]:
            await transaction.execute("delete_flow_values", flow_ids=dropping)
        states = {one.flow_id: one.state for one in ending}
        ended, _ = await apply_any(transaction, ends, now, flow_states=states)
        if len(ended) < len(ending):
            raise _TornError(states.keys() - ended.keys())


async def _find_steps(transaction: Transaction, places: Sequence[tuple[RunId, int]]) -> list[RunId]:
    rows = await transaction.fetch(
        "find_step_runs", flow_ids=[flow_id for flow_id, _ in places], steps=[step for _, step in places]
    )
    return [RunId(row["id"]) for row in rows]


def _columns_of_places(places: Sequence[StepPlace]) -> dict[str, list[int]]:
    return {
        "flow_ids": [place.flow_id for place in places],
        "steps": [place.step for place in places],
        "items": [place.item for place in places],
    }


def _columns_of_mail(mails: Sequence[MailPlace]) -> dict[str, list[int]]:
    return {"shards": [place.shard for place in mails], "mail_ids": [place.number for place in mails]}


def _mail_of(row: Record) -> Mail:
    return make_mail(row["step"], row["item"], row["what"], row["value"])


def _flow_of(row: Record) -> KeptFlow:
    return KeptFlow(
        id=RunId(row["id"]),
        revision=row["revision"],
        state=row["flow_state"],
        job_id=row["job_id"],
        version=row["version"],
        token=row["token"],
        attempt=row["attempt"],
        lane=LaneKey(row["queue"], row["route"], row["tenant"], Priority(row["priority"])),
        fire_at=row["fire_at"],
        due_at=row["due_at"],
        started_at=row["started_at"],
        target_key=row["target_key"],
        payload=row["payload"],
        trace=row["trace"],
        parent=None if row["parent_id"] is None else RunId(row["parent_id"]),
    )
