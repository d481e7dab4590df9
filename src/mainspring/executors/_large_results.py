"""Results that are too large for their runs: kept as files, if that works, or left out as they are without files."""

from __future__ import annotations

import logging

from mainspring.core.fields import MAX_PAYLOAD, is_deep
from mainspring.core.results import keep
from mainspring.errors import Conflict
from mainspring.ports.executor import AttemptContext, Success

_log = logging.getLogger(__name__)
_PLACE = "artifacts.url"
"""What a refusal names where no files are kept at all."""


def is_large(result: bytes, context: AttemptContext) -> bool:
    """Say whether a result is to be kept as a file. One that is nested too deep is left out in any case."""
    return len(result) > MAX_PAYLOAD and context.files is not None and not is_deep(result)


def keep_large(result: bytes, context: AttemptContext) -> Success:
    """Keep a result as a file while the calling thread waits. Its work is done, so it is left out if that fails."""
    assert context.files is not None, "is_large comes first"
    try:
        return Success(result=context.files.keep_result_sync(context, result))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the work of the attempt is done
        return _left_out(result, error)


async def keep_large_async(result: bytes, context: AttemptContext) -> Success:
    """Do the same in an event loop."""
    assert context.files is not None, "is_large comes first"
    try:
        return Success(result=await context.files.keep_result(context, result))
    except Exception as error:  # noqa: BLE001 -- likewise
        return _left_out(result, error)


def _left_out(result: bytes, error: Exception) -> Success:
    _log.info("a large result is left out: %s", error)
    is_off = isinstance(error, Conflict) and error.field == _PLACE
    return Success(result=keep(result, no_file=None if is_off else str(error) or type(error).__name__))
