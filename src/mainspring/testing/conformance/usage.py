"""Usage: minutes of each process, which add up, and hours that only the owner of shard 0 writes."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.usage import BOUNDS, Times, Usage, UsageLine, UsageStep
from mainspring.ports.store import Store
from mainspring.testing.factories import START, own_shards

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
FAR = 10_000 * HOUR


def line(minutes: int = 0, tenant: str = "shop", queue: str = "mail", *, fired: int = 1) -> UsageLine:
    """Make a line with something in each of its figures."""
    counts = tuple(range(len(BOUNDS) + 1))
    usage = Usage(
        submitted=1,
        fired=fired,
        started=2,
        succeeded=3,
        failed=4,
        cancelled=5,
        retried=6,
        lags=Times(counts=counts, total=0.125),
        durations=Times(counts=counts[::-1], total=1234.5),
    )
    return UsageLine(at=START + minutes * MINUTE, tenant=tenant, queue=queue, usage=usage)


async def listed(
    store: Store,
    step: UsageStep = UsageStep.MINUTE,
    *,
    since: datetime = START - FAR,
    until: datetime = START + FAR,
    tenant: str | None = None,
) -> list[UsageLine]:
    """Return lines, usually all of a step."""
    return await store.list_usage(step, since=since, until=until, tenant=tenant)


class UsageIsKept:
    """What processes have counted is there as they counted it."""

    __test__ = False

    async def test_a_line_is_as_it_was_written(self, store: Store) -> None:
        await store.write_usage([line(queue="ä'\"")], process="a")
        assert await listed(store) == [line(queue="ä'\"")]
        assert await listed(store, UsageStep.HOUR) == []

    async def test_lines_of_several_processes_add_up(self, store: Store) -> None:
        await store.write_usage([line(1), line(0), line(0, queue="pdf")], process="a")
        await store.write_usage([line(0), line(0, tenant="bank")], process="b")
        both = UsageLine(at=START, tenant="shop", queue="mail", usage=line().usage + line().usage)
        of_shop = [both, line(queue="pdf"), line(1)]
        assert await listed(store) == [line(tenant="bank"), *of_shop]
        assert await listed(store, tenant="shop") == of_shop
        assert await listed(store, tenant="nobody") == []

    async def test_a_minute_that_is_written_again_is_replaced(self, store: Store) -> None:
        await store.write_usage([line(fired=1), line(1)], process="a")
        await store.write_usage([line(fired=7)], process="a")
        assert await listed(store) == [line(fired=7), line(1)]
        await store.write_usage([], process="a")

    async def test_times_are_from_the_first_to_before_the_last(self, store: Store) -> None:
        await store.write_usage([line(minutes) for minutes in range(4)], process="a")
        found = await listed(store, since=START + MINUTE, until=START + 3 * MINUTE)
        assert found == [line(1), line(2)]

    async def test_hours_are_written_by_the_owner_of_shard_0(self, store: Store) -> None:
        epochs = await own_shards(store)
        assert await store.write_usage_hours([line(), line(60)], epochs=epochs)
        assert await store.write_usage_hours([line(fired=9)], epochs=epochs)
        old = {0: epochs[0] - 1}
        assert not await store.write_usage_hours([line(fired=11)], epochs=old)
        assert not await store.write_usage_hours([line(fired=11)], epochs={})
        assert await listed(store, UsageStep.HOUR) == [line(fired=9), line(60)]
        assert await listed(store, UsageStep.HOUR, tenant="bank") == []

    async def test_the_oldest_are_removed_first(self, store: Store) -> None:
        epochs = await own_shards(store)
        await store.write_usage([line(minutes) for minutes in range(5)], process="a")
        await store.write_usage_hours([line(60 * hours) for hours in range(3)], epochs=epochs)
        until = {"minutes_before": START + 3 * MINUTE, "hours_before": START + HOUR}
        assert await store.prune_usage(**until, epochs={0: epochs[0] - 1}, limit=2) == 0
        assert await store.prune_usage(**until, epochs=epochs, limit=2) == 3
        assert await listed(store) == [line(2), line(3), line(4)]
        assert await listed(store, UsageStep.HOUR) == [line(60), line(120)]
        assert await store.prune_usage(**until, epochs=epochs, limit=2) == 1
        assert await store.prune_usage(**until, epochs=epochs, limit=2) == 0
        assert await listed(store) == [line(3), line(4)]
