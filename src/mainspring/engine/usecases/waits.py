"""Reads what a run waits for, and says why it has not started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mainspring.core.blackouts import state_of
from mainspring.core.fencing import ENGINE_SESSION
from mainspring.core.ids import format_run_id
from mainspring.core.lane_caps import LaneCap
from mainspring.core.model import Attempt, JobSpec, Run
from mainspring.core.serving import Offers
from mainspring.core.states import RunState
from mainspring.core.why import CapFacts, FlowProgress, Why, explain
from mainspring.core.workflows.places import NO_ITEM, StepPlace
from mainspring.core.workflows.state import UnreadableFlow
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.engine.usecases.reserves import read_reserve
from mainspring.engine.usecases.rivals import read_rivals
from mainspring.ports.clock import Clock
from mainspring.ports.flow_codec import decode_flow_state
from mainspring.ports.store import Store


class WaitReader:
    """Explains why runs wait, by what the store says now."""

    def __init__(self, store: Store, restrictions: RestrictionReader | None, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._restrictions = restrictions or RestrictionReader(store, CalendarReader(store))

    async def explain(self, run: Run, *, hides_keys: bool = False) -> Why:
        """Say why a run has not started, or what became of it. Of a step's run, say which step of which run it is.

        Args:
            hides_keys: keys of limits are not named.
        """
        why = await self._explain(run, hides_keys=hides_keys)
        if run.place is None:
            return why
        return replace(why, sentence=f"{why.sentence} {await self._tell_step(run, run.place)}")

    async def _tell_step(self, run: Run, place: StepPlace) -> str:
        """Say which step a run is of. The name of one whose workflow is encrypted is not known here."""
        (flow,) = await self._store.get_runs([place.flow_id])
        spec: JobSpec | None = None
        if flow is not None:
            (spec,) = await self._store.read_versions([(flow.job_id, flow.version)])
        known = [] if spec is None else spec.target.params.get("steps", [])
        name = repr(known[place.step]["name"]) if place.step < len(known) else str(place.step + 1)
        item = "" if place.item == NO_ITEM else f", for item {place.item}"
        return f"It is step {name} of {format_run_id(place.flow_id)}{item}."

    async def _read_progress(self, run: Run) -> FlowProgress | None:
        """Return how far the steps of a run have come; None if the engine does not hold it, or cannot read it."""
        if run.session_id != ENGINE_SESSION:
            return None
        (kept,) = await self._store.read_flow_states([run.id])
        if kept is None:
            return None
        try:
            state = decode_flow_state(kept)
        except UnreadableFlow:
            return None
        return FlowProgress(
            steps=len(state.steps), ended=state.count_ended(), live=state.live, is_paused=state.is_paused
        )

    async def _explain(self, run: Run, *, hides_keys: bool) -> Why:
        now = self._clock.now()
        wait = await self._store.read_wait(run.id, now=now)
        if wait is not None and hides_keys:
            wait = wait.without_keys()
        if wait is None:
            jobs = await self._store.get_jobs([run.job_id]) if run.state is RunState.FAILED else []
            note = next((job.pause_note for job in jobs if job is not None), None)
            flow = await self._read_progress(run) if run.state is RunState.RUNNING else None
            return explain(run, wait, gap=None, now=now, pause_note=note, flow=flow)
        offers = await self._store.list_sessions()
        restrictions = await self._restrictions.read()
        assert restrictions is not None, "nothing is known, so all is read"
        pause = restrictions.pauses.find(run.lane, now)
        window = restrictions.pauses.find_blackout(run.lane, now)
        return explain(
            run,
            wait,
            gap=Offers(offers).find_gap(run.lane.queue, run.lane.route, run.tenant),
            now=now,
            pause=pause,
            blackout=None if window is None else state_of(window, now),
            reserve=await read_reserve(self._store, run.tenant),
            caps=await self._caps_of(run.tenant, restrictions.caps.about(run.lane)),
            last=await self._last_attempt(run),
            rivals=await read_rivals(self._store, run, offers, restrictions, now),
        )

    async def _caps_of(self, tenant: str, caps: Sequence[LaneCap]) -> list[CapFacts]:
        """Return how much of caps is taken, with holders of a tenant."""
        uses = await self._store.read_cap_uses([cap.key for cap in caps])
        return [
            CapFacts(key=cap.key, max_running=cap.max_running, held=use.held, holders=use.seen_by(tenant))
            for cap, use in zip(caps, uses, strict=True)
            if cap.max_running is not None
        ]

    async def _last_attempt(self, run: Run) -> Attempt | None:
        """Return the last attempt of a waiting run; None if it has had none."""
        attempts = await self._store.list_attempts(run.id) if run.token else []
        return attempts[-1] if attempts else None
