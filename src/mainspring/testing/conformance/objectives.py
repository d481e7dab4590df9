"""Objectives are kept, replaced and deleted; usage is found by queues."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.objectives import Objective, make_objective
from mainspring.core.usage import Usage, UsageLine, UsageStep
from mainspring.ports.store import Store
from mainspring.testing.factories import at


def _make(name: str = "quick", tenant: str = "shop") -> Objective:
    """Return an objective that is not stored yet."""
    return make_objective(tenant, name, {"kind": "start", "queue": "mail", "objective": 0.999, "bound": "5s"})


class ObjectivesAreKept:
    """Objectives."""

    __test__ = False

    async def test_an_objective_is_as_it_was_put(self, store: Store) -> None:
        assert await store.put_objective(_make()) is True
        assert await store.list_objectives("shop") == [_make()]
        other = make_objective("shop", "quick", {"kind": "success", "objective": 0.99, "days": 7})
        assert await store.put_objective(other) is False
        assert await store.list_objectives("shop") == [other]

    async def test_objectives_are_listed_by_tenant_and_name(self, store: Store) -> None:
        for name, tenant in (("b", "shop"), ("a", "shop"), ("z", "bank")):
            await store.put_objective(_make(name, tenant))
        assert await store.list_objectives("shop") == [_make("a"), _make("b")]
        assert await store.list_objectives("other") == []
        assert await store.list_objectives() == [_make("z", "bank"), _make("a"), _make("b")]

    async def test_an_objective_is_deleted_once(self, store: Store) -> None:
        await store.put_objective(_make())
        await store.put_objective(replace(_make(), tenant="bank"))
        assert await store.delete_objective("shop", "quick") is True
        assert await store.delete_objective("shop", "quick") is False
        assert await store.list_objectives() == [replace(_make(), tenant="bank")]

    async def test_usage_is_found_by_queues(self, store: Store) -> None:
        lines = [
            UsageLine(at=at(0), tenant=tenant, queue=queue, usage=Usage(failed=1))
            for tenant, queue in (("bank", "a"), ("shop", "a"), ("shop", "b"), ("shop", "c"))
        ]
        await store.write_usage(lines, process="p")
        found = await store.list_usage(
            UsageStep.MINUTE, since=at(0), until=at(60), tenant="shop", queues=["a", "c", "x"]
        )
        assert found == [lines[1], lines[3]]
        found = await store.list_usage(UsageStep.MINUTE, since=at(0), until=at(60), queues=["a"])
        assert found == lines[:2]
        assert await store.list_usage(UsageStep.MINUTE, since=at(0), until=at(60), queues=[]) == []
