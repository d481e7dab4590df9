"""Takes the turns of flows: for the shards that a node owns, what mail and timers make of each flow (ADR 0070)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import structlog

from mainspring.core.ids import JobId, RunId, format_run_id, run_shard
from mainspring.core.model import JobSpec
from mainspring.core.outcomes import Transition
from mainspring.core.values import value
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import UnreadableFlow
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.event_log import EventLog
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.wakeups import Wakeups, lanes_of
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.workflows.alarms import FlowAlarms
from mainspring.engine.workflows.job_lookup import JobLookup
from mainspring.engine.workflows.mailbox import MailScan
from mainspring.engine.workflows.starter import note_step_runs
from mainspring.engine.workflows.turns import facts_of, kept_ends, take_turn
from mainspring.engine.workflows.values import FlowValues, NeedsValues, value_of
from mainspring.ports.clock import Clock, RandomSource, Waiter
from mainspring.ports.expressions import Expressions
from mainspring.ports.store import Store
from mainspring.ports.store.flows import FlowVerdict, KeptFlow, KeptMail, TurnedFlow, WokenFlow
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PERIOD = 0.5
"""Seconds between two looks for mail of which no hint tells."""
_IDLE = 1.0
BATCH = 500
"""Mails that are read together."""
MOST_RUNS = 500
"""Runs of steps that are made in one transaction, unless one turn alone makes more."""
_MOST_STUCK = 10_000

_Decided = tuple[KeptFlow, JobSpec, TurnedFlow]


@value()
class _Asking:
    """A flow about which mail is to be decided; `values` is None where it has no expressions."""

    flow: KeptFlow
    spec: JobSpec
    plan: FlowPlan
    mails: Sequence[KeptMail]
    values: FlowValues | None


class FlowEnds(Protocol):
    """Counts how runs of workflows end."""

    def note_flow_ends(self, ends: Sequence[tuple[Transition, str, JobSpec, float]]) -> None:
        """Count ends, each with the run's tenant, its definition, and the seconds since its attempt began."""
        ...


