"""Checks what the executor of a package returned, before it is reported: a store and its readers trust it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from mainspring.core.fields import MAX_DEPTH, is_deep
from mainspring.core.model import INLINE_LIMIT
from mainspring.core.outcomes import Failure
from mainspring.core.text import storable
from mainspring.ports.executor import Outcome, Snooze, Success

TEXT_LIMIT = INLINE_LIMIT
"""The most characters of an error or output that are kept."""


def check_outcome(outcome: object) -> Outcome:
    """Return the outcome as it may be reported: a failure in place of what cannot be, and texts cut to their limit."""
    if isinstance(outcome, Snooze):
        return outcome
    if not isinstance(outcome, Success | Failure):
        kind = type(outcome).__name__
        return _refuse(f"the executor must return Success, Failure or Snooze, not {kind}")
    wrong = None if outcome.result is None else _find_fault(outcome.result)
    if wrong is not None:
        return _refuse(f"the executor's result {wrong}")
    output = None if outcome.output is None else storable(str(outcome.output)[:TEXT_LIMIT])
    if isinstance(outcome, Success):
        return Success(result=outcome.result, output=output)
    return replace(outcome, error=storable(str(outcome.error)[:TEXT_LIMIT]), output=output)


def _refuse(error: str) -> Failure:
    return Failure(error=error, is_retryable=False)


def _find_fault(result: object) -> str | None:
    """Say what is wrong with a result; None if nothing is."""
    if not isinstance(result, bytes):
        return f"must be JSON text in bytes, or None, not {type(result).__name__}"
    if len(result) > INLINE_LIMIT:
        return f"has {len(result):,} bytes; at most {INLINE_LIMIT:,} can be kept"
    if is_deep(result):
        return f"is nested deeper than {MAX_DEPTH} levels"
    try:
        msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "is not JSON"
    return None
