"""Requests of the HTTP API. `core.definition` reads jobs; the structs here document their fields."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct
from msgspec import field as struct_field

from mainspring.core.definition.schema import body_schemas

Delay = Annotated[
    float | str,
    Meta(
        description="Start this long from now, by the store's clock: seconds, or like `90s`. Not with `run_at`.",
        examples=["90s"],
    ),
]
RunAt = Annotated[
    float | str,
    Meta(
        description="The earliest instant to start: ISO 8601 with an offset, local time with a zone like "
        "`2026-12-01 09:00 Europe/Berlin`, seconds since 1970, or like `in 10m`.",
        examples=["2026-12-01T09:00:00+01:00"],
    ),
]
Priority = Annotated[str, Meta(examples=["HIGH"])]


def _job_struct(name: str, doc: str, *, is_name_required: bool) -> type[Struct]:
    """Make a struct that documents a job's fields; `core.definition` reads them."""
    fields: list[Any] = []
    for field, schema in body_schemas().items():
        kind = Annotated[Any, Meta(extra_json_schema=schema)]
        fields.append((field, kind) if field == "name" and is_name_required else (field, kind, UNSET))
    return defstruct(name, fields, module=__name__, namespace={"__doc__": doc}, kw_only=True)


JobBody: Any = _job_struct(
    "JobBody",
    "A job: a name, exactly one target, at most one trigger, and policies. Short forms or full forms, never both.",
    is_name_required=True,
)
JobPatch: Any = _job_struct(
    "JobPatch",
    "The fields of a job to change, as a merge patch (RFC 7396). Null removes a field.",
    is_name_required=False,
)
PreviewBody: Any = _job_struct(
    "PreviewBody",
    "A job, or only what says when it fires: a trigger in short or full form, and other fields that matter to it.",
    is_name_required=False,
)
WorkflowCheckBody: Any = _job_struct(
    "WorkflowCheckBody",
    "A job with `workflow`. It may leave the name out.",
    is_name_required=False,
)


class SubmitBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A submission of one run. All fields are optional."""

    payload: Any | UnsetType = UNSET
    run_at: RunAt | None = None
    delay: Delay | None = None
    priority: Priority | None = None


class RedriveBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """How to run a run again. All fields are optional."""

    definition: Annotated[
        str,
        Meta(
            description="`newest`: as its job is now; `kept`: as it was for that run.",
            extra_json_schema={"enum": ["newest", "kept"]},
        ),
    ] = "newest"
    payload: Annotated[Any | UnsetType, Meta(description="Instead of the one that the run had.")] = UNSET
    begin: Annotated[
        str | list[str] | None,
        Meta(
            description=(
                "Of a workflow, where it is taken up again. `failed`: what had succeeded is taken over, and all "
                "else runs. `start`: all of it runs. A list: these steps run again though they succeeded, and all "
                "that follows. Null: `failed`, but `start` with a payload."
            )
        ),
    ] = struct_field(default=None, name="from")


class BulkSubmitItem(Struct, kw_only=True, forbid_unknown_fields=True):
    """One submission of many. It names its job by id or by name."""

    job_id: str | None = None
    job: str | None = None
    payload: Any | UnsetType = UNSET
    run_at: RunAt | None = None
    delay: Delay | None = None
    priority: Priority | None = None
    idempotency_key: str | None = None
