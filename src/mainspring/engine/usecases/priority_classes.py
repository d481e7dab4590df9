"""Use cases on priority classes, and what looks up the classes that jobs, runs and backfills name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from mainspring.core.actors import Actor
from mainspring.core.audit import AuditEntry, entries, show_settings
from mainspring.core.model import Priority
from mainspring.core.priorities import (
    CLASS_OPTIONS,
    PriorityClass,
    class_named,
    copy_class,
    find_class,
    read_class,
)
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import NotFound
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store


class ClassReader(Protocol):
    """What knows the classes: a store, also within the transaction of a caller."""

    async def list_priority_classes(self) -> list[PriorityClass]:
        """Return all classes."""
        ...


async def copy_classes(
    store: Store, bodies: Sequence[Mapping[str, Any]], *, are_numbered: bool = False
) -> list[Mapping[str, Any]]:
    """Return the bodies of jobs with the values of the classes that they name as priorities.

    Args:
        are_numbered: the field of the error begins with the place of the body.

    Raises:
        InvalidInput: there is no such class.
    """
    classes: Sequence[PriorityClass] = ()
    if any(class_named(body.get("priority")) is not None for body in bodies):
        classes = await store.list_priority_classes()
    return [
        copy_class(body, classes, f"[{index}].priority" if are_numbered else "priority")
        for index, body in enumerate(bodies)
    ]


async def find_tier(store: Store, name: str) -> Priority:
    """Return the tier of a class, which a field `priority` names.

    Raises:
        InvalidInput: there is no such class.
    """
    return find_class(name, await store.list_priority_classes(), "priority").tier


async def with_tiers(
    store: ClassReader, submissions: Sequence[Submission], *, are_numbered: bool = False
) -> list[Submission]:
    """Return submissions with the tiers of the classes that they name as priorities.

    Args:
        are_numbered: the field of the error begins with the place of the submission.

    Raises:
        InvalidInput: there is no such class.
    """
    classes = await store.list_priority_classes()
    made = []
    for index, submission in enumerate(submissions):
        tier = submission.priority
        if isinstance(tier, str):
            tier = find_class(tier, classes, f"[{index}].priority" if are_numbered else "priority").tier
        made.append(replace(submission, priority=tier))
    return made


class PriorityClasses:
    """Names for a tier, and for who takes slots from whom. They hold for all tenants."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def get(self, name: str) -> PriorityClass:
        """Return a class.

        Raises:
            NotFound: there is none of that name.
        """
        for one in await self._store.list_priority_classes():
            if one.name == name:
                return one
        raise NotFound("priority class", name)

    async def list_page(self, *, after: str | None = None, limit: int = 100) -> list[PriorityClass]:
        """Return a page of classes by name."""
        classes = await self._store.list_priority_classes()
        return [one for one in classes if after is None or one.name > after][:limit]

    async def put(
        self, name: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> tuple[PriorityClass, bool]:
        """Set a class. Return it, and whether it is new. Jobs that were written before keep what they copied.

        Raises:
            InvalidInput: a value is wrong. Nothing is stored.
        """
        made = read_class(name, body)
        audit: tuple[AuditEntry, ...] = ()
        if by is not None:
            old = [one for one in await self._store.list_priority_classes() if one.name == name]
            audit = entries(
                by,
                auditing.shared("priority_class", name),
                at=self._clock.now(),
                before=show_settings(CLASS_OPTIONS, old[0]) if old else None,
                after=show_settings(CLASS_OPTIONS, made),
            )
        [is_new] = await self._store.write_priority_classes([made], audit=audit)
        return made, is_new

    async def delete(self, name: str, *, by: Actor | None = None) -> None:
        """Delete a class. Jobs that were written before keep what they copied.

        Raises:
            NotFound: there is none of that name.
        """
        audit = entries(by, auditing.shared("priority_class", name), at=self._clock.now())
        [is_deleted] = await self._store.delete_priority_classes([name], audit=audit)
        if not is_deleted:
            raise NotFound("priority class", name)
