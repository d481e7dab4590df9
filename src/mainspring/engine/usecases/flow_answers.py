"""Answers to steps of workflows that wait: signals, approvals, and ends by hand. They go as mail (ADR 0080)."""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.core.actors import Actor, ActorKind
from mainspring.core.ids import RunId
from mainspring.core.workflows.answers import Said, StepAnswer, WaitState, encode_words
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import FlowState
from mainspring.core.workflows.waiting import can_answer
from mainspring.core.workflows.waits import AnswerKind, Approval
from mainspring.engine.usecases.flow_commands import FlowCommands
from mainspring.errors import Conflict, InvalidInput, NeedsRight

_LOCAL = "local"
_DONE = {
    AnswerKind.SIGNAL: "has got its signal",
    AnswerKind.APPROVE: "was approved",
    AnswerKind.REJECT: "was rejected",
    AnswerKind.COMPLETE: "was ended by hand",
    AnswerKind.EVENT: "has got its event",
}


class FlowAnswers:
    """Use cases on steps that wait. Every method acts for one tenant, and raises what `FlowCommands` does.

    Each returns whether it has told the run anything: an answer that is there already changes nothing. Of two that come
    at the same moment, the first one counts.
    """

    def __init__(self, commands: FlowCommands) -> None:
        self._commands = commands

    async def signal(
        self, tenant: str, run_id: RunId, name: str, *, data: bytes | None = None, by: Actor | None = None
    ) -> bool:
        """Give a signal to all steps that wait for it, or will.

        Args:
            data: JSON text that the steps return.

        Raises:
            InvalidInput: no step of the workflow waits for a signal of this name.
            Conflict: all that do have ended otherwise.
        """
        run, plan, state = await self._commands.find(tenant, run_id)
        places = [place for place, wait in plan.waits.items() if wait.signal == name]
        if not places:
            raise InvalidInput("name", _tell_signals(plan, name))
        answered = _answered(state)
        due = [place for place in places if place not in answered and can_answer(state.steps[place])]
        if not due and not answered.keys() & places:
            raise _ended(plan, state, places[0])
        words = encode_words(Said(by=_name_of(by), data=data))
        mails = [StepAnswer(place, AnswerKind.SIGNAL, words) for place in due]
        if mails:
            await self._commands.post(run, mails, by, {"signal": name})
        return bool(mails)

    async def decide(
        self,
        tenant: str,
        run_id: RunId,
        step: str,
        *,
        is_approved: bool,
        comment: str | None = None,
        by: Actor | None = None,
        may_operate: bool = True,
    ) -> bool:
        """Approve of a step, or reject it.

        Args:
            comment: why.
            may_operate: the caller has that right.

        Raises:
            InvalidInput: there is no such step.
            NeedsRight: the caller is none of those who have to decide.
            Conflict: the step awaits no approval, has ended, or was decided otherwise.
        """
        run, plan, state = await self._commands.find(tenant, run_id)
        place = _find_step(plan, step)
        wait = plan.waits.get(place)
        if wait is None or wait.approval is None:
            raise Conflict("step", f"step {step!r} awaits no approval")
        _check_caller(wait.approval, step, by, may_operate=may_operate)
        kind = AnswerKind.APPROVE if is_approved else AnswerKind.REJECT
        words = Said(by=_name_of(by), comment=comment)
        if not _is_due(plan, state, place, kind):
            return False
        after = {"step": step, "decision": "approved" if is_approved else "rejected", "comment": comment}
        await self._commands.post(run, [StepAnswer(place, kind, encode_words(words))], by, after)
        return True

    async def complete(
        self,
        tenant: str,
        run_id: RunId,
        step: str,
        *,
        comment: str | None = None,
        data: bytes | None = None,
        by: Actor | None = None,
    ) -> bool:
        """End the wait of a step by hand, as if what it waits for had come.

        Args:
            comment: why.
            data: JSON text that the step returns.

        Raises:
            InvalidInput: there is no such step.
            Conflict: the step waits for nothing, has ended, or was answered otherwise.
        """
        run, plan, state = await self._commands.find(tenant, run_id)
        place = _find_step(plan, step)
        if place not in plan.waits:
            raise Conflict("step", f"step {step!r} waits for nothing; only one with 'wait' can be completed")
        if not _is_due(plan, state, place, AnswerKind.COMPLETE):
            return False
        words = encode_words(Said(by=_name_of(by), comment=comment, data=data))
        after = {"completed": step, "comment": comment}
        await self._commands.post(run, [StepAnswer(place, AnswerKind.COMPLETE, words)], by, after)
        return True


def _name_of(by: Actor | None) -> str:
    """Return who answers: an account; `local` as long as nobody is told apart."""
    return by.name if by is not None and by.kind is ActorKind.ACCOUNT else _LOCAL


def _check_caller(approval: Approval, step: str, by: Actor | None, *, may_operate: bool) -> None:
    """Refuse who may not decide. Where accounts are told apart, `by` names all who may."""
    is_account = by is not None and by.kind is ActorKind.ACCOUNT
    if approval.by and is_account:
        if _name_of(by) not in approval.by:
            raise NeedsRight("step", f"{step!r} is for {' or '.join(approval.by)} to decide")
    elif not may_operate:
        raise NeedsRight("step", f"to decide about {step!r}, you need the right operate")


def _find_step(plan: FlowPlan, name: str) -> int:
    if name not in plan.places:
        raise InvalidInput("step", f"there is no step {name[:70]!r}")
    return plan.places[name]


def _answered(state: FlowState) -> Mapping[int, WaitState]:
    return {one.step: one for one in state.waits if one.kind is not None}


def _is_due(plan: FlowPlan, state: FlowState, place: int, kind: AnswerKind) -> bool:
    """Say whether an answer still tells something; refuse one that says the opposite, or comes too late."""
    answer = _answered(state).get(place)
    if answer is not None and answer.kind is not None:
        if answer.kind is kind:
            return False
        name = plan.workflow.steps[place].name
        raise Conflict("step", f"step {name!r} {_DONE[answer.kind]} by {answer.by or 'someone'} already")
    if not can_answer(state.steps[place]):
        raise _ended(plan, state, place)
    return True


def _ended(plan: FlowPlan, state: FlowState, place: int) -> Conflict:
    name, status = plan.workflow.steps[place].name, state.status(place).name.lower()
    return Conflict("step", f"step {name!r} waits no longer: it has the status {status!r}")


def _tell_signals(plan: FlowPlan, name: str) -> str:
    known = sorted({wait.signal for wait in plan.waits.values() if wait.signal is not None})
    if not known:
        return "no step of this workflow waits for a signal"
    return f"no step waits for the signal {name[:70]!r}; known are {', '.join(known)}"
