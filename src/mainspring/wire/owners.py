"""What an app's code defines, as it goes over HTTP."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.wire.views import Instant, JobIdText


class OwnerBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs an app's code defines."""

    jobs: Annotated[list[str], Meta(description="The names of all of its jobs, which are stored already.")]
    prune: Annotated[
        bool,
        Meta(
            description="Delete what it defined and does not any more, unless a live worker has the function."
        ),
    ] = False


class OwnedJobView(Struct, kw_only=True):
    """A job that its owner's code does not define any more."""

    job_id: JobIdText
    name: str
    next_fire_time: Instant | None
    is_served: Annotated[bool, Meta(description="A live worker has its function.")]


class TakenJobView(Struct, kw_only=True):
    """A job that belonged to another owner until now."""

    name: str
    owner: str


class OwnerView(Struct, kw_only=True):
    """What became of an owner's jobs."""

    owner: str
    missing: Annotated[
        list[str], Meta(description="Names of jobs that do not exist: store them, and ask again.")
    ]
    taken: list[TakenJobView]
    undefined: Annotated[list[OwnedJobView], Meta(description="At most 1,000.")]
    deleted: Annotated[list[OwnedJobView], Meta(description="At most 1,000.")]
