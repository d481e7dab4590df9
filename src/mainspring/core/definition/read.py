"""From what a user wrote (short or full forms) to a checked `JobSpec` (design 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from mainspring.core.definition.batch import check_batch
from mainspring.core.definition.forms import read_target, replacing_only
from mainspring.core.definition.keys import check_keys_are_meant
from mainspring.core.definition.limits import JOB_RATE, check_keys_stay, check_line, settle_rate
from mainspring.core.definition.max_fires import check_max_fires
from mainspring.core.definition.once import check_once
from mainspring.core.definition.options import NAME, OPTIONS
from mainspring.core.definition.retry import check_causes
from mainspring.core.definition.timeouts import check_timeouts
from mainspring.core.definition.workflows import check_workflow, settle_retry
from mainspring.core.ends import after_end_of
from mainspring.core.expressions import Compile
from mainspring.core.fields import check_known, read_mapping
from mainspring.core.ids import DEFAULT_TENANT, JobId
from mainspring.core.limits import keys_of
from mainspring.core.model import Delivery, JobSpec, Priority, Target
from mainspring.core.targets import TARGETS
from mainspring.core.triggers import TRIGGERS, AtStart, OnEvent, Trigger
from mainspring.core.triggers.reading import COMMON, HEADS, read_trigger, slot_key
from mainspring.core.triggers.words import warn_of_moment, warn_of_trigger
from mainspring.errors import InvalidInput

_ANY_JOB = JobId(UUID(int=0))
OWN_FIELDS = frozenset({NAME.name, *OPTIONS.by_form, JOB_RATE.name, *COMMON.by_form, "trigger", "target"})
"""The fields of a job's body that belong to no type of trigger or target."""


OTHER_NAMES = MappingProxyType(
    {
        "rate_limit": "rate",
        "soft_time_limit": "soft_timeout",
        **dict.fromkeys(("retries", "max_retries", "max_attempts", "backoffLimit"), "retry.max_retries"),
        **dict.fromkeys(("timezone", "time_zone", "timeZone", "zone"), "tz"),
        **dict.fromkeys(("url", "webhook", "endpoint"), "callback_url"),
        **dict.fromkeys(("args", "kwargs", "data", "params", "input"), "payload"),
        **dict.fromkeys(("func", "task", "callable", "handler"), "function"),
        **dict.fromkeys(("cmd", "script", "exec"), "command"),
        **dict.fromkeys(("crontab", "cron_expression"), "cron"),
        **dict.fromkeys(("interval", "seconds", "frequency"), "every"),
        **dict.fromkeys(("eta", "run_date", "start_at"), "run_at"),
        **dict.fromkeys(("time_limit", "execution_timeout"), "timeout"),
        **dict.fromkeys(("max_instances", "max_active_runs", "concurrencyPolicy"), "overlap"),
        **dict.fromkeys(("catchup", "coalesce", "misfire_grace_time"), "misfire"),
        **dict.fromkeys(
            ("max_runs", "repeat_count", "repeatCount", "count", "COUNT", "repeats", "max_executions"),
            "max_fires",
        ),
    }
)
"""The names that other schedulers have for our fields: only a refusal looks them up, to say which field is meant."""


def known_fields() -> frozenset[str]:
    """Return the names of all fields of a job's body, short forms included."""
    return OWN_FIELDS.union(TRIGGERS.by_field, TARGETS.by_field)


def _check_fields(body: Mapping[str, Any]) -> None:
    """Refuse a field that does not exist."""
    for name in body:
        if name not in OWN_FIELDS and name not in TRIGGERS.by_field and name not in TARGETS.by_field:
            check_known(body, known_fields(), others=OTHER_NAMES)


def read_definition(
    body: Mapping[str, Any],
    *,
    now: datetime,
    types: frozenset[str] | None = None,
    functions: frozenset[str] | None = None,
    compile_: Compile | None = None,
    old: Trigger | None = None,
    tenant: str = DEFAULT_TENANT,
    may_be_over: bool = False,
) -> JobSpec:
    """Read a new job.

    Args:
        body: the fields, short forms or full forms.
        now: the instant of creation: the anchor of an interval, and what `run_at` is compared with.
        types: target types that are accepted; None is all.
        functions: names of functions that are known; None is not to be checked.
        compile_: refuses expressions of workflows that are none; None: they are not looked at.
        old: the trigger of the job that is to be replaced; its instant may have passed.
        tenant: the job's; with its name, it chooses hashed slots.
        may_be_over: a trigger whose last fire has passed is right.

    Raises:
        InvalidInput: a field is wrong; its path and what would be right are in the error. Of a workflow's steps,
            `InvalidFields` has all errors.
    """
    read_mapping(body, "body")
    _check_fields(body)
    if "name" not in body:
        raise InvalidInput("name", "is missing; every job has a name")
    target = read_target(body, types=types, functions=functions, compile_=compile_)
    if target is None:
        raise InvalidInput("target", f"is missing; {_one_target()}")
    name = NAME.read(body["name"], "name")
    key = slot_key(tenant, name)
    trigger = read_trigger(body, base=None, old=old, now=now, key=key, may_be_over=may_be_over)
    values = OPTIONS.read_given(body, str)
    settle_rate(body, values)
    settle_retry(None, target, values)
    return _checked(JobSpec(name=name, target=target, trigger=trigger, **values), body)


