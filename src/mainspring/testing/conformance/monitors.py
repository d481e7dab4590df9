"""Monitors are kept, found by their keys, and saved only as they were read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainspring.core.monitors import Monitor, Ping, PingKind, make_monitor, ping_of_exit, take_ping
from mainspring.ports.store import Store
from mainspring.testing.factories import at

KEY, OTHER = b"k" * 32, b"o" * 32
HOUR = timedelta(hours=1)


def make(name: str = "dump", tenant: str = "shop", **body: Any) -> Monitor:
    """Return a monitor that is not stored yet: its job begins each hour."""
    trigger = {"type": "interval", "every": "1h", "anchor": at(0).isoformat()}
    return make_monitor(tenant, name, {"trigger": trigger, "start_grace": "10m", **body}, now=at(1))


class Monitors:
    """Monitors."""

    __test__ = False

    async def test_a_monitor_is_as_it_was_added_and_saved(self, store: Store) -> None:
        monitor = make(tolerance=3, run_grace="2h")
        assert await store.add_monitor(monitor, key_hash=KEY) is True
        stored = await store.get_monitor("shop", "dump")
        assert stored is not None
        assert (stored.revision, stored.monitor) == (1, monitor)
        for ping in (
            ping_of_exit(3, at(3600.123456)),
            Ping(PingKind.START, at(3700)),
            ping_of_exit(0, at(3800)),
        ):
            stored = replace(stored, monitor=take_ping(stored.monitor, ping))
            assert await store.save_monitor(stored) is True
            stored = replace(stored, revision=stored.revision + 1)
            assert await store.get_monitor("shop", "dump") == stored

    async def test_a_monitor_is_found_by_its_key_and_its_name(self, store: Store) -> None:
        monitors = [make("b"), make("a"), make("a", tenant="bank")]
        for number, monitor in enumerate(monitors):
            assert await store.add_monitor(monitor, key_hash=bytes([number]) * 32) is True
        assert await store.list_monitors("shop") == [monitors[1], monitors[0]]
        assert await store.list_monitors("nobody") == []
        assert await store.list_all_monitors(limit=9) == [monitors[2], monitors[1], monitors[0]]
        assert await store.list_all_monitors(limit=2) == [monitors[2], monitors[1]]
        for number, monitor in enumerate(monitors):
            found = await store.find_monitor(bytes([number]) * 32)
            assert found is not None
            assert found.monitor == monitor
            assert await store.get_monitor(monitor.tenant, monitor.name) == found
        assert await store.find_monitor(KEY) is None
        assert await store.get_monitor("bank", "b") is None

    async def test_a_second_monitor_of_a_name_is_not_added(self, store: Store) -> None:
        assert await store.add_monitor(make(), key_hash=KEY) is True
        assert await store.add_monitor(make(tolerance=9), key_hash=OTHER) is False
        assert await store.find_monitor(OTHER) is None
        assert await store.list_monitors("shop") == [make()]

    async def test_what_was_decided_by_an_older_revision_is_not_saved(self, store: Store) -> None:
        await store.add_monitor(make(), key_hash=KEY)
        stored = await store.find_monitor(KEY)
        assert stored is not None
        first = replace(stored, monitor=take_ping(stored.monitor, ping_of_exit(0, at(3600))))
        second = replace(stored, monitor=take_ping(stored.monitor, ping_of_exit(1, at(3601))))
        assert await store.save_monitor(first) is True
        assert await store.save_monitor(second) is False
        assert await store.list_monitors("shop") == [first.monitor]

    async def test_what_was_decided_before_a_monitor_was_made_again_is_not_saved(self, store: Store) -> None:
        await store.add_monitor(make(), key_hash=KEY)
        stored = await store.find_monitor(KEY)
        assert stored is not None
        assert await store.delete_monitor("shop", "dump") is True
        assert await store.delete_monitor("shop", "dump") is False
        assert await store.find_monitor(KEY) is None
        assert await store.save_monitor(stored) is False
        await store.add_monitor(make(), key_hash=OTHER)
        late = replace(stored, monitor=take_ping(stored.monitor, ping_of_exit(1, at(3600))))
        assert await store.save_monitor(late) is False
        assert await store.list_monitors("shop") == [make()]

    async def test_overdue_monitors_are_those_that_may_be_broken(self, store: Store) -> None:
        late, later, over = make("late"), make("later", start_grace="20m"), make("over", tenant="bank")
        for number, monitor in enumerate([later, late, over]):
            await store.add_monitor(monitor, key_hash=bytes([number]) * 32)
        stored = await store.get_monitor("bank", "over")
        assert stored is not None
        failed = replace(stored, monitor=take_ping(stored.monitor, ping_of_exit(1, at(60))))
        assert await store.save_monitor(failed) is True
        due_at = late.due_at
        assert due_at is not None
        assert due_at == at(3600) + timedelta(minutes=10)
        assert await store.list_overdue_monitors(now=at(60), limit=10) == []
        assert await store.list_overdue_monitors(now=at(61), limit=10) == [failed.monitor]
        assert await store.list_overdue_monitors(now=due_at, limit=10) == [failed.monitor]
        assert await store.list_overdue_monitors(now=due_at + HOUR, limit=10) == [failed.monitor, late, later]
        assert await store.list_overdue_monitors(now=due_at + HOUR, limit=2) == [failed.monitor, late]
