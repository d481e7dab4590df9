"""Decides which jobs an owner's code defines, and which it does not define any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mainspring.core.fields import kind
from mainspring.core.ids import JobId
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MAX_OWNER = 200


@value()
class OwnedJob:
    """A job as its owner sees it.

    Attributes:
        owner: None if no code has defined it.
        is_defined: False if its owner has said that it does not define it any more.
    """

    id: JobId
    name: str
    owner: str | None
    is_defined: bool


@value(kw_only=True)
class OwnerChange:
    """What changes when an owner says which jobs it defines.

    Attributes:
        defined: the jobs that belong to it from now on, or are defined again.
        undefined: its jobs that it does not define any more.
        taken: names of jobs that belonged to another owner, with that owner.
        missing: names of jobs that do not exist.
    """

    defined: tuple[JobId, ...]
    undefined: tuple[JobId, ...]
    taken: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]

    @property
    def is_change(self) -> bool:
        """Whether anything is other than before."""
        return bool(self.defined or self.undefined)


def judge_owner(owner: str, names: Collection[str], jobs: Iterable[OwnedJob]) -> OwnerChange:
    """Say what changes.

    Args:
        names: the jobs that the owner's code defines.
        jobs: the tenant's jobs that have one of these names, or belong to the owner.
    """
    wanted = frozenset(names)
    known = sorted(jobs, key=lambda job: job.id)
    return OwnerChange(
        defined=tuple(
            job.id for job in known if job.name in wanted and (job.owner != owner or not job.is_defined)
        ),
        undefined=tuple(
            job.id for job in known if job.name not in wanted and job.owner == owner and job.is_defined
        ),
        taken=tuple(
            (job.name, job.owner)
            for job in known
            if job.name in wanted and job.owner is not None and job.owner != owner
        ),
        missing=tuple(sorted(wanted - {job.name for job in known})),
    )


def read_owner(value: object, field: str) -> str:
    """Return an owner's name, such as `shop` or `shop.jobs:app`.

    Raises:
        InvalidInput: it is empty, too long, or holds what cannot be printed.
    """
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, not {kind(value)}")
    if not value.strip() or len(value) > MAX_OWNER or not value.isprintable():
        raise InvalidInput(field, f"must be 1 to {MAX_OWNER} printable characters, not {value[:60]!r}")
    if "/" in value or value in {".", ".."}:
        raise InvalidInput(field, f"must hold no '/', and be no step in a path, not {value!r}")
    return value