class FlowTurner:
    """Reads the mail of this node's shards, and which flows wake, and writes the turn that each of them takes.

    Nobody else takes turns of these shards. If two nodes believe that they own one, the epoch fences the late one, and
    the flow's revision lets only one of two turns through that were made of the same state.

    Attributes:
        unreadable: the flows that this program may not decide about, each with the reason. They stay as they are.
    """

    name = "flows"

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        random: RandomSource,
        ownership: Ownership,
        wakeups: Wakeups,
        waiter: Waiter,
        definitions: Definitions,
        expiries: QueueExpiryFollower,
        event_log: EventLog,
        counts: RunCounts,
        ends: FlowEnds,
        expressions: Expressions | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._ownership = ownership
        self._wakeups = wakeups
        self._definitions = definitions
        self._expiries = expiries
        self._event_log = event_log
        self._counts = counts
        self._ends = ends
        self._expressions = expressions
        self.waiter = waiter
        self._scan = MailScan()
        self._alarms = FlowAlarms()
        self._cannot_wake: Mapping[RunId, str] = {}
        self._stuck = 0
        self._verdicts = dict.fromkeys((FlowVerdict.TURNED, FlowVerdict.LOST, FlowVerdict.FENCED), 0)
        self.unreadable: Mapping[RunId, str] = {}
        wakeups.subscribe_flows(waiter.signal)
        wakeups.subscribe_cancels(waiter.signal)  # of runs that the engine holds

    def measures(self) -> Iterator[Measure]:
        """Yield how many turns were taken, and how many flows cannot be read."""
        for verdict, count in self._verdicts.items():
            yield Measure("flow_turns_total", count, (verdict.value,))
        yield Measure("flows_unreadable", len(self.unreadable))

    async def tick(self, now: datetime) -> float:
        """Take the turns that mail and timers of some flows make. Return 0 if there may be more."""
        epochs = self._ownership.epochs
        self._scan.keep(epochs)
        if not epochs:
            self.unreadable, self._cannot_wake, self._stuck = {}, {}, 0
            return _IDLE
        limit = BATCH + self._stuck  # what stays must not keep the rest from being read
        mails = await self._store.read_mail(
            self._scan.order(epochs), lows=self._scan.lows(self._clock.monotonic()), limit=limit
        )
        self._scan.note(mails)
        late = [mail.place for mail in mails if mail.revision is None]
        if late:
            await self._store.drop_mail(late)
        most_woken = BATCH + len(self._cannot_wake)
        woken = await self._alarms.read_due(
            self._store, epochs.keys(), now=now, at=self._clock.monotonic(), limit=most_woken
        )
        decided = await self._decide([mail for mail in mails if mail.revision is not None], woken, now)
        is_again = False
        for chunk in _chunks(decided):
            is_again |= await self._write(chunk, epochs)
        if is_again or len(mails) == limit or len(woken or ()) == most_woken:
            return 0.0
        return self._alarms.seconds_left(now, most=PERIOD)

    async def _decide(
        self, mails: Sequence[KeptMail], woken: Sequence[WokenFlow] | None, now: datetime
    ) -> list[_Decided]:
        """Return the turns that mail and timers make. Flows that cannot be read keep their mail.

        Args:
            woken: flows whose timers are due; None if nobody looked.
        """
        by_flow: dict[RunId, list[KeptMail]] = {}
        seen: dict[RunId, set[int | None]] = defaultdict(set)
        for mail in mails:
            by_flow.setdefault(mail.flow_id, []).append(mail)
            seen[mail.flow_id].add(mail.revision)
        for one in woken or ():
            by_flow.setdefault(one.flow_id, [])
            seen[one.flow_id].add(one.revision)
        flows = await self._store.read_flows(list(by_flow)) if by_flow else []
        kept = [flow for flow in flows if flow is not None]
        specs = await self._definitions.load((flow.job_id, flow.version) for flow in kept)
        unreadable: dict[RunId, str] = {}
        if woken is None:  # those are still so
            unreadable |= self._cannot_wake
        waiting: list[_Asking] = []
        for flow in kept:
            own = by_flow[flow.id]
            if seen[flow.id] != {flow.revision}:
                continue  # it has had another turn since; its mail and its timers are read again
            try:
                waiting.append(self._prepare(flow, specs, own))
            except UnreadableFlow as error:
                unreadable[flow.id] = str(error)
        decided = await self._take_turns(waiting, unreadable, now)
        if woken is not None:
            ids = {one.flow_id for one in woken}
            self._cannot_wake = {flow_id: why for flow_id, why in unreadable.items() if flow_id in ids}
        self._note_unreadable(unreadable)
        self._stuck = min(sum(len(by_flow.get(flow_id, ())) for flow_id in unreadable), _MOST_STUCK)
        return decided

    async def _take_turns(
        self, waiting: list[_Asking], unreadable: dict[RunId, str], now: datetime
    ) -> list[_Decided]:
        """Return the turns of flows, reading what their expressions name. Note those that cannot be read."""
        decided: list[_Decided] = []
        lookup = JobLookup(self._store)
        await self._read_ends(waiting)
        while waiting:
            asking: list[tuple[_Asking, tuple[int, ...]]] = []
            for one in waiting:
                try:
                    decided.append((one.flow, one.spec, await self._turn(one, now, lookup)))
                except NeedsValues as needed:
                    asking.append((one, needed.steps))
                except UnreadableFlow as error:
                    unreadable[one.flow.id] = str(error)
            waiting = await self._read_values(asking)
        return decided

    def _prepare(
        self, flow: KeptFlow, specs: Mapping[tuple[JobId, int], JobSpec], mails: Sequence[KeptMail]
    ) -> _Asking:
        key = flow.job_id, flow.version
        spec = specs.get(key)
        if spec is None:
            raise UnreadableFlow("its definition is missing")
        plan = self._definitions.plans.find(key, spec)
        values = None
        if plan.asks:
            values = FlowValues(self._expressions, plan, spec, facts_of(flow), attempt=flow.attempt)
        return _Asking(flow, spec, plan, mails, values)

    async def _turn(self, one: _Asking, now: datetime, lookup: JobLookup) -> TurnedFlow:
        return await take_turn(
            one.flow,
            one.spec,
            one.plan,
            one.mails,
            values=one.values,
            now=now,
            random=self._random.random,
            lookup=lookup,
            expiries=self._expiries.by_queue,
        )

    async def _read_ends(self, flows: Sequence[_Asking]) -> None:
        """Read what steps have left that have ended now, where expressions name it."""
        ends = [(one, step) for one in flows if one.values for step in kept_ends(one.plan, one.mails)]
        if ends:
            places = [StepPlace(one.flow.id, step) for one, step in ends]
            runs = await self._store.read_step_ends(places)
            for (one, step), run in zip(ends, runs, strict=True):
                assert one.values is not None
                one.values.known.setdefault(step, value_of(run))

    async def _read_values(self, asking: Sequence[tuple[_Asking, tuple[int, ...]]]) -> list[_Asking]:
        """Read what is kept of steps that have ended before. Return the flows, which can be decided now."""
        places = [StepPlace(one.flow.id, step) for one, steps in asking for step in steps]
        found = iter(await self._store.read_flow_values(places) if places else [])
        for one, steps in asking:
            assert one.values is not None
            one.values.known |= {step: next(found) for step in steps}
        return [one for one, _ in asking]

    def _note_unreadable(self, unreadable: Mapping[RunId, str]) -> None:
        for flow_id in unreadable.keys() - self.unreadable.keys():
            meaning = "it waits for a server that can read it"
            _log.error(
                "flow_unreadable", run=format_run_id(flow_id), why=unreadable[flow_id], meaning=meaning
            )
        self.unreadable = unreadable

    async def _write(self, decided: Sequence[_Decided], epochs: Mapping[int, int]) -> bool:
        """Write turns, and tell whom they concern. Return whether flows have got mail by them."""
        now = self._clock.now()
        verdicts = await self._store.turn_flows([turned for _, _, turned in decided], epochs=epochs, now=now)
        for verdict in verdicts:
            self._verdicts[verdict] += 1
        fenced = {
            run_shard(flow.id)
            for (flow, _, _), verdict in zip(decided, verdicts, strict=True)
            if verdict is FlowVerdict.FENCED
        }
        if fenced:
            self._ownership.fence(fenced, used=epochs)
        taken = [one for one, verdict in zip(decided, verdicts, strict=True) if verdict is FlowVerdict.TURNED]
        self._alarms.note(turned.wake_at for _, _, turned in taken)
        self._tell(taken, now)
        has_told = any(turned.goes_on or turned.cancels or turned.waits for _, _, turned in taken)
        has_told |= any(turned.end is not None and flow.parent is not None for flow, _, turned in taken)
        return has_told or FlowVerdict.LOST in verdicts

    def _tell(self, taken: Sequence[_Decided], now: datetime) -> None:
        """Count what was written, and wake those who wait for it."""
        runs = [run for _, _, turned in taken for run in turned.runs]
        note_step_runs(self._counts, runs)
        ends = [(flow, spec, turned.end) for flow, spec, turned in taken if turned.end is not None]
        for flow, spec, end in ends:
            self._event_log.note_end(end, spec, flow.attempt, flow.trace)
        self._ends.note_flow_ends(
            [
                (end, flow.lane.tenant, spec, (now - flow.started_at).total_seconds())
                for flow, spec, end in ends
            ]
        )
        if runs:
            self._wakeups.runs_ready(lanes_of(runs))
        if any(spec.is_lined_up or end.ready_at is not None for _, spec, end in ends):
            self._wakeups.runs_ready(keys=None)
        if any(flow.parent is not None for flow, _, _ in ends):
            self._wakeups.flows_told()
        if any(turned.cancels for _, _, turned in taken):
            self._wakeups.cancel_requested()


def _chunks(decided: Sequence[_Decided]) -> Iterator[list[_Decided]]:
    """Yield turns for one transaction each."""
    chunk: list[_Decided] = []
    runs = 0
    for one in decided:
        more = len(one[2].runs)
        if chunk and runs + more > MOST_RUNS:
            yield chunk
            chunk, runs = [], 0
        chunk.append(one)
        runs += more
    if chunk:
        yield chunk
