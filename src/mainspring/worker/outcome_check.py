"""Checks what the executor of a package returned, before it is reported: a store and its readers trust it."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.model import INLINE_LIMIT
from mainspring.core.outcomes import Failure
from mainspring.core.results import leave_out
from mainspring.core.text import storable
from mainspring.ports.executor import Outcome, Snooze, Success
from mainspring.ports.strict_json import keep_unread

TEXT_LIMIT = INLINE_LIMIT
"""The most characters of an error or output that are kept."""


def check_outcome(outcome: object) -> Outcome:
    """Return the outcome as it may be reported.

    A failure stands for what is no outcome, and a mark for a result that cannot be kept. Texts are cut to their limit.
    """
    if isinstance(outcome, Snooze):
        return outcome
    if not isinstance(outcome, Success | Failure):
        kind = type(outcome).__name__
        message = f"the executor must return Success, Failure or Snooze, not {kind}"
        return Failure(error=message, is_retryable=False)
    result = None if outcome.result is None else _keep(outcome.result)
    output = None if outcome.output is None else storable(str(outcome.output)[:TEXT_LIMIT])
    if isinstance(outcome, Success):
        return Success(result=result, output=output)
    return replace(outcome, error=storable(str(outcome.error)[:TEXT_LIMIT]), output=output, result=result)


def _keep(result: object) -> bytes:
    if isinstance(result, bytes):
        return keep_unread(result)
    return leave_out(
        f"the executor's result must be JSON text in bytes, or None, not {type(result).__name__}"
    )
