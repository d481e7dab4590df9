"""Short and full forms of triggers: which trigger a body means."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.core.cron import Cron, CronError
from mainspring.core.fields import one_of, read_mapping
from mainspring.core.kinds import Schema
from mainspring.core.options import Option, Options, Path
from mainspring.core.triggers.after_end import AfterEnd
from mainspring.core.triggers.base import WINDOW_NAMES, Trigger, TriggerType
from mainspring.core.triggers.composed import AnyOf, Windowed, change_parts
from mainspring.core.triggers.once import Once
from mainspring.core.triggers.registry import TRIGGERS, check_instants, load_trigger, store_trigger, type_of
from mainspring.core.triggers.wall_kinds import CheckedText
from mainspring.core.triggers.windows import WINDOW
from mainspring.errors import InvalidInput

_TICK = timedelta(microseconds=1)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_ZONED = frozenset({"tz", "dst"})


class _ScheduleText(CheckedText):
    """A schedule as people write it."""

    def schema(self) -> Schema:
        """Return a string's schema."""
        return {"type": "string", "minLength": 1, "maxLength": 256}


SCHEDULE = Option(
    name="schedule",
    kind=_ScheduleText("text like `every 2 hours`, `every monday at 9:30` or `0 9 * * *`"),
    summary="Fire by a schedule in words, or by a cron expression.",
    detail="It becomes one of the triggers, and is kept and shown as that.",
    example="every monday at 9:30",
)
COMMON = Options(SCHEDULE, *WINDOW)
"""Fields of a body that belong to no type of trigger."""
HEADS = ("trigger", "schedule")
"""Fields that select a trigger, beside the short forms of the types."""


def read_trigger(
    body: Mapping[str, Any],
    *,
    base: Trigger | None,
    old: Trigger | None,
    now: datetime,
    key: str = "",
    may_be_over: bool = False,
) -> Trigger | None:
    """Return the trigger of a body in short or full form, or of a schedule in words; `base` where it gives none.

    Args:
        base: the trigger that a patch changes: a short form keeps of it what it does not name.
        old: the trigger that is replaced; an instant that has passed may be repeated.
        key: what hashed slots depend on: the job's tenant and name.
        may_be_over: instants that have passed are right, even if none is left.

    Raises:
        InvalidInput: more than one is given, or the one given is wrong.
    """
    try:
        return _read_any(body, base, old, now, key)
    except InvalidInput as error:
        past = _read_past(body, base, old, key) if may_be_over else None
        if past is None:
            raise
        refusal = error
    for known in (_instants_of(past, old), past):
        with contextlib.suppress(InvalidInput):
            return _read_any(body, base, known, now, key)
    raise refusal


def _read_past(
    body: Mapping[str, Any], base: Trigger | None, old: Trigger | None, key: str
) -> Trigger | None:
    """Return what a body said long ago; None if it was wrong even then."""
    for kept in (old, None):  # an end before the anchor that the job has takes that anchor away
        with contextlib.suppress(InvalidInput):
            return _read_any(body, base, kept, _LONG_AGO, key)
    return None


def _instants_of(past: Trigger | None, old: Trigger | None) -> Trigger | None:
    """Return what a union has to repeat to keep its single instants: intervals are still counted from now."""
    raw, old_raw = _raw(past), _raw(old)
    if not isinstance(raw, AnyOf):
        return past
    known = old_raw.triggers if isinstance(old_raw, AnyOf) else ()
    return AnyOf((*known, *(part for part in raw.triggers if isinstance(part, Once))))


def _read_any(
    body: Mapping[str, Any], base: Trigger | None, old: Trigger | None, now: datetime, key: str
) -> Trigger | None:
    form = one_of(body, *HEADS, *TRIGGERS.heads)
    if form != "schedule" or body[form] is None:
        return _read(body, form, base, old, now, key)
    from mainspring.core.triggers.phrases import (
        understand,
    )  # costs a start, and only a schedule in words needs it

    short = understand(body["schedule"], "schedule")
    plain = _with_zone({name: value for name, value in body.items() if name != "schedule"}, short)
    head = next(iter(short))
    for name in WINDOW_NAMES if head == "trigger" else ():  # what has no short form does not recur
        if plain.pop(name, None) is not None:
            raise InvalidInput(name, f"goes with a trigger that recurs, not with {body['schedule']}")
    try:
        return _read(plain, head, base, old, now, key)
    except InvalidInput as error:
        is_own = error.field in short and error.field not in body
        is_own = is_own or error.field.startswith(f"{head}[")
        raise InvalidInput("schedule" if is_own else error.field, error.message) from None


