"""From what a user wrote (short or full forms) to a checked `JobSpec` (design 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.core.cron import Cron, CronError
from mainspring.core.definition.fields import (
    DAY,
    MAX_NAME,
    check_known,
    read_choice,
    read_duration,
    read_instant,
    read_int,
    read_mapping,
    read_payload,
    read_share,
    read_text,
    read_word,
    show,
)
from mainspring.core.definition.targets import TARGET_SHORT_FORMS, read_target
from mainspring.core.ids import looks_like_job_id, looks_like_run_id
from mainspring.core.model import Delivery, JobSpec, Misfire, MisfireRule, Overlap, Priority
from mainspring.core.retry import Backoff, RetryPolicy
from mainspring.core.triggers import Interval, Once, Trigger
from mainspring.errors import InvalidInput

MAX_LABELS = 16
_DEFAULT_RETRY = RetryPolicy()
_DEFAULT_MISFIRE = MisfireRule()
_MIN_GRACE = timedelta(seconds=1)
_MISFIRE_HIGH = 3650 * DAY
_TRIGGER_SHORT_FORMS = ("cron", "every", "run_at")
_CRON_OPTIONS = ("tz", "dst")
_PLAIN_FIELDS = (
    "payload",
    "priority",
    "queue",
    "labels",
    "retry",
    "misfire",
    "overlap",
    "delivery",
    "poison_limit",
)
_DURATIONS = {
    # field: (lowest, highest, may it be null)
    "timeout": (timedelta(milliseconds=1), 30 * DAY, False),
    "soft_timeout": (timedelta(milliseconds=1), 30 * DAY, True),
    "jitter": (timedelta(0), timedelta(hours=1), False),
    "expires_after": (timedelta(milliseconds=1), 365 * DAY, True),
}
_DURATION_FORMS = {name: (name, f"{name}_seconds") for name in _DURATIONS}
_COMMON_FIELDS = frozenset({*_PLAIN_FIELDS, *(form for forms in _DURATION_FORMS.values() for form in forms)})
KNOWN_FIELDS = frozenset(
    {
        "name",
        *_COMMON_FIELDS,
        *_TRIGGER_SHORT_FORMS,
        *_CRON_OPTIONS,
        *TARGET_SHORT_FORMS,
        "trigger",
        "target",
    }
)


def read_definition(
    body: Mapping[str, Any],
    *,
    now: datetime,
    types: frozenset[str] | None = None,
    functions: frozenset[str] | None = None,
    old: Trigger | None = None,
) -> JobSpec:
    """Read a new job.

    Args:
        body: the fields, short forms or full forms.
        now: the instant of creation: the anchor of an interval, and what `run_at` is compared with.
        types: target types that are accepted; None is all.
        functions: names of functions that are known; None is not to be checked.
        old: the trigger of the job that is to be replaced; its instant may have passed.

    Raises:
        InvalidInput: a field is wrong; its path and what would be right are in the error.
    """
    read_mapping(body, "body")
    check_known(body, KNOWN_FIELDS)
    if "name" not in body:
        raise InvalidInput("name", "is missing; every job has a name")
    target = read_target(body, types=types, functions=functions)
    if target is None:
        raise InvalidInput("target", "is missing; give one of callback_url, function, command, target")
    name = _read_name(body["name"])
    trigger = _read_trigger(body, base=None, old=old, now=now)
    common = _read_common(body, retry=_DEFAULT_RETRY, misfire=_DEFAULT_MISFIRE)
    return _checked(JobSpec(name=name, target=target, trigger=trigger, **common), body)


def edit_definition(
    spec: JobSpec,
    patch: Mapping[str, Any],
    *,
    now: datetime,
    types: frozenset[str] | None = None,
    functions: frozenset[str] | None = None,
) -> JobSpec:
    """Apply a merge patch: what is given replaces, `retry` and `misfire` merge by key, a null trigger removes it.

    Raises:
        InvalidInput: as for `read_definition`.
    """
    read_mapping(patch, "body")
    check_known(patch, KNOWN_FIELDS)
    if "name" in patch:
        spec = replace(spec, name=_read_name(patch["name"]))
    target = read_target(patch, types=types, functions=functions)
    if target is not None:
        spec = replace(spec, target=target)
    if any(name in patch for name in (*_TRIGGER_SHORT_FORMS, *_CRON_OPTIONS, "trigger")):
        spec = replace(spec, trigger=_read_trigger(patch, base=spec.trigger, old=spec.trigger, now=now))
    return _checked(replace(spec, **_read_common(patch, retry=spec.retry, misfire=spec.misfire)), patch)


def _read_name(value: object) -> str:
    name = read_text(value, "name", longest=MAX_NAME)
    if not name.strip():
        raise InvalidInput("name", "is blank; give at least one character that can be seen")
    for owner, looks_like_id in (("job", looks_like_job_id), ("run", looks_like_run_id)):
        if looks_like_id(name):  # whoever says it means the other one
            raise InvalidInput("name", f"{name!r} looks like a {owner}'s id; choose another name")
    return name


def _read_common(body: Mapping[str, Any], *, retry: RetryPolicy, misfire: MisfireRule) -> dict[str, Any]:
    """Read what is given of the fields that have a default; what is given of the two policies changes these."""
    changes: dict[str, Any] = {}
    if _COMMON_FIELDS.isdisjoint(body):
        return changes
    if "payload" in body:
        changes["payload"] = read_payload(body["payload"])
    if "priority" in body:
        changes["priority"] = read_choice(body["priority"], "priority", Priority, by_name=True)
    if "queue" in body:
        changes["queue"] = read_word(body["queue"], "queue")
    if "labels" in body:
        changes["labels"] = _read_labels(body["labels"])
    if "retry" in body:
        changes["retry"] = _read_retry(body["retry"], retry)
    if "misfire" in body:
        changes["misfire"] = _read_misfire(body["misfire"], misfire)
    if "overlap" in body:
        changes["overlap"] = read_choice(body["overlap"], "overlap", Overlap)
    if "delivery" in body:
        changes["delivery"] = read_choice(body["delivery"], "delivery", Delivery)
    if "poison_limit" in body:
        changes["poison_limit"] = read_int(body["poison_limit"], "poison_limit", low=1, high=100)
    for name, (low, high, is_nullable) in _DURATIONS.items():
        field = _one_of(body, *_DURATION_FORMS[name])
        if field is not None:
            is_null = is_nullable and body[field] is None
            changes[name] = None if is_null else read_duration(body[field], field, low=low, high=high)
    return changes


def _checked(spec: JobSpec, body: Mapping[str, Any]) -> JobSpec:
    """Refuse fields that do not go together."""
    if spec.soft_timeout is not None and spec.soft_timeout >= spec.timeout:
        soft = _one_of(body, "soft_timeout", "soft_timeout_seconds")
        hard = _one_of(body, "timeout", "timeout_seconds")
        if soft is None and hard is not None:
            message = f"must be longer than the soft timeout, {show(spec.soft_timeout)}"
            raise InvalidInput(hard, message)
        message = f"must be shorter than the timeout, {show(spec.timeout)}, or it would never be reached"
        raise InvalidInput(soft or "soft_timeout", message)
    return spec


def _one_of(body: Mapping[str, Any], *names: str, prefix: str = "") -> str | None:
    """Return which of several forms of one thing is given; refuse two."""
    given = [name for name in names if name in body]
    if len(given) > 1:
        raise InvalidInput(f"{prefix}{given[1]}", f"says the same as {given[0]!r}; give one of them")
    return given[0] if given else None


# -- trigger -----------------------------------------------------------------------------------------------------


def _read_trigger(
    body: Mapping[str, Any], *, base: Trigger | None, old: Trigger | None, now: datetime
) -> Trigger | None:
    """Read a trigger: `base` is what a patch changes, `old` what a passed instant may repeat."""
    form = _one_of(body, "trigger", *_TRIGGER_SHORT_FORMS)
    if form is None:
        return _with_cron_options(body, base)
    if form != "cron":
        for option in _CRON_OPTIONS:
            if option in body:
                raise InvalidInput(option, "goes with cron only; write an instant's offset in run_at")
    if body[form] is None:
        return None
    if form == "cron":
        kept = {"tz": base.tz, "dst": base.dst} if isinstance(base, Cron) else {}
        return _read_cron(body["cron"], {**kept, **body}, "cron", "", now)
    if form == "every":
        return _read_interval(body["every"], "every", anchor=now)
    if form == "run_at":
        return _read_once(body["run_at"], "run_at", old=old, now=now)
    return _read_full_trigger(read_mapping(body["trigger"], "trigger"), old=old, now=now)


def _with_cron_options(body: Mapping[str, Any], old: Trigger | None) -> Trigger | None:
    given = [option for option in _CRON_OPTIONS if option in body]
    if not given:
        return old
    if not isinstance(old, Cron):
        raise InvalidInput(given[0], "goes with cron, which is not given")
    options = {"tz": old.tz, "dst": old.dst, **{name: body[name] for name in given}}
    return _make_cron(old.expression, options, "cron", "")


def _read_full_trigger(full: Mapping[str, Any], *, old: Trigger | None, now: datetime) -> Trigger:
    known = {
        "cron": ("type", "expression", "tz", "dst"),
        "interval": ("type", "every", "every_seconds", "anchor"),
        "once": ("type", "at"),
    }
    name = full.get("type")
    if not isinstance(name, str) or name not in known:
        raise InvalidInput("trigger.type", f"must be one of {', '.join(sorted(known))}")
    check_known(full, known[name], prefix="trigger.")
    if name == "cron":
        if "expression" not in full:
            raise InvalidInput("trigger.expression", "is missing")
        return _read_cron(full["expression"], full, "trigger.expression", "trigger.", now)
    if name == "once":
        if "at" not in full:
            raise InvalidInput("trigger.at", "is missing")
        return _read_once(full["at"], "trigger.at", old=old, now=now)
    every = _one_of(full, "every", "every_seconds", prefix="trigger.")
    if every is None:
        raise InvalidInput("trigger.every_seconds", "is missing")
    anchor = read_instant(full["anchor"], "trigger.anchor") if full.get("anchor") is not None else now
    interval = _read_interval(full[every], f"trigger.{every}", anchor=anchor)
    if interval.next_after(now) is None:
        raise InvalidInput("trigger.anchor", "lies so far ahead that the job would never fire")
    return interval


def _read_cron(text: object, options: Mapping[str, Any], field: str, prefix: str, now: datetime) -> Cron:
    if not isinstance(text, str):
        raise InvalidInput(field, "must be text like '*/5 * * * *'")
    cron = _make_cron(text, options, field, prefix)
    if cron.next_after(now) is None:
        raise InvalidInput(field, f"{text!r} does not fire within the next hundred years")
    return cron


def _make_cron(text: str, options: Mapping[str, Any], field: str, prefix: str) -> Cron:
    tz, dst = options.get("tz", "UTC"), options.get("dst", "vixie")
    if not isinstance(tz, str):
        raise InvalidInput(f"{prefix}tz", "must be an IANA name like Europe/Berlin")
    if not isinstance(dst, str):
        raise InvalidInput(f"{prefix}dst", "must be 'vixie' or GAP/OVERLAP")
    try:
        return Cron(text, tz=tz, dst=dst)
    except CronError as error:
        if error.field in _CRON_OPTIONS:
            raise InvalidInput(f"{prefix}{error.field}", error.message) from error
        where = "" if error.field == "expression" else f"{error.field}: "
        raise InvalidInput(field, f"{where}{error.message}") from error


def _read_interval(value: object, field: str, *, anchor: datetime) -> Interval:
    return Interval(read_duration(value, field, low=timedelta(seconds=1), high=3650 * DAY), anchor)


def _read_once(value: object, field: str, *, old: Trigger | None, now: datetime) -> Once:
    at = read_instant(value, field)
    if at <= now and old != Once(at):
        raise InvalidInput(field, f"{at.isoformat()} has passed; give an instant after {now.isoformat()}")
    return Once(at)


# -- policies ----------------------------------------------------------------------------------------------------


def _read_labels(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_LABELS:
        raise InvalidInput("labels", f"must be a list of at most {MAX_LABELS} labels")
    return tuple(sorted({read_word(label, f"labels[{index}]") for index, label in enumerate(value)}))


def _read_retry(value: object, old: RetryPolicy) -> RetryPolicy:
    full = read_mapping(value, "retry")
    names = ("delay", "cap", "delays")
    known = ("max_retries", "backoff", "jitter", *names, *(f"{name}_seconds" for name in names))
    check_known(full, known, prefix="retry.")
    changes: dict[str, Any] = {}
    if "max_retries" in full:
        changes["max_retries"] = read_int(full["max_retries"], "retry.max_retries", low=0, high=1000)
    if "backoff" in full:
        changes["backoff"] = read_choice(full["backoff"], "retry.backoff", Backoff)
    if "jitter" in full:
        changes["jitter"] = read_share(full["jitter"], "retry.jitter")
    for name in ("delay", "cap"):
        form = _one_of(full, name, f"{name}_seconds", prefix="retry.")
        if form is not None:
            changes[name] = read_duration(full[form], f"retry.{form}")
    form = _one_of(full, "delays", "delays_seconds", prefix="retry.")
    if form is not None:
        changes["delays"] = _read_delays(full[form], f"retry.{form}")
        if changes["delays"]:
            changes.setdefault("backoff", Backoff.LIST)  # what else could they be meant for?
    policy = replace(old, **changes)
    if policy.backoff is Backoff.LIST:
        if not policy.delays:
            message = "is missing; backoff 'list' needs at least one delay"
            raise InvalidInput(f"retry.{form or 'delays'}", message)
    elif changes.get("delays"):
        message = f"goes with backoff 'list', not {policy.backoff.value!r}, which takes delay"
        raise InvalidInput(f"retry.{form}", message)
    elif "backoff" in changes:
        policy = replace(policy, delays=())  # those of a list that is no more
    return policy


def _read_delays(value: object, field: str) -> tuple[timedelta, ...]:
    if not isinstance(value, list | tuple) or len(value) > 100:
        raise InvalidInput(field, "must be a list of at most 100 durations")
    return tuple(read_duration(item, f"{field}[{index}]") for index, item in enumerate(value))


def _read_misfire(value: object, old: MisfireRule) -> MisfireRule:
    if isinstance(value, str):  # the policy alone
        return replace(old, policy=read_choice(value, "misfire", Misfire))
    full = read_mapping(value, "misfire")
    names = ("grace", "max_age")
    check_known(
        full, ("policy", "max_count", *names, *(f"{name}_seconds" for name in names)), prefix="misfire."
    )
    changes: dict[str, Any] = {}
    if "policy" in full:
        changes["policy"] = read_choice(full["policy"], "misfire.policy", Misfire)
    if "max_count" in full:
        changes["max_count"] = read_int(full["max_count"], "misfire.max_count", low=1, high=100_000)
    for name in names:
        form = _one_of(full, name, f"{name}_seconds", prefix="misfire.")
        if form is not None:
            changes[name] = read_duration(full[form], f"misfire.{form}", high=_MISFIRE_HIGH)
            if name == "grace" and changes[name] < _MIN_GRACE:
                message = (
                    f"must be at least {show(_MIN_GRACE)}, not {show(changes[name])}; no fire is made sooner"
                )
                raise InvalidInput(f"misfire.{form}", f"{message}, and each would count as missed")
    return replace(old, **changes)
