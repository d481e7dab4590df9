"""Reads the options of Celery's tasks as options of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import CodeType
from typing import Any

from mainspring.errors import InvalidInput
from mainspring.importers.celery_source import EXAMPLE, tell_source

_DEFAULT_QUEUE = "celery"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FOREVER = 1000
_CANVAS = frozenset({"chain", "chord", "group", "chunks", "xmap", "xstarmap"})
_SUBMITS = frozenset({"delay", "apply_async", "send_task"})
_TO_CELERY = "which still goes to Celery: submit with app.submit_sync(NAME, [PAYLOAD]) instead"


def read_options(app: Any, task: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a task's options as fields of a definition, and what differs.

    Args:
        given: the options of a beat entry; they win over the task's.

    Raises:
        InvalidInput: one of them cannot be had.
    """
    notes: list[str] = []
    body: dict[str, Any] = {}
    queue = _queue(app, task, given)
    if queue not in {None, _DEFAULT_QUEUE}:
        body["queue"] = queue
    body["retry"] = _retry(task, notes)
    for field, name in (("timeout", "time_limit"), ("soft_timeout", "soft_time_limit")):
        value = given.get(name) or getattr(task, name, None) or app.conf.get(f"task_{name}")
        if value is not None:
            body[field] = value
    rate = getattr(task, "rate_limit", None) or app.conf.task_default_rate_limit
    if rate:
        body["rate"] = _rate(rate)
        notes.append(f"rate_limit {rate} was each worker's, and is that of all workers together here")
    expires = given.get("expires", getattr(task, "expires", None))
    if expires is not None:
        body["expires_after"] = seconds_of(expires, "expires")
    if given.get("priority", getattr(task, "priority", None)) is not None:
        notes.append("priority is not imported: choose HIGH, MEDIUM or LOW")
    return body, notes


def tell_code(task: Any) -> list[str]:
    """Return notes on what a task's function does through Celery itself."""
    function = _function(task)
    if (told := tell_source(function)) is not None:
        canvases, submits = told
        return [*canvases, *([f"calls {', '.join(submits)}, {_TO_CELERY}"] if submits else [])]
    names = _names(function)
    notes = []
    if names & _CANVAS:
        words = ", ".join(sorted(names & _CANVAS))
        notes.append(f"uses {words}, which still goes to Celery; write it like {EXAMPLE}")
    if names & _SUBMITS:
        notes.append(f"calls {', '.join(sorted(names & _SUBMITS))}, {_TO_CELERY}")
    return notes


def _queue(app: Any, task: Any, given: Mapping[str, Any]) -> str | None:
    """Return the queue that Celery would send a task to."""
    asked = given.get("queue") or getattr(task, "queue", None)
    try:
        route = app.amqp.router.route({"queue": asked} if asked else {}, task.name)
    except Exception as error:  # noqa: BLE001 - routers are the user's own code
        raise InvalidInput("queue", f"Celery's router raises {type(error).__name__}: {error}") from None
    queue = route.get("queue")
    name = getattr(queue, "name", queue)
    return None if name is None else str(name)


def _retry(task: Any, notes: list[str]) -> dict[str, Any]:
    automatic = tuple(getattr(task, "autoretry_for", None) or ())
    if not automatic and "retry" not in _names(_function(task)):
        return {"max_retries": 0}
    options: Mapping[str, Any] = getattr(task, "retry_kwargs", None) or {}
    most = options.get("max_retries", task.max_retries)
    if most is None:
        notes.append(f"was retried without end, and is retried {_FOREVER:,} times here")
    retry: dict[str, Any] = {"max_retries": _FOREVER if most is None else most}
    factor = getattr(task, "retry_backoff", False)
    if automatic and factor:
        cap = getattr(task, "retry_backoff_max", 600)
        retry |= {"backoff": "exponential", "delay": int(factor), "cap": cap}
    else:
        retry |= {"backoff": "fixed", "delay": options.get("countdown", task.default_retry_delay)}
    if not automatic:
        notes.append(
            "calls self.retry: every failure is retried here, not only that; to decide it, raise RetryRun"
        )
    elif Exception not in automatic and BaseException not in automatic:
        retry["rules"] = [{"on": _causes(automatic), "then": "retry"}, {"on": "any", "then": "fail"}]
    never = tuple(getattr(task, "dont_autoretry_for", None) or ())
    if automatic and never:
        retry["rules"] = [{"on": _causes(never), "then": "fail"}, *retry.get("rules", [])]
    return retry


def _causes(exceptions: Iterable[type[BaseException]]) -> list[str]:
    return [
        one.__qualname__ if one.__module__ == "builtins" else f"{one.__module__}.{one.__qualname__}"
        for one in exceptions
    ]


def _rate(rate: Any) -> str:
    """Return a rate like `10/m`; one that is no whole number in its unit is told in a larger one."""
    number, _, unit = str(rate).partition("/")
    try:
        per_second = float(number) / _UNITS[unit or "s"]
    except (KeyError, ValueError):
        raise InvalidInput("rate_limit", f"{rate!r} is not like 10/s, 100/m or 1000/h") from None
    for name, seconds in _UNITS.items():
        count = per_second * seconds
        if _UNITS[unit or "s"] <= seconds and count >= 1 and abs(count - round(count)) < 1e-9:
            return f"{round(count)}/{name}"
    raise InvalidInput("rate_limit", f"{rate!r} cannot be told in whole numbers; choose one like 90/h")


def seconds_of(value: Any, field: str) -> float:
    """Return a length of time in seconds.

    Raises:
        InvalidInput: it is none.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise InvalidInput(field, f"must be a number of seconds or a timedelta, not a {type(value).__name__}")


def _function(task: Any) -> Any:
    """Return the function that a task was made of."""
    run = getattr(task, "_orig_run", None) or task.run
    return getattr(run, "__func__", run)


def _names(function: Any) -> set[str]:
    """Return the names that the code of a function, and of those within it, uses."""
    code = getattr(function, "__code__", None)
    found: set[str] = set()
    pending = [code] if isinstance(code, CodeType) else []
    while pending:
        one = pending.pop()
        found |= {*one.co_names, *one.co_freevars}
        pending += [each for each in one.co_consts if isinstance(each, CodeType)]
    return found
