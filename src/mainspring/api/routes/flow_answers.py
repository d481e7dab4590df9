"""Answers to steps of workflows that wait: signals, approvals, and ends by hand."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.reading import path_run_id
from mainspring.core.definition.waits import read_signal
from mainspring.core.fields import read_free_text, read_payload
from mainspring.core.ids import format_run_id
from mainspring.core.rights import Right
from mainspring.wire import operations
from mainspring.wire.answers import AnswerView, CompletionBody, DecisionBody, SignalBody

_LONGEST_COMMENT = 500


@handles(operations.SEND_SIGNAL)
async def send_signal(call: Call, body: SignalBody) -> Answer[AnswerView]:
    run_id, name = path_run_id(call.key), read_signal(body.name, "name")
    is_new = await call.engine.flow_answers.signal(
        call.tenant, run_id, name, data=_data(body.data), by=call.actor
    )
    return _answer(call, is_new=is_new)


@handles(operations.APPROVE_RUN_STEP)
async def approve_run_step(call: Call, body: DecisionBody) -> Answer[AnswerView]:
    return await _decide(call, body, is_approved=True)


@handles(operations.REJECT_RUN_STEP)
async def reject_run_step(call: Call, body: DecisionBody) -> Answer[AnswerView]:
    return await _decide(call, body, is_approved=False)


@handles(operations.COMPLETE_RUN_STEP)
async def complete_run_step(call: Call, body: CompletionBody) -> Answer[AnswerView]:
    is_new = await call.engine.flow_answers.complete(
        call.tenant,
        path_run_id(call.key),
        body.step,
        comment=_comment(body.comment),
        data=_data(body.data),
        by=call.actor,
    )
    return _answer(call, is_new=is_new)


async def _decide(call: Call, body: DecisionBody, *, is_approved: bool) -> Answer[AnswerView]:
    is_new = await call.engine.flow_answers.decide(
        call.tenant,
        path_run_id(call.key),
        body.step,
        is_approved=is_approved,
        comment=_comment(body.comment),
        by=call.actor,
        may_operate=Right.OPERATE in call.principal.rights,
    )
    return _answer(call, is_new=is_new)


def _data(given: Any) -> bytes | None:
    if given is UNSET:
        return None
    return b"null" if given is None else read_payload(given, "data")


def _comment(given: str | None) -> str | None:
    return None if given is None else read_free_text(given, "comment", longest=_LONGEST_COMMENT)


def _answer(call: Call, *, is_new: bool) -> Answer[AnswerView]:
    view = AnswerView(run_id=format_run_id(path_run_id(call.key)), is_new=is_new)
    return Answer(view, status=202 if is_new else 200)


ROUTES: list[Endpoint] = [send_signal, approve_run_step, reject_run_step, complete_run_step]
