"""Requests of the HTTP API. Jobs are read by `core.definition`; the struct here documents their fields."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

Duration = Annotated[float | str, Meta(description="Seconds, or text like `90s`, `5m`, `1h30m`.")]
Delay = Annotated[
    float | str,
    Meta(description="Not before so long from the store's now; like `90s`, or seconds. Not with `run_at`."),
]
Name = Annotated[str, Meta(min_length=1, max_length=200, examples=["daily-report"])]


class _JobFields(Struct, kw_only=True):
    callback_url: Annotated[str | UnsetType, Meta(examples=["https://example.com/hooks/report"])] = UNSET
    function: str | UnsetType = UNSET
    command: list[str] | str | UnsetType = UNSET
    shell: bool | UnsetType = UNSET
    target: dict[str, Any] | UnsetType = UNSET
    cron: Annotated[str | UnsetType | None, Meta(examples=["0 9 * * *"])] = UNSET
    tz: Annotated[str | UnsetType, Meta(examples=["Europe/Berlin"])] = UNSET
    dst: str | UnsetType = UNSET
    every: Duration | UnsetType | None = UNSET
    run_at: Annotated[str | UnsetType | None, Meta(description="ISO 8601 with an offset.")] = UNSET
    trigger: dict[str, Any] | UnsetType | None = UNSET
    payload: Any | UnsetType = UNSET
    priority: Annotated[str | UnsetType, Meta(examples=["HIGH"])] = UNSET
    queue: str | UnsetType = UNSET
    labels: list[str] | UnsetType = UNSET
    retry: dict[str, Any] | UnsetType = UNSET
    misfire: dict[str, Any] | str | UnsetType = UNSET
    overlap: str | UnsetType = UNSET
    delivery: str | UnsetType = UNSET
    timeout: Duration | UnsetType = UNSET
    soft_timeout: Duration | UnsetType | None = UNSET
    jitter: Duration | UnsetType = UNSET
    expires_after: Duration | UnsetType | None = UNSET
    poison_limit: int | UnsetType = UNSET


class JobBody(_JobFields, kw_only=True):
    """A job: a name, exactly one target, at most one trigger, and policies. Short forms or full forms, never both."""

    name: Name


class JobPatch(_JobFields, kw_only=True):
    """What is to change, as a merge patch (RFC 7396) of the fields of a job; null takes a field away."""

    name: Name | UnsetType = UNSET


class SubmitBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A submission of one run; everything may be left out."""

    payload: Any | UnsetType = UNSET
    run_at: Annotated[datetime | None, Meta(description="Not before this instant.")] = None
    delay: Delay | None = None
    priority: str | None = None


class BulkSubmitItem(Struct, kw_only=True, forbid_unknown_fields=True):
    """One submission of many: the job by id or by name."""

    job_id: str | None = None
    job: str | None = None
    payload: Any | UnsetType = UNSET
    run_at: Annotated[datetime | None, Meta(description="Not before this instant.")] = None
    delay: Delay | None = None
    priority: str | None = None
    idempotency_key: str | None = None
