"""What the writes of a job answer: the job, and what was understood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, defstruct

from mainspring.core.model import Job
from mainspring.core.serving import Offers
from mainspring.core.triggers import Trigger
from mainspring.core.triggers.words import explain_trigger, tell_count
from mainspring.wire.views import JobView, job_fields

if TYPE_CHECKING:

    class JobWritten(JobView, kw_only=True):
        """A job that was just written, and what was understood."""

        explanation: str | None
        schedule_warnings: list[str]

else:
    # Like the view that it extends. Servers of earlier releases send neither field.
    JobWritten = defstruct(
        "JobWritten",
        [
            ("explanation", Annotated[str | None, Meta(description="When it fires, in words.")], None),
            (
                "schedule_warnings",
                Annotated[list[str], Meta(description="What may surprise about when it fires.")],
                msgspec.field(default_factory=list),
            ),
        ],
        bases=(JobView,),
        module=__name__,
        namespace={"__doc__": "A job that was just written, and what was understood."},
        kw_only=True,
    )


def view_written(job: Job, trigger: Trigger | None, offers: Offers, warnings: list[str]) -> JobWritten:
    """Show a job that was just written, with what was understood.

    Args:
        warnings: what may surprise about its schedule.
    """
    return JobWritten(
        **job_fields(job, trigger, offers),
        explanation=f"{explain_trigger(job.spec.trigger)}{tell_count(job.spec.max_fires)}",
        schedule_warnings=warnings,
    )