def _with_zone(rest: dict[str, Any], short: dict[str, Any]) -> dict[str, Any]:
    """Return a body with what a schedule stands for; the zone of the body goes to each part that has wall times."""
    given = {name: rest.pop(name) for name in _ZONED & rest.keys()}
    parts = short.get("any_of", [short])
    if "tz" in given and "tz" in parts[0] and given["tz"] != parts[0]["tz"]:
        raise InvalidInput("tz", f"the schedule names {parts[0]['tz']} already; give one of them")
    if "any_of" in short:
        return {**rest, "any_of": [{**part, **given} for part in parts]}
    is_zoned = "cron" in short or "calendar_interval" in short
    return {**rest, **short, **(given if is_zoned else {})}


def _read(
    body: Mapping[str, Any],
    form: str | None,
    base: Trigger | None,
    old: Trigger | None,
    now: datetime,
    key: str,
) -> Trigger | None:
    companions = [field for field in TRIGGERS.companions if field in body]
    if form is None:
        if not companions and not any(name in body for name in WINDOW_NAMES):
            return base
        kind = _kind_of_base(companions, base, body)
        return _read_short(kind, body, base=base, old=old, now=now, key=key)
    for field in companions:
        _check_companion(field, form)
    if body[form] is None:
        for name in WINDOW_NAMES:
            if body.get(name) is not None:
                raise InvalidInput(name, "goes with a trigger, and none is given")
        return None
    if form != "trigger":
        return _read_short(TRIGGERS.of_head(form), body, base=base, old=old, now=now, key=key)
    full = read_mapping(body["trigger"], "trigger")
    type_name = full.get("type")
    if not isinstance(type_name, str) or type_name not in TRIGGERS.by_name:
        raise InvalidInput("trigger.type", f"must be one of {TRIGGERS.names()}")
    kind = TRIGGERS.by_name[type_name]
    given = {field: value for field, value in full.items() if field not in {"type", *WINDOW_NAMES}}
    values = kind.options.read_all(given, _path_of_full)
    for field in WINDOW_NAMES:
        if field in body:
            raise InvalidInput(field, "goes with a short form; write it into the trigger")
    window = WINDOW.read_given(full, _path_of_full)
    return _make(kind, values, _path_of_full, window, now=now, old=old, key=key)


def _check_companion(field: str, form: str) -> None:
    """Refuse a field of a short form beside another form."""
    owners, heads = TRIGGERS.by_field[field], TRIGGERS.owners(field)
    if form not in {owner.head for owner in owners}:
        elsewhere = owners[0].options.get(owners[0].short[field]).elsewhere
        message = (
            f"goes with {heads} only, not with {form}; remove {field}, or give {heads} instead of {form}"
        )
        raise InvalidInput(field, "; ".join(filter(None, (message, elsewhere))))


def _kind_of_base(companions: list[str], base: Trigger | None, body: Mapping[str, Any]) -> TriggerType:
    """Return the type of the trigger that a body changes without naming its head."""
    kind = type_of(base)
    for field in companions:
        if kind is None or kind not in TRIGGERS.by_field[field]:
            heads = TRIGGERS.owners(field)
            raise InvalidInput(
                field, f"goes with {heads}, which is not given; add {heads}, or remove {field}"
            )
    if kind is None:
        bound = next(name for name in WINDOW_NAMES if name in body)
        raise InvalidInput(bound, f"goes with a trigger; give one of {', '.join([*TRIGGERS.heads, *HEADS])}")
    return kind


def _read_short(
    kind: TriggerType,
    body: Mapping[str, Any],
    *,
    base: Trigger | None,
    old: Trigger | None,
    now: datetime,
    key: str,
) -> Trigger:
    is_same = base is not None and type_of(base) is kind
    values: Mapping[str, Any] = kind.read_short(body, _raw(base) if is_same else None)
    window = WINDOW.read_given(body, str)
    if is_same and isinstance(base, Windowed):
        window = {name: getattr(base, name) for name in WINDOW_NAMES} | window
    if is_same and not kind.short.keys() & body.keys():
        if _loses_anchor(base, window.get("starts_at"), now):
            return _make(
                kind, {**values, "anchor": None}, kind.path_of_short, window, now=now, old=None, key=key
            )
        return _windowed(kind, _raw_trigger(base), kind.path_of_short, window, now=now, old=old)
    return _make(kind, values, kind.path_of_short, window, now=now, old=old, key=key)


