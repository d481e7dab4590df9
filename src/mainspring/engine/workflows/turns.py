"""From mail and a kept flow to the turn to write. Nothing here waits for anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.core.ciphertexts import is_encrypted_bytes
from mainspring.core.expiry import QueueExpiries
from mainspring.core.fencing import ENGINE_SESSION
from mainspring.core.model import Job, JobSpec
from mainspring.core.outcomes import AttemptFacts, Failure, Transition, cancelled, failed, succeeded
from mainspring.core.retry import Random
from mainspring.core.states import RunState
from mainspring.core.workflows.answers import StepAnswer, payload_of, result_of
from mainspring.core.workflows.flow_ends import FlowEnd
from mainspring.core.workflows.mail import StepEnded
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import FlowPhase, FlowState, UnreadableFlow
from mainspring.core.workflows.timers import earliest
from mainspring.core.workflows.turn import FlowTurn, turn
from mainspring.core.workflows.waiting import pick_answers
from mainspring.engine.workflows.job_lookup import JobLookup
from mainspring.engine.workflows.step_runs import FlowFacts, make_step_runs
from mainspring.engine.workflows.values import FlowValues, values_to_keep
from mainspring.ports.flow_codec import decode_flow_state, encode_flow_state
from mainspring.ports.store.flows import FlowValue, KeptFlow, KeptMail, NewWait, TurnedFlow
from mainspring.ports.store.runs import NewRun

CANCEL_REASON = "workflow_cancelled"
"""Why the runs of the steps of a cancelled workflow are CANCELLED."""
DEADLINE_REASON = "deadline"
"""Why a workflow is FAILED whose deadline has passed, and why the runs of its steps are CANCELLED."""
_MOST_NAMED = 10
"""Steps that are named as the reason why a workflow has failed."""


async def take_turn(
    flow: KeptFlow,
    spec: JobSpec,
    plan: FlowPlan,
    mails: Sequence[KeptMail],
    *,
    values: FlowValues | None,
    now: datetime,
    random: Random,
    lookup: JobLookup,
    expiries: QueueExpiries,
) -> TurnedFlow:
    """Return the turn that mail, and the timers that are due, make.

    Mail that changes nothing makes one, too: with it, the mail goes.

    Args:
        values: of the flow's expressions; None if it has none.
        lookup: finds the jobs that steps run. A workflow without such steps asks for nothing.
        expiries: the expiries of queues.

    Raises:
        NeedsValues: expressions name what has not been read yet.
        UnreadableFlow: the flow's state is not one that this program may decide about, or steps would start with a
            payload that cannot be decrypted here. No store takes such a run, nor the other turns of its transaction.
    """
    state = decode_flow_state(flow.state)
    answered = _take_results(plan, state, mails, values)
    decided, runs = await _decide(flow, state, spec, plan, mails, values, now, lookup, expiries)
    if is_encrypted_bytes(flow.payload) and any(run.payload is flow.payload for run in runs):
        raise UnreadableFlow("its payload cannot be decrypted here, and a step that starts would get it")
    is_overdue = FlowPhase.OVERDUE in {decided.state.phase, decided.state.cause}
    return TurnedFlow(
        flow_id=flow.id,
        revision=flow.revision,
        state=flow.state if decided.state is state else encode_flow_state(decided.state),
        live=decided.state.live,
        wake_at=earliest(decided.state.timers),
        mails=tuple(mail.place for mail in mails),
        runs=runs,
        cancels=decided.cancels,
        cancel_reason=DEADLINE_REASON if is_overdue else CANCEL_REASON,
        goes_on=decided.goes_on,
        values=_keep(plan, decided, values, [*kept_ends(plan, mails), *answered]),
        drops_values=bool(plan.users),
        waits=waits_of(decided, flow.lane.tenant, flow.due_at),
        drops_waits=any(wait.event is not None for wait in plan.waits.values()),
        end=None if decided.end is None else end_run(flow, spec, decided.end, now=now, random=random),
    )


async def _decide(
    flow: KeptFlow,
    state: FlowState,
    spec: JobSpec,
    plan: FlowPlan,
    mails: Sequence[KeptMail],
    values: FlowValues | None,
    now: datetime,
    lookup: JobLookup,
    expiries: QueueExpiries,
) -> tuple[FlowTurn, tuple[NewRun, ...]]:
    """Return a turn, and the runs that it makes."""
    told, facts = [mail.mail for mail in mails], facts_of(flow)

    def decide(refused: Mapping[int, str]) -> FlowTurn:
        return turn(plan, state, told, now=now, evaluate=values, refused=refused)

    def make(decided: FlowTurn, jobs: Mapping[str, Job]) -> tuple[NewRun, ...]:
        return make_step_runs(facts, spec, plan, decided, now=now, jobs=jobs, expiries=expiries)

    try:
        return await lookup.take(flow.lane.tenant, flow.id, plan, decide, make)
    except UnreadableFlow:
        raise
    except ValueError as error:
        raise UnreadableFlow(str(error)) from error


def end_run(flow: KeptFlow, spec: JobSpec, end: FlowEnd, *, now: datetime, random: Random) -> Transition:
    """Return how the run of a flow ends. One that has failed may be retried, as its job says."""
    if end.state is RunState.SUCCEEDED:
        return succeeded(flow.id, flow.token, ENGINE_SESSION, result=end.result)
    facts = AttemptFacts(
        run_id=flow.id,
        token=flow.token,
        session_id=ENGINE_SESSION,
        attempt=flow.attempt,
        is_quarantined=False,
        quarantined_crashes=0,
        is_cancel_requested=False,
    )
    if end.state is RunState.CANCELLED:
        return cancelled(facts)
    if end.is_overdue:
        error = f"the deadline of the workflow passed{_tell_after(end.failed)}"
        late = failed(facts, spec, Failure(error=error, is_timeout=True), now=now, random=random)
        return replace(late, reason=DEADLINE_REASON) if late.to is RunState.FAILED else late
    return failed(facts, spec, Failure(error=end.error or _tell(end.failed)), now=now, random=random)


def _tell_after(steps: Sequence[str]) -> str:
    return f"; {_tell(steps)}" if steps else ""


def _tell(steps: Sequence[str]) -> str:
    """Say which steps have failed."""
    more = f" and {len(steps) - _MOST_NAMED} more" if len(steps) > _MOST_NAMED else ""
    if len(steps) == 1:
        return f"step {steps[0]} has not succeeded"
    return f"steps {', '.join(steps[:_MOST_NAMED])}{more} have not succeeded"


def _take_results(
    plan: FlowPlan, state: FlowState, mails: Sequence[KeptMail], values: FlowValues | None
) -> list[int]:
    """Note what steps return that are answered. Return those of them that expressions name.

    Raises:
        UnreadableFlow: an answer cannot be decrypted here.
    """
    if not plan.waits:
        return []
    answers = [mail.mail for mail in mails if isinstance(mail.mail, StepAnswer)]
    if any(is_encrypted_bytes(payload_of(answer)) for answer in answers):
        raise UnreadableFlow("an answer to one of its steps cannot be decrypted here")
    if values is None:
        return []
    picked = pick_answers(plan, state, answers)
    named = [step for step in picked if step in plan.users]
    values.known |= {step: result_of(picked[step]) for step in named}
    return named


def waits_of(decided: FlowTurn, tenant: str, due_at: datetime) -> tuple[NewWait, ...]:
    """Return the waits for events that begin with a turn. Events count from when the workflow's run was due."""
    return tuple(
        [
            NewWait(step=one.step, tenant=tenant, topic=one.topic, key=one.key, since=due_at)
            for one in decided.waits
        ]
    )


def _keep(
    plan: FlowPlan, decided: FlowTurn, values: FlowValues | None, fresh: Sequence[int]
) -> tuple[FlowValue, ...]:
    """Return what steps have left that later turns may ask for."""
    if values is None or decided.end is not None:
        return ()
    return values_to_keep(plan, decided.state.steps, values.known, fresh)


def kept_ends(plan: FlowPlan, mails: Sequence[KeptMail]) -> list[int]:
    """Return the steps of whose end mail tells, and whose results or errors expressions name."""
    if not plan.users:
        return []
    ended = [mail.mail.step for mail in mails if isinstance(mail.mail, StepEnded)]
    return [step for step in dict.fromkeys(ended) if step in plan.users]


def facts_of(flow: KeptFlow) -> FlowFacts:
    """Return what the runs of a flow's steps take over."""
    return FlowFacts(
        run_id=flow.id,
        job_id=flow.job_id,
        version=flow.version,
        tenant=flow.lane.tenant,
        fire_at=flow.fire_at,
        target_key=flow.target_key,
        payload=flow.payload,
        trace=flow.trace,
    )
