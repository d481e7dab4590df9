"""Turn the arguments of `@app.job` into the body of a job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from mainspring.core.definition import read_definition
from mainspring.core.model import Priority
from mainspring.errors import InvalidInput

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_TARGETS = ("target", "callback_url", "function", "command", "shell")


def job_body(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a function's job, in JSON values.

    Args:
        options: fields of a definition; durations may be `timedelta`, instants `datetime`; `retries` is short for
            `retry.max_retries`.

    Raises:
        InvalidInput: a field is wrong.
    """
    for field in _TARGETS:
        if field in options:
            raise InvalidInput(field, "is not needed: the job runs the decorated function")
    body: dict[str, Any] = {"name": name, "function": name}
    body |= {field: _plain(value) for field, value in options.items()}
    if "retries" in body:
        retry = body.get("retry", {})
        if not isinstance(retry, Mapping) or "max_retries" in retry:
            raise InvalidInput("retries", "says the same as 'retry.max_retries'; give one of them")
        body["retry"] = {**retry, "max_retries": body.pop("retries")}
    # Long ago, because an instant that has passed is for the server to judge: it may know the job already.
    try:
        read_definition(body, now=_LONG_AGO)
    except InvalidInput as error:
        if error.field != "function":  # its name is the job's here
            raise
        raise InvalidInput("name", error.message) from None
    return body


def _plain(value: object) -> object:
    if isinstance(value, Priority):
        return value.name
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value