def _raw(trigger: Trigger | None) -> Trigger | None:
    return trigger.raw if isinstance(trigger, Windowed) else trigger


def _loses_anchor(old: Trigger | None, starts_at: datetime | None, now: datetime) -> bool:
    """Say whether a trigger has its anchor from a start that is yet to come, and will not be its start any more."""
    if not isinstance(old, Windowed) or old.starts_at is None or not now < old.starts_at != starts_at:
        return False
    plain = store_trigger(old)
    return plain is not None and is_anchor_derived(plain, now=now)


def _raw_trigger(trigger: Trigger | None) -> Trigger:
    raw = _raw(trigger)
    assert raw is not None
    return raw


def _make(
    kind: TriggerType,
    values: Mapping[str, Any],
    path: Path,
    window: Mapping[str, datetime | None],
    *,
    now: datetime,
    old: Trigger | None,
    key: str,
) -> Trigger:
    starts_at = window.get("starts_at")
    old_raw = None if _loses_anchor(old, starts_at, now) else _raw(old)
    if starts_at is not None:
        values = kind.beginning(values, starts_at)
    begins = now if starts_at is None else max(now, starts_at - _TICK)
    trigger = with_slots(kind.make(values, path, now=begins, old=old_raw), key, path)
    if not kind.is_own and trigger != old_raw:
        wrong = check_instants(trigger, now=begins)
        if wrong is not None:
            raise InvalidInput("trigger", f"a trigger of the type {kind.name!r} cannot be used: {wrong}")
    return _windowed(kind, trigger, path, window, now=now, old=old)


def _windowed(
    kind: TriggerType,
    raw: Trigger,
    path: Path,
    window: Mapping[str, datetime | None],
    *,
    now: datetime,
    old: Trigger | None,
) -> Trigger:
    given = {name: instant for name, instant in window.items() if instant is not None}
    if not given:
        return raw
    if not kind.is_recurring:
        raise InvalidInput(
            path(next(iter(given))), f"goes with a trigger that recurs, not with {kind.head or kind.name}"
        )
    made = Windowed(raw, **given)
    if made.starts_at is not None and made.ends_at is not None and made.ends_at < made.starts_at:
        raise InvalidInput(path("ends_at"), f"must not be before starts_at, {made.starts_at.isoformat()}")
    if isinstance(raw, AfterEnd):  # which fires there will be, nobody knows
        if made != old and made.ends_at is not None and made.ends_at < now:
            raise InvalidInput(path("ends_at"), f"leaves no fire from {now.isoformat()} on")
        return made
    if made != old and made.next_after(now) is None:
        following = Windowed(raw, starts_at=made.starts_at).next_after(now)
        first = "" if following is None else f": the first would be at {following.isoformat()}"
        name = "ends_at" if made.ends_at is not None else "starts_at"
        raise InvalidInput(path(name), f"leaves no fire from {now.isoformat()} on{first}")
    return made


def is_anchor_derived(plain: Mapping[str, Any], *, now: datetime) -> bool:
    """Say whether a trigger in full form, made at `now`, has the anchor that it would have if none had been given."""
    kind = TRIGGERS.by_name.get(plain["type"])
    if kind is None or "anchor" not in plain:
        return False
    window = WINDOW.load({name: plain.get(name) for name in WINDOW_NAMES})
    try:
        values = {**kind.options.load(plain), "anchor": None}
        made = _make(kind, values, str, window, now=now, old=None, key="")
    except InvalidInput:
        return False
    return made == load_trigger(plain)


def with_slots(trigger: Trigger, key: str, path: Path = str) -> Trigger:
    """Return a trigger with what a key chooses for the hashed slots in its cron expressions.

    Raises:
        InvalidInput: what is chosen never fires.
    """

    def choose(part: Trigger) -> Trigger:
        try:
            return part.with_slots(key) if isinstance(part, Cron) else part
        except CronError as error:
            raise InvalidInput(path("expression"), error.message) from None

    return change_parts(trigger, choose)


def slot_key(tenant: str, name: str) -> str:
    """Return what the hashed slots of a job depend on."""
    return f"{tenant}\0{name}"


def _path_of_full(name: str) -> str:
    return f"trigger.{name}"
