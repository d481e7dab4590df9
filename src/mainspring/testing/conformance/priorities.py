"""Priority classes are kept by name."""

from __future__ import annotations

import asyncio

from mainspring.core.model import Priority
from mainspring.core.priorities import PriorityClass
from mainspring.ports.store import Store

NIGHT = PriorityClass(name="night", tier=Priority.LOW, preemptible=True)
URGENT = PriorityClass(name="urgent", tier=Priority.HIGH, preempts=True)


class PriorityClasses:
    """Classes are written, listed by name and deleted."""

    __test__ = False

    async def test_a_new_store_has_no_classes(self, store: Store) -> None:
        assert await store.list_priority_classes() == []

    async def test_classes_are_listed_by_name(self, store: Store) -> None:
        assert await store.write_priority_classes([URGENT, NIGHT]) == [True, True]
        assert await store.list_priority_classes() == [NIGHT, URGENT]

    async def test_a_class_is_replaced(self, store: Store) -> None:
        await store.write_priority_classes([NIGHT])
        other = PriorityClass(name="night", tier=Priority.MEDIUM, preempts=True)
        assert await store.write_priority_classes([other, URGENT]) == [False, True]
        assert await store.list_priority_classes() == [other, URGENT]

    async def test_the_last_word_on_a_class_counts(self, store: Store) -> None:
        first = PriorityClass(name="night", tier=Priority.MEDIUM)
        assert await store.write_priority_classes([first, NIGHT]) == [True, True]
        assert await store.list_priority_classes() == [NIGHT]

    async def test_a_class_is_deleted_once(self, store: Store) -> None:
        await store.write_priority_classes([NIGHT, URGENT])
        assert await store.delete_priority_classes(["none", "night"]) == [False, True]
        assert await store.delete_priority_classes(["night"]) == [False]
        assert await store.list_priority_classes() == [URGENT]

    async def test_nothing_written_or_deleted_changes_nothing(self, store: Store) -> None:
        assert await store.write_priority_classes([]) == []
        assert await store.delete_priority_classes([]) == []

    async def test_one_of_several_writers_of_a_class_finds_it_new(self, store: Store) -> None:
        orders = [[NIGHT, URGENT], [URGENT, NIGHT]] * 4
        found = await asyncio.gather(*(store.write_priority_classes(order) for order in orders))
        assert sum(are_new.count(True) for are_new in found) == 2
        assert await store.list_priority_classes() == [NIGHT, URGENT]
