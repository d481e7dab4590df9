"""The versions of a job, as they go over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.core.definition import plain_from_spec
from mainspring.core.definition.changes import compare_definitions
from mainspring.core.model import JobSpec
from mainspring.wire.views import Instant


class ChangeView(Struct, kw_only=True):
    """A field of a job that differs."""

    field: Annotated[str, Meta(description="Its path in the full form, like `retry.max_retries`.")]
    before: Any
    after: Any


class VersionView(Struct, kw_only=True):
    """A definition that a job has or had."""

    version: int
    created_at: Annotated[Instant, Meta(description="When it was stored.")]
    changes: Annotated[list[ChangeView], Meta(description="What differs from the version before.")]
    definition: Annotated[dict[str, Any], Meta(description="The whole job, in full form.")]


class VersionPage(Struct):
    """A page of versions, the newest first; `next` is the value of `before` for the page that follows."""

    items: list[VersionView]
    next: int | None


def view_changes(before: JobSpec | None, after: JobSpec, *, made_at: datetime) -> list[ChangeView]:
    """Show what differs between two definitions; nothing if there was none before.

    Args:
        made_at: when the newer one was made.
    """
    if before is None:
        return []
    return [
        ChangeView(field=change.field, before=change.before, after=change.after)
        for change in compare_definitions(plain_from_spec(before), plain_from_spec(after), made_at=made_at)
    ]
