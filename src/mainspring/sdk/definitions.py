"""Turns the arguments of `@app.job` into the body of a job."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, time, timedelta
from enum import Enum
from typing import Any, TypedDict

import msgspec

from mainspring.clock import host_time
from mainspring.core.definition import read_definition, warn_of_definition
from mainspring.core.definition.retry import put_rules
from mainspring.core.model import Delivery, JobSpec, Misfire, Overlap, Priority
from mainspring.core.priorities import read_priority
from mainspring.core.targets import TARGETS
from mainspring.errors import InvalidInput
from mainspring.payloads.hooks import encode_other
from mainspring.sdk.batch import Batch
from mainspring.sdk.notify import Notify
from mainspring.sdk.once import Debounce, Duration, Throttle, Unique

_log = logging.getLogger("mainspring.jobs")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Limit(TypedDict, total=False):
    """A limit under which runs start: `Limit(key="$.customer", limit=2)`.

    Attributes:
        limit: how many runs of one key may be under way at a time.
        key: text, or a path into the payload, for one line for each value.
        rate: how often they may start, like `10/s`.
        burst: how many may start at once after a pause.
        hold: `attempt` or `run`: until when a run counts.
        use: the name of a limit that jobs share; it says all but the key.
    """

    limit: int
    key: str
    rate: str
    burst: int
    hold: str
    use: str


Causes = type[BaseException] | str | Sequence[type[BaseException] | str]
"""Causes of a failure: exceptions, by class or name, and what else a rule can name."""


class WorkflowOptions(TypedDict, total=False):
    """The arguments of `App.workflow`, written out for editors and type checkers.

    A test compares them with the options of a job and the short forms of Mainspring's own triggers. Pass the trigger
    of a plug-in as `trigger`, in full form.
    """

    schedule: str | None
    cron: str | None
    tz: str
    dst: str
    every: Duration | None
    after_end: Duration | None
    on_event: str | None
    calendar_interval: str | None
    at: time | str
    day: int | str | None
    month: int | str | None
    weekday: str | None
    any_of: Sequence[Mapping[str, Any] | str] | None
    run_at: datetime | float | str | None
    starts_at: datetime | str | None
    ends_at: datetime | str | None
    trigger: Mapping[str, Any] | None
    payload: Any
    priority: Priority | str
    queue: str
    misfire: Mapping[str, Any] | Misfire | str
    catch_up: Mapping[str, Any]
    overlap: Overlap | str
    calendars: Mapping[str, Any]
    max_fires: int | None
    jitter: Duration
    expires_after: Duration | None
    poison_limit: int
    concurrency: int | Limit | Sequence[Limit]
    rate: str | None
    unique: Mapping[str, Any] | Unique | str | None
    debounce: Mapping[str, Any] | Debounce | None
    throttle: Mapping[str, Any] | Throttle | None
    pause_after_failures: int | None
    notify: Mapping[str, Any] | Notify | None
    metrics: bool


class JobOptions(WorkflowOptions, total=False):
    """The arguments of `@app.job`: the same, and what is for the attempts of its runs."""

    labels: Sequence[str] | set[str] | frozenset[str]
    isolation: str | None
    retry: Mapping[str, Any]
    retries: int
    retry_on: Causes
    no_retry_on: Causes
    delivery: Delivery | str
    timeout: Duration
    soft_timeout: Duration | None
    preempts: bool | None
    preemptible: bool


class AllJobOptions(JobOptions, total=False):
    """The same, and what changes how the function is called."""

    batch: Mapping[str, Any] | Batch | None


def job_body(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a function's job, in JSON values.

    Args:
        options: fields of a definition; durations may be `timedelta`, instants `datetime`; `retries` is short for
            `retry.max_retries`, `retry_on` and `no_retry_on` for rules.

    Raises:
        InvalidInput: a field is wrong.
    """
    for field in ("target", *TARGETS.by_field):
        if field in options and field != "isolation":
            raise InvalidInput(field, "is not needed: the job runs the decorated function")
    body: dict[str, Any] = {"name": name, "function": name, **plain_options(options)}
    spec = check_body(body)
    for warning in warn_of_definition(body, spec, now=host_time()):
        _log.warning("job %r: %s", name, warning)
    return body


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a definition in JSON values, with what is short for a retry policy and its rules in its place.

    Raises:
        InvalidInput: two say the same.
    """
    body = {field: _plain(value) for field, value in options.items()}
    if "payload" in body:
        body["payload"] = _json_of(body["payload"])
    if "retries" in body:
        retry = body.get("retry", {})
        if not isinstance(retry, Mapping) or "max_retries" in retry:
            raise InvalidInput("retries", "says the same as 'retry.max_retries'; give one of them")
        body["retry"] = {**retry, "max_retries": body.pop("retries")}
    put_rules(body, body.pop("retry_on", None), body.pop("no_retry_on", None))
    return body


def check_body(body: Mapping[str, Any]) -> JobSpec:
    """Return what the body of an app's job says.

    Raises:
        InvalidInput: a field is wrong.
    """
    for field in ("run_at", "schedule"):
        value = body.get(field)
        if isinstance(value, str) and value.split()[:1] in (["in"], ["In"], ["IN"]):
            message = (
                "would count again from each start of the app; give an instant, or submit a run with a delay"
            )
            raise InvalidInput(field, message)
    # Long ago, so that an instant that has passed is not refused here: the server may know the job already.
    # Whether there is such a class only the server knows.
    named = isinstance(body.get("priority"), str) and isinstance(
        read_priority(body["priority"], "priority"), str
    )
    known = {**body, "priority": Priority.MEDIUM.name} if named else body
    try:
        return read_definition(known, now=_LONG_AGO)
    except InvalidInput as error:
        if error.field != "function":  # here, the function's name is the job's name
            raise
        raise InvalidInput("name", error.message) from None


def _json_of(payload: object) -> object:
    """Return a payload as JSON values, for the function to read by its annotations. What is none is refused later."""
    try:
        return msgspec.to_builtins(payload, enc_hook=encode_other)
    except (TypeError, ValueError, RecursionError):
        return payload


def _plain(value: object) -> object:
    if isinstance(value, Priority):
        return value.name
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, type) and issubclass(value, BaseException):
        # A worker imports the main module under another name.
        return (
            value.__qualname__
            if value.__module__ == "__main__"
            else f"{value.__module__}.{value.__qualname__}"
        )
    if isinstance(value, datetime | time):
        return value.isoformat()
    if isinstance(value, Unique | Debounce | Throttle | Batch | Notify):
        given = {each.name: getattr(value, each.name) for each in fields(value)}
        return {name: _plain(item) for name, item in given.items() if item is not None}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value
