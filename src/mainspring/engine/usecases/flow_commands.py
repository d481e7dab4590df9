"""Commands to workflows that are under way: pause, resume, and skip steps. They go as mail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.core.actors import Actor
from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import Run
from mainspring.core.states import FINAL_STATES
from mainspring.core.workflows.commands import can_skip
from mainspring.core.workflows.mail import FlowNotice, Mail, SkipStep
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import FlowState, UnreadableFlow
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.workflows import plan_of
from mainspring.errors import Conflict, InvalidInput, NotFound
from mainspring.ports.clock import Clock
from mainspring.ports.flow_codec import decode_flow_state
from mainspring.ports.store import Store
from mainspring.ports.store.flows import PostedMail, PostVerdict


class FlowCommands:
    """Use cases on workflows that are under way. Every method acts for one tenant.

    Each raises `NotFound` if this tenant has no run with that id, and `Conflict` if it is none of a workflow, has not
    begun, has ended, or cannot be read here.
    """

    def __init__(self, store: Store, *, clock: Clock, wakeups: Wakeups) -> None:
        self._store, self._clock, self._wakeups = store, clock, wakeups

    async def pause(self, tenant: str, run_id: RunId, *, by: Actor | None = None) -> None:
        """Have a run start no more steps. What is live goes on."""
        run, _, _ = await self.find(tenant, run_id)
        await self.post(run, [FlowNotice.PAUSE], by, {"paused": True})

    async def resume(self, tenant: str, run_id: RunId, *, by: Actor | None = None) -> None:
        """Have a paused run start what it kept back. It is told even if it is not paused: it may be about to be."""
        run, _, _ = await self.find(tenant, run_id)
        await self.post(run, [FlowNotice.RESUME], by, {"paused": False})

    async def skip(
        self, tenant: str, run_id: RunId, names: Sequence[str], *, by: Actor | None = None
    ) -> None:
        """Have steps skipped that have no run yet. One that starts at the same moment runs all the same.

        Raises:
            InvalidInput: there is no such step, or none is named.
            Conflict: a step has a run, or has ended.
        """
        if not names:
            raise InvalidInput("steps", "is empty; name the steps to skip")
        run, plan, state = await self.find(tenant, run_id)
        places = {step.name: place for place, step in enumerate(plan.workflow.steps)}
        mails: list[Mail] = []
        for number, name in enumerate(names):
            if name not in places:
                raise InvalidInput(f"steps[{number}]", f"there is no step {name[:70]!r}")
            status = state.status(places[name])
            if not can_skip(status):
                word = status.name.lower()
                message = (
                    f"step {name!r} has the status {word!r}; only one that has no run yet can be skipped"
                )
                raise Conflict(f"steps[{number}]", message)
            mails.append(SkipStep(places[name]))
        await self.post(run, mails, by, {"skipped": list(names)})

    async def find(self, tenant: str, run_id: RunId) -> tuple[Run, FlowPlan, FlowState]:
        """Return a workflow's run that is under way, its plan, and how far it has come."""
        (run,) = await self._store.get_runs([run_id])
        if run is None or run.tenant != tenant:
            raise NotFound("run", format_run_id(run_id))
        if run.place is not None:
            flow = format_run_id(run.place.flow_id)
            raise Conflict("run", f"{format_run_id(run_id)} is of a step of {flow}; name that run")
        (spec,) = await self._store.read_versions([(run.job_id, run.version)])
        if spec is None:
            raise NotFound("version", str(run.version))
        plan = plan_of(spec)
        (kept,) = await self._store.read_flow_states([run_id])
        if run.state in FINAL_STATES:
            raise Conflict("run", f"{format_run_id(run_id)} has ended; it is {run.state.value}")
        if kept is None:
            raise Conflict("run", f"{format_run_id(run_id)} has not begun; cancel it, or pause its job")
        try:
            return run, plan, decode_flow_state(kept)
        except UnreadableFlow as error:
            raise Conflict("run", f"where its steps are cannot be read here: {error}") from error

    async def post(
        self, run: Run, mails: Sequence[Mail], by: Actor | None, after: Mapping[str, object]
    ) -> None:
        """Tell a run of something, and the audit who has said so and what.

        Args:
            after: for the audit.
        """
        audit = auditing.run_changed(by, run, self._clock.now(), after=after)
        posted = [PostedMail(run.id, mail) for mail in mails]
        verdicts = await self._store.post_mail(posted, audit=audit)
        if PostVerdict.MISSING in verdicts:
            raise Conflict("run", f"{format_run_id(run.id)} has ended")
        self._wakeups.flows_told()
