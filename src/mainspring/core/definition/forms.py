"""Short and full forms: which trigger and which target a body means."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainspring.core.fields import encode_payload, one_of, read_mapping
from mainspring.core.model import INLINE_LIMIT, Target
from mainspring.core.options import Path
from mainspring.core.targets import TARGETS, TargetType, unknown_type
from mainspring.core.triggers import BUILT_IN, TRIGGERS, Trigger, TriggerType, check_instants, type_of
from mainspring.core.types import Types
from mainspring.errors import InvalidInput

_SMALL = 4096
"""Characters of a text; some of them fit in any case."""


def replacing_only(patch: Mapping[str, Any], full: str, types: Types[Any]) -> Mapping[str, Any]:
    """Return a patch without the nulls that only remove what it replaces, like `cron` in `{"cron": null, "every": 7}`.

    If every form that the patch gives is null, the first one stays.

    Args:
        full: the field of the full form, `trigger` or `target`.
    """
    given = [name for name in (full, *types.heads) if name in patch]
    kept = [name for name in given if patch[name] is not None] or given[:1]
    if not kept:
        return patch
    removed = {name for name in given if name not in kept}
    removed.update(
        name
        for name in types.companions
        if name in patch and patch[name] is None and types.by_field[name].head not in kept
    )
    return {name: value for name, value in patch.items() if name not in removed}


def read_trigger(
    body: Mapping[str, Any], *, base: Trigger | None, old: Trigger | None, now: datetime
) -> Trigger | None:
    """Return the trigger of a body in short or full form; `base` where it gives none.

    Args:
        base: the trigger that a patch changes: a short form keeps of it what it does not name.
        old: the trigger that is replaced; an instant that has passed may be repeated.

    Raises:
        InvalidInput: more than one is given, or the one given is wrong.
    """
    form = one_of(body, "trigger", *TRIGGERS.heads)
    companions = [field for field in TRIGGERS.companions if field in body]
    if form is None:
        if not companions:
            return base
        kind = TRIGGERS.by_field[companions[0]]
        if base is None or type_of(base) is not kind:
            raise InvalidInput(companions[0], f"goes with {kind.head}, which is not given")
        return _read_short_trigger(kind, body, base=base, old=old, now=now)
    for field in companions:
        owner = TRIGGERS.by_field[field]
        if owner.head != form:
            elsewhere = owner.options.get(owner.short[field]).elsewhere
            raise InvalidInput(field, "; ".join(filter(None, (f"goes with {owner.head} only", elsewhere))))
    if body[form] is None:
        return None
    if form != "trigger":
        return _read_short_trigger(TRIGGERS.by_field[form], body, base=base, old=old, now=now)
    full = read_mapping(body["trigger"], "trigger")
    name = full.get("type")
    if not isinstance(name, str) or name not in TRIGGERS.by_name:
        raise InvalidInput("trigger.type", f"must be one of {TRIGGERS.names()}")
    kind = TRIGGERS.by_name[name]
    given = {field: value for field, value in full.items() if field != "type"}
    values = kind.options.read_all(given, _path_of_full("trigger"))
    return _make_trigger(kind, values, _path_of_full("trigger"), now=now, old=old)


def _read_short_trigger(
    kind: TriggerType, body: Mapping[str, Any], *, base: Trigger | None, old: Trigger | None, now: datetime
) -> Trigger:
    values = kind.read_short(body, base if base is not None and type_of(base) is kind else None)
    return _make_trigger(kind, values, kind.path_of_short, now=now, old=old)


def _make_trigger(
    kind: TriggerType, values: Mapping[str, Any], path: Path, *, now: datetime, old: Trigger | None
) -> Trigger:
    trigger = kind.make(values, path, now=now, old=old)
    if kind.name not in BUILT_IN and trigger != old:
        wrong = check_instants(trigger, now=now)
        if wrong is not None:
            raise InvalidInput("trigger", f"a trigger of the type {kind.name!r} cannot be used: {wrong}")
    return trigger


def read_target(
    body: Mapping[str, Any], *, types: frozenset[str] | None, functions: frozenset[str] | None
) -> Target | None:
    """Return the target of a body in short or full form; None when it gives none.

    Raises:
        InvalidInput: more than one is given, or the one given is wrong.
    """
    given = [name for name in ("target", *TARGETS.heads) if name in body]
    if len(given) > 1:
        raise InvalidInput(given[1], f"a job has one target; {given[0]!r} is given already")
    for field in TARGETS.companions:
        if field in body and TARGETS.by_field[field].head not in given:
            raise InvalidInput(field, f"goes with {TARGETS.by_field[field].head} only")
    if not given:
        return None
    form = given[0]
    if form != "target":
        kind = TARGETS.by_field[form]
        if types is not None and kind.name not in types:
            raise InvalidInput(form, unknown_type(kind.name, types))
        return _make_target(kind, kind.read_short(body), kind.path_of_short, functions, form)
    full = read_mapping(body["target"], "target")
    name = full.get("type")
    if not isinstance(name, str) or name not in TARGETS.by_name or (types is not None and name not in types):
        raise InvalidInput("target.type", unknown_type(name, types))
    kind, path = TARGETS.by_name[name], _path_of_full("target")
    values = kind.options.read_all({field: value for field, value in full.items() if field != "type"}, path)
    return _make_target(kind, values, path, functions, "target")


def _make_target(
    kind: TargetType, values: Mapping[str, Any], path: Path, functions: frozenset[str] | None, form: str
) -> Target:
    params = kind.make(values, path, functions=functions)
    if not _is_small(params) and (size := len(encode_payload(params))) > INLINE_LIMIT:
        raise InvalidInput(form, f"has {size} bytes; at most {INLINE_LIMIT} fit, put large data elsewhere")
    return Target(kind.name, params)


def _is_small(params: Mapping[str, Any]) -> bool:
    """Say whether the size of parameters is beyond doubt: most are a short text or two."""
    return all(len(value) <= _SMALL if isinstance(value, str) else not value for value in params.values())


def _path_of_full(field: str) -> Path:
    return lambda name: f"{field}.{name}"
