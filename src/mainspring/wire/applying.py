"""What becomes of jobs that are to have given definitions, as it goes over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, defstruct

from mainspring.wire.bodies import JobBody
from mainspring.wire.owners import OwnerView
from mainspring.wire.versions import ChangeView
from mainspring.wire.views import JobIdText


class AppliedView(Struct, kw_only=True):
    """A job that is to have a definition."""

    name: str
    job_id: Annotated[JobIdText | None, Meta(description="null if it does not exist yet.")] = None
    outcome: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": ["created", "changed", "unchanged"]}, description="What becomes of it."
        ),
    ]
    owner: Annotated[str | None, Meta(description="Whose code or files define it until now.")]
    changes: Annotated[list[ChangeView], Meta(description="What differs from what it was.")]
    schedule_warnings: Annotated[
        list[str],
        Meta(description="What may surprise about when it fires; of a job that stays as it is, nothing."),
    ] = []


class OwnedNamesBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The jobs that an owner's code or files define."""

    owner: str
    jobs: Annotated[list[str], Meta(description="The names of all of its jobs.")]


class _DefinitionsBody(Struct, kw_only=True, forbid_unknown_fields=True):
    owners: Annotated[
        list[OwnedNamesBody],
        Meta(
            description="Whose jobs are which. Other jobs of these owners are noted as not defined any more."
        ),
    ] = []
    prune: Annotated[
        bool,
        Meta(description="Delete those other jobs, unless a live worker has the function."),
    ] = False
    paused: Annotated[list[str], Meta(description="Names of jobs to pause, if they are new.")] = []


DefinitionsBody: Any = defstruct(
    "DefinitionsBody",
    [("jobs", list[JobBody])],  # made from the options of jobs, so it is no type to a type checker
    bases=(_DefinitionsBody,),
    module=__name__,
    namespace={"__doc__": "Definitions of jobs, and whose they are."},
    kw_only=True,
    forbid_unknown_fields=True,
)


class UnreadDefinitions(_DefinitionsBody, kw_only=True, forbid_unknown_fields=True):
    """The same, with jobs that are not read yet."""

    jobs: list[dict[str, Any]]


class DefinitionsView(Struct, kw_only=True):
    """What became of jobs, and of the other jobs of their owners."""

    jobs: list[AppliedView]
    owners: list[OwnerView]
