"""Takes a workflow up again where it failed: what the run that repeats it takes over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import JobSpec, Run
from mainspring.core.redriving import FROM_FAILED, FROM_START, RedriveFrom
from mainspring.core.states import RunState
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.seeds import (
    FormerFlow,
    TakenOver,
    find_taken_over,
    items_known,
    items_of_runs,
    make_seed,
)
from mainspring.core.workflows.state import UnreadableFlow
from mainspring.core.workflows.step_jobs import is_workflow
from mainspring.engine.usecases.workflows import plan_of
from mainspring.engine.workflows.seeds import tell_missing
from mainspring.errors import Conflict, InvalidInput
from mainspring.ports.flow_codec import decode_flow_state, encode_flow_state
from mainspring.ports.store import Store

_PAGE = 1000


class FlowRedrives:
    """Makes the seeds of runs that repeat others."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make(self, run: Run, kept: JobSpec, spec: JobSpec, begin: RedriveFrom | None) -> bytes | None:
        """Return with what the flow of a run begins that repeats another one; None if it begins from nothing.

        Args:
            run: the one that is repeated.
            kept: its definition.
            spec: that of the run that repeats it.
            begin: None is `FROM_FAILED`.

        Raises:
            InvalidInput: there is no such step to begin with, or there are no steps.
            Conflict: what it would take over is not kept any more, or cannot be read here.
            CannotDecrypt: the steps cannot be read here.
        """
        if not is_workflow(spec):
            if begin is not None:
                raise InvalidInput("from", "is for workflows, whose steps it names; leave it out")
            return None
        plan = plan_of(spec)
        again = _check_names(plan, FROM_FAILED if begin is None else begin)
        if begin == FROM_START or not is_workflow(kept):
            return None
        former = await self._read_former(run, kept)
        if former is None:
            return None
        if run.payload is None and kept.payload != spec.payload:
            former = replace(former, has_same_input=False)
        over = find_taken_over(plan, former, again)
        await self._check_results(plan, former, over)
        seed = make_seed(plan, former, over, await self._read_items(former, over))
        return None if seed is None else encode_flow_state(seed)

    async def _read_former(self, run: Run, kept: JobSpec) -> FormerFlow | None:
        """Return the flow of a run; None if it has not begun."""
        (encoded,) = await self._store.read_flow_states([run.id])
        if encoded is None:
            return None
        try:
            return FormerFlow(run.id, plan_of(kept), decode_flow_state(encoded))
        except UnreadableFlow as error:
            raise Conflict("run", f"where its steps are cannot be read here: {error}") from error

    async def _check_results(self, plan: FlowPlan, former: FormerFlow, over: TakenOver) -> None:
        """Refuse to take over steps whose results expressions name, and are gone."""
        named = [step for step in over.whole if step in plan.users and step not in plan.maps]
        if not named:
            return
        earlier = {one.step: one for one in former.state.taken if one.is_whole}
        places = [
            StepPlace(former.flow_id, before)
            if (one := earlier.get(before)) is None
            else StepPlace(one.flow_id, one.place)
            for before in (over.whole[step] for step in named)
        ]
        runs = await self._store.read_step_ends(places)
        for step, place, run in zip(named, places, runs, strict=True):
            if run is None:
                raise _gone(tell_missing(plan.workflow.steps[step].name, place.flow_id))

    async def _read_items(self, former: FormerFlow, over: TakenOver) -> dict[int, Sequence[int]]:
        """Return of steps that are taken over in part the items that succeeded, but for those taken over before."""
        found: dict[int, Sequence[int]] = {}
        counts = dict(former.state.maps)
        for step, before in over.partly.items():
            known = items_known(former, before)
            if known is not None:
                found[step] = known
                continue
            own = counts.get(before)
            found[step] = [] if own is None else await self._list_items(former.flow_id, before, own.started)
            if len(found[step]) < items_of_runs(former, before):
                name = former.plan.workflow.steps[before].name
                message = (
                    f"which items of {name} succeeded in {format_run_id(former.flow_id)} is not kept any more"
                )
                raise _gone(message)
        return found

    async def _list_items(self, flow_id: RunId, step: int, started: int) -> list[int]:
        items: set[int] = set()
        after: RunId | None = None
        while True:
            page = await self._store.list_flow_runs(
                flow_id, steps=[step], state=RunState.SUCCEEDED, after=after, limit=_PAGE
            )
            items |= {run.place.item for run in page if run.place is not None}
            if len(page) < _PAGE:
                return sorted(item for item in items if item < started)
            after = page[-1].id


def _check_names(plan: FlowPlan, begin: RedriveFrom) -> Sequence[str]:
    """Return the names of steps that run again though they succeeded."""
    if isinstance(begin, str):
        return ()
    for place, name in enumerate(begin):
        if name not in plan.places:
            from difflib import get_close_matches  # only a refusal needs it

            near = get_close_matches(name[:70], plan.places, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidInput(f"from[{place}]", f"there is no step {name[:70]!r}{hint}")
        if plan.at_end[plan.places[name]]:
            message = f"{name!r} is no step to begin with: undos, and steps at the end, come by themselves"
            raise InvalidInput(f"from[{place}]", message)
    return begin


def _gone(message: str) -> Conflict:
    return Conflict("run", f"{message}; run all of it again, from 'start'")
