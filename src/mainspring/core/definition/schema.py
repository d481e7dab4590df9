"""The JSON schemas of a job's fields: what may be sent, and what is answered."""

from __future__ import annotations

from typing import Any

from mainspring.core.definition.limits import JOB_RATE
from mainspring.core.definition.options import NAME, OPTIONS
from mainspring.core.kinds import Schema
from mainspring.core.targets import TARGETS
from mainspring.core.triggers import TRIGGERS
from mainspring.core.triggers.reading import COMMON
from mainspring.core.triggers.windows import WINDOW


def body_schemas() -> dict[str, Schema]:
    """Return the schema of every field that a job may be sent with, short and full forms, in order."""
    schemas: dict[str, Schema] = {NAME.name: NAME.schema()}
    for target in TARGETS:
        schemas |= {field: option.schema() for field, option in target.short_options}
    schemas["target"] = _one_of("What to run, in full form.", TARGETS, can_be_null=False)
    for trigger in TRIGGERS:
        for field, option in trigger.short_options:
            schema = option.schema()
            schemas[field] = _or_null(schema) if field == trigger.head else schema
    schemas |= {option.name: option.schema() for option in COMMON}
    schemas["trigger"] = _one_of("When to fire, in full form; null is never.", TRIGGERS, can_be_null=True)
    # The name with the unit says the same as the plain name: one of them is described.
    return schemas | {option.name: option.schema() for option in (*OPTIONS, JOB_RATE)}


def view_schemas() -> dict[str, Schema]:
    """Return the schema of every field of a job's full form, in the order in which it is answered."""
    kept: Schema = {
        "type": "object",
        "properties": {"type": {"type": "string"}},
        "required": ["type"],
    }
    return {
        "target": {**kept, "description": f"What it runs: {TARGETS.names()}, or another type."},
        "trigger": _or_null({**kept, "description": f"When it fires: {TRIGGERS.names()}, or another type."}),
        **{option.key: option.stored_schema() for option in OPTIONS},
    }


def _one_of(description: str, types: Any, *, can_be_null: bool) -> Schema:
    forms: list[Schema] = []
    for one in types:
        form = {**one.options.schema(type=one.name), "description": one.summary}
        if getattr(one, "is_recurring", False):
            form["properties"] |= {option.name: option.schema() for option in WINDOW}
        forms.append(form)
    if can_be_null:
        forms.append({"type": "null"})
    return {"anyOf": forms, "description": description}


def _or_null(schema: Schema) -> Schema:
    described: Schema = {name: schema[name] for name in ("description", "examples") if name in schema}
    bare = {name: value for name, value in schema.items() if name not in described}
    return {"anyOf": [bare, {"type": "null"}], **described}
