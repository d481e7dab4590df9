"""A definition as a person would write it: short forms where they say all, and nothing that is a default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.definition.options import OPTIONS
from mainspring.core.definition.policies import Group
from mainspring.core.definition.retry import RETRY
from mainspring.core.definition.steps import STEP_OPTIONS
from mainspring.core.definition.workflows import NO_RETRY
from mainspring.core.options import REQUIRED, Option, Options
from mainspring.core.targets import TARGETS, WORKFLOW
from mainspring.core.triggers import TRIGGERS
from mainspring.core.triggers.base import WINDOW_NAMES
from mainspring.core.types import Types


def shorten_definition(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes the same job as a full form, with as few fields as that takes.

    Only in a payload, and in what a target sends, may a value be null.
    """
    short: dict[str, Any] = {"name": plain["name"]}
    short |= _shorten_target(plain["target"])
    if plain["trigger"] is not None:
        short |= _shorten_type(_without_null(plain["trigger"]), TRIGGERS, "trigger")
    given = _given(OPTIONS, plain)
    if WORKFLOW in short and plain["retry"] == RETRY.store(NO_RETRY):
        del given["retry"]  # as it is of every workflow
    return short | given


def _shorten_target(plain: Mapping[str, Any]) -> dict[str, Any]:
    if plain["type"] == WORKFLOW and "steps" in plain:
        others = {field: value for field, value in plain.items() if field not in {"type", "steps"}}
        return {WORKFLOW: {**others, "steps": [_shorten_step(step) for step in plain["steps"]]}}
    return _shorten_type(plain, TARGETS, "target")


def _shorten_step(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": plain["name"],
        **(_shorten_type(plain["target"], TARGETS, "target") if "target" in plain else {}),
        **_given(STEP_OPTIONS, plain),
    }


def _shorten_type(plain: Mapping[str, Any], types: Types[Any], field: str) -> dict[str, Any]:
    """Return a trigger or target in short form if that says all, or else in full form."""
    kind = types.by_name.get(plain["type"])
    if kind is None:
        return {field: dict(plain)}
    window = {name: plain[name] for name in WINDOW_NAMES if field == "trigger" and name in plain}
    given = _given(kind.options, {name: value for name, value in plain.items() if name not in window})
    fields = {option.name: short for short, option in kind.short_options}
    if (
        kind.head is not None
        and kind.options.get(kind.short[kind.head]).name in given.keys() <= fields.keys()
    ):
        return {fields[name]: value for name, value in given.items()} | window
    return {field: {"type": kind.name, **given, **window}}


def _given(options: Options, plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options whose values are not their defaults, by name."""
    return {
        option.name: _written(option, plain[option.key])
        for option in options
        if option.key in plain and not _is_default(option, plain[option.key])
    }


def _is_default(option: Option, stored: Any) -> bool:
    return option.default is not REQUIRED and bool(option.store(option.default) == stored)


def _written(option: Option, stored: Any) -> Any:
    """Return a value as a person would write it."""
    kind = option.kind
    if stored is None:
        return None
    if isinstance(kind, Group):
        return _given(kind.options, stored)
    shown = kind.show(kind.load(stored))
    return _without_null(shown) if kind.is_nested else shown


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_null(item) for name, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list | tuple) else value
