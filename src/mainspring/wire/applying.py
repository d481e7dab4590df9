"""What becomes of jobs that are to have given definitions, as it goes over HTTP."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.wire.versions import ChangeView


class AppliedView(Struct, kw_only=True):
    """A job that is to have a definition."""

    name: str
    outcome: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": ["created", "changed", "unchanged"]}, description="What becomes of it."
        ),
    ]
    owner: Annotated[str | None, Meta(description="Whose code or files define it until now.")]
    changes: Annotated[list[ChangeView], Meta(description="What differs from what it was.")]