_ANYTHING = Target("function", {"function": "preview"})


def names_target(body: Mapping[str, Any]) -> bool:
    """Say whether a body says what to run."""
    return any(name in body for name in ("target", *TARGETS.by_field))


def read_timing(
    body: Mapping[str, Any], *, now: datetime, old: Trigger | None = None, tenant: str = DEFAULT_TENANT
) -> JobSpec:
    """Read a job that has no target yet: when it is to fire, and its options. What is returned runs nothing.

    Raises:
        InvalidInput: a field is wrong, or no trigger is given.
    """
    read_mapping(body, "body")
    _check_fields(body)
    name = NAME.read(body["name"], "name") if "name" in body else ""
    trigger = read_trigger(body, base=None, old=old, now=now, key=slot_key(tenant, name))
    if trigger is None:
        raise InvalidInput("trigger", f"is missing; give one of {', '.join([*TRIGGERS.heads, *HEADS])}")
    values = OPTIONS.read_given(body, str)
    settle_rate(body, values)
    spec = JobSpec(name=name or "preview", target=_ANYTHING, trigger=trigger, **values)
    check_max_fires(spec, body)
    return spec


def warn_of_definition(body: Mapping[str, Any], spec: JobSpec, *, now: datetime) -> list[str]:
    """Return what may surprise about a definition or a patch, as sentences without a full stop.

    Args:
        spec: what it makes.
    """
    return [*warn_of_moment(body), *warn_of_trigger(spec.trigger, now=now)]


def edit_definition(
    spec: JobSpec,
    patch: Mapping[str, Any],
    *,
    now: datetime,
    types: frozenset[str] | None = None,
    functions: frozenset[str] | None = None,
    compile_: Compile | None = None,
    tenant: str = DEFAULT_TENANT,
) -> JobSpec:
    """Apply a merge patch: what is given replaces, policies merge by key, a null trigger removes it.

    Beside a trigger or target that comes instead, null may say which one goes.

    Raises:
        InvalidInput: as for `read_definition`.
    """
    read_mapping(patch, "body")
    _check_fields(patch)
    changes = OPTIONS.read_given(patch, str, spec)
    settle_rate(patch, changes, spec.concurrency)
    if "name" in patch:
        changes["name"] = NAME.read(patch["name"], "name")
    new_target = replacing_only(patch, ("target",), TARGETS)
    for form in ("target", *TARGETS.heads):
        if form in new_target and new_target[form] is None:
            raise InvalidInput(form, f"must not be null, because every job has a target; {_one_target()}")
    target = read_target(new_target, types=types, functions=functions, compile_=compile_)
    settle_retry(spec, target, changes)
    if target is not None:
        changes["target"] = target
    new_trigger = replacing_only(patch, HEADS, TRIGGERS)
    key = slot_key(tenant, changes.get("name", spec.name))
    changes["trigger"] = read_trigger(new_trigger, base=spec.trigger, old=spec.trigger, now=now, key=key)
    return _checked(replace(spec, **changes), patch)


def _check_preemption(spec: JobSpec, body: Mapping[str, Any]) -> None:
    if spec.preempts and spec.priority is Priority.LOW:
        field = "preempts" if body.get("preempts") else "priority"
        raise InvalidInput(field, "a job that preempts is HIGH or MEDIUM; no tier is lower than LOW")
    if spec.preemptible and spec.delivery is Delivery.AT_MOST_ONCE:
        field = "preemptible" if body.get("preemptible") else "delivery"
        message = "a preemptible run starts again, which at_most_once forbids; take another delivery, or set"
        raise InvalidInput(field, f"{message} preemptible to false")
    if spec.preemptible and spec.batch is not None:
        field = "preemptible" if body.get("preemptible") else "batch"
        raise InvalidInput(
            field, "preemptible does not go with batch: one call runs many, and cannot stop one"
        )


def _one_target() -> str:
    return f"give one of {', '.join([*TARGETS.heads, 'target'])}"


def _checked(spec: JobSpec, body: Mapping[str, Any]) -> JobSpec:
    """Refuse fields that do not go together."""
    if spec.calendars and isinstance(spec.trigger, AtStart):
        raise InvalidInput("calendars", "do not go with a trigger at start, which fires whenever that is")
    if spec.calendars and isinstance(spec.trigger, OnEvent):
        raise InvalidInput("calendars", "go with a trigger of times, not with one on events")
    if spec.calendars and spec.calendars.roll is not None and after_end_of(spec.trigger) is not None:
        raise InvalidInput("calendars.roll", "does not go with after_end, whose fires have no time of day")
    if spec.calendars and spec.trigger is None:
        field = "calendars" if "calendars" in body or "trigger" not in body else "trigger"
        raise InvalidInput(
            field, "a job with calendars needs a trigger; take the calendars away, or give it one"
        )
    check_max_fires(spec, body)
    check_workflow(spec, body)
    check_batch(spec, body)
    if spec.retry.rules:
        check_causes(spec, body)
    check_keys_are_meant(spec, body)
    if spec.is_lined_up and not isinstance(spec.trigger, OnEvent | None):
        keys_of(_ANY_JOB, spec)  # its fires bring no payload of their own
    check_timeouts(spec.timeout, spec.soft_timeout, body)
    _check_preemption(spec, body)
    check_line(spec, body)
    check_once(spec, body)
    check_keys_stay(spec)
    return spec
