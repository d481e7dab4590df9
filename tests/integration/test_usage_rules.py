"""Rules that judge by usage and by the disk, on the three stores: what is wrong fires, what is mended ends."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.core.alert_rules import DEFAULT_RULES
from mainspring.core.alerts import RuleKind
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.storage import Disk, Storage
from mainspring.core.usage import BOUNDS, Times, Usage, UsageLine, UsageStep
from mainspring.engine.scheduling.usage_reading import RecentUsage
from mainspring.errors import TookTooLong
from mainspring.ports.store import Store
from mainspring.ports.telemetry import Distribution
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from tests.integration.test_watchdog import Bench, bench

__all__ = ["bench"]
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def times_of(values: list[float]) -> Times:
    distribution = Distribution(BOUNDS)
    distribution.add_all(values)
    return Times(counts=distribution.read().counts, total=sum(values))


def line(at: datetime, usage: Usage, *, queue: str = "mail", tenant: str = "shop") -> UsageLine:
    return UsageLine(at=at, tenant=tenant, queue=queue, usage=usage)


async def write(bench: Bench, usage: Usage, **key: str) -> None:
    """Store what a process has counted within the minute that is."""
    minute = UsageStep.MINUTE.start_of(bench.runtime.clock.now())
    await bench.store.write_usage([line(minute, usage, **key)], process="p")


async def write_hours(bench: Bench, usage: Usage, *ago: int) -> None:
    hour = UsageStep.HOUR.start_of(bench.runtime.clock.now())
    lines = [line(hour - hours * HOUR, usage) for hours in ago]
    epochs = {0: bench.runtime.ownership.epochs[0]}
    assert await bench.store.write_usage_hours(lines, epochs=epochs)


async def test_start_lag(bench: Bench) -> None:
    await bench.rule("start_lag")
    assert await bench.look() == []
    await write(bench, Usage(lags=times_of([0.1] * 50 + [100.0])))
    assert await bench.look(60) == [("firing", "start_lag", "queue:mail")]
    assert bench.post.messages[0].tenant == "shop"
    assert await bench.look(3 * 60) == []
    assert await bench.look(2 * 60) == [("resolved", "start_lag", "queue:mail")]


async def test_failure_rate(bench: Bench) -> None:
    await bench.rule("failure_rate")
    await write(bench, Usage(succeeded=80, failed=20), queue="fine")
    await write(bench, Usage(succeeded=79, failed=21))
    assert await bench.look(60) == [("firing", "failure_rate", "queue:mail")]
    await write(bench, Usage(succeeded=10))
    assert await bench.look(60) == [("resolved", "failure_rate", "queue:mail")]


async def test_failure_rate_counts_runs_whose_worker_was_lost(bench: Bench) -> None:
    """Also those that another process gave out, or this one before its start."""
    await bench.rule("failure_rate")
    job_id = await bench.job(queue="mail", delivery="at_most_once")
    worker = await bench.runtime.worker(slots=30)
    for _ in range(20):
        await bench.submit(job_id)
    leases = [lease for _ in range(20) for lease in await worker.claim()]
    assert len(leases) == 20
    bench.runtime.gateway._book.take([lease.run_id for lease in leases])
    for _ in range(8):
        bench.runtime.clock.advance(5)
        await bench.runtime.tick("reaper")
    await bench.runtime.tick("usage_recorder")
    assert await bench.look(60) == [("firing", "failure_rate", "queue:mail")]
    assert bench.post.messages[0].tenant == "default"


async def test_an_alert_that_fires_goes_on_with_half_as_many_runs(bench: Bench) -> None:
    await bench.rule("failure_rate")
    await write(bench, Usage(failed=10))
    bench.runtime.clock.advance(5 * 60)
    await write(bench, Usage(failed=10))
    assert await bench.look(60) == [("firing", "failure_rate", "queue:mail")]
    assert await bench.look(6 * 60) == []  # ten runs are left within the period
    assert await bench.look(5 * 60) == [("resolved", "failure_rate", "queue:mail")]


async def test_duration_spike(bench: Bench) -> None:
    await bench.rule("duration_spike")
    await bench.runtime.tick("watchdog")
    await write_hours(bench, Usage(durations=times_of([0.9] * 100)), 2, 30)
    await write(bench, Usage(durations=times_of([4.0] * 60)))
    assert await bench.look(5 * 60) == [("firing", "duration_spike", "queue:mail")]
    assert await bench.look(11 * 60) == [("resolved", "duration_spike", "queue:mail")]


async def test_budget(bench: Bench) -> None:
    await bench.rule("budget")
    await bench.client.objectives.put("shop", "good", {"kind": "success", "objective": 0.99})
    await write(bench, Usage(succeeded=85, failed=15))
    assert await bench.look(60) == [("firing", "budget", "slo:good")]
    assert bench.post.messages[0].tenant == "shop"
    assert await bench.look(6 * 60) == [("resolved", "budget", "slo:good")]
    await write(bench, Usage(succeeded=85, failed=15))
    assert await bench.look(60) == [("firing", "budget", "slo:good")]
    await bench.client.objectives.delete("shop", "good")
    assert await bench.look(60) == [("resolved", "budget", "slo:good")]


async def test_a_slow_burn(bench: Bench) -> None:
    await bench.rule("budget_slow", kind="budget", period="6h", threshold=6)
    await bench.client.objectives.put("shop", "good", {"kind": "success", "objective": 0.99})
    await bench.runtime.tick("watchdog")
    await write_hours(bench, Usage(succeeded=930, failed=70), 3)
    await write(bench, Usage(succeeded=93, failed=7))
    assert await bench.look(5 * 60) == [("firing", "budget_slow", "slo:good")]


async def test_forecast(bench: Bench) -> None:
    await bench.rule("forecast")
    await bench.runtime.worker(slots=10)
    await bench.runtime.tick("watchdog")
    # 9,000 runs an hour of 3.9 s each take 9.75 slots.
    await write_hours(bench, Usage(submitted=9000, succeeded=9000, durations=Times(total=35_100.0)), 1, 2)
    assert await bench.look(9 * 60) == []  # what is known is looked at for ten minutes
    assert await bench.look(60) == [("firing", "forecast", "queue:mail")]
    assert bench.post.messages[0].tenant == ALL_TENANTS
    await bench.runtime.worker(slots=10)
    assert await bench.look(600) == [("resolved", "forecast", "queue:mail")]


async def test_without_a_channel_nothing_is_expected(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = count_days(bench, monkeypatch)
    await bench.rule("forecast", channels=[])
    await bench.look(60)
    assert asked == []
    await bench.rule("forecast")
    await bench.look(60)
    assert asked


async def test_what_could_not_be_expected_is_asked_for_again_only_after_ten_minutes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.rule("forecast")
    asked = count_days(bench, monkeypatch, TookTooLong("too many hours"))
    for _ in range(3):
        await bench.look(60)
    assert len(asked) == 1
    await bench.look(7 * 60)
    assert len(asked) == 1
    await bench.look(60)
    assert len(asked) == 2


def count_days(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, trouble: Exception | None = None
) -> list[datetime]:
    """Note from when on whole days of hours are asked for, as only a forecast does; and perhaps refuse them."""
    asked: list[datetime] = []
    cls: type[Store] = type(bench.store)
    original = cls.list_usage

    async def note(
        store: Store, step: UsageStep, *, since: datetime, until: datetime, **given: Any
    ) -> list[UsageLine]:
        if step is UsageStep.HOUR and until - since > 6 * HOUR:
            asked.append(since)
            if trouble is not None:
                raise trouble
        return await original(store, step, since=since, until=until, **given)

    monkeypatch.setattr(cls, "list_usage", note)
    return asked


async def test_a_rule_of_a_tenant_judges_by_its_own_usage(bench: Bench) -> None:
    await bench.client.channels.put(
        "bank", "ops", {"kind": "webhook", "config": {"url": "https://x.example.com"}}
    )
    body = {"kind": "failure_rate", "channels": ["ops"], "threshold": 1}
    await bench.client.alert_rules.put("bank", "mine", body)
    await write(bench, Usage(failed=50))
    assert await bench.look(60) == []
    await write(bench, Usage(failed=50), tenant="bank")
    await bench.look(60)
    assert await bench.look(20) == [("firing", "mine", "queue:mail")]


async def test_disk(bench: Bench) -> None:
    storage = await bench.store.read_storage()
    await bench.rule("disk", threshold=100)
    expected = [] if storage.disk is None else [("firing", "disk", "disk")]
    assert await bench.look() == expected
    await bench.rule("disk", threshold=0)
    assert await bench.look() == ([] if storage.disk is None else [("resolved", "disk", "disk")])


async def test_a_disk_that_is_slow_changes_nothing_and_one_that_is_unknown_ends_the_alert(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Storage(size=1, history=1, disk=Disk("/data", free=1, size=100))

    async def read_storage(_: Store) -> Storage:
        return found

    monkeypatch.setattr(type(bench.store), "read_storage", read_storage)
    await bench.rule("disk")
    assert await bench.look() == [("firing", "disk", "disk")]
    found = Storage(size=1, history=1, is_disk_slow=True)
    assert await bench.look() == []
    found = Storage(size=1, history=1)
    assert await bench.look() == [("resolved", "disk", "disk")]


async def test_a_disk_that_is_slow_does_not_end_what_is_to_come(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.runtime.tick("watchdog")
    await write_hours(bench, Usage(submitted=9000, succeeded=9000), 1, 2)
    found = Storage(size=1, history=1, disk=Disk("/data", free=1, size=100))

    async def read_storage(_: Store) -> Storage:
        return found

    monkeypatch.setattr(type(bench.store), "read_storage", read_storage)
    await bench.rule("forecast")
    assert await bench.look() == [("firing", "forecast", "disk")]
    found = Storage(size=1, history=1, is_disk_slow=True)
    assert await bench.look(600) == []
    found = Storage(size=1, history=1)
    assert await bench.look(600) == [("resolved", "forecast", "disk")]


class CountingStore(MemoryStore):
    """Counts how often usage is asked for."""

    asked: list[tuple[UsageStep, datetime, datetime]]

    async def list_usage(
        self, step: UsageStep, *, since: datetime, until: datetime, **given: Any
    ) -> list[UsageLine]:
        self.asked.append((step, since, until))
        return await super().list_usage(step, since=since, until=until, **given)


async def test_usage_is_read_once_a_minute_and_only_what_is_new() -> None:
    clock = FakeClock()
    store = CountingStore(time=clock.now)
    store.asked = []
    recent = RecentUsage(store)
    first = await recent.read(clock.now())
    assert store.asked[0][1] == UsageStep.MINUTE.start_of(clock.now()) - HOUR
    store.asked = []
    assert await recent.read(clock.now() + timedelta(seconds=1)) is first
    assert store.asked == []
    clock.advance(60)
    at = UsageStep.MINUTE.start_of(clock.now())
    await store.write_usage([line(at, Usage(failed=1)), line(at - 3 * MINUTE, Usage(failed=2))], process="p")
    seen = await recent.read(clock.now())
    assert store.asked == [(UsageStep.MINUTE, at - 4 * MINUTE, at + MINUTE)]
    [key] = seen.keys
    assert seen.within(key, 10 * MINUTE, clock.now()).failed == 3
    clock.advance(60)
    assert (await recent.read(clock.now())).within(key, 10 * MINUTE, clock.now()).failed == 3
    clock.advance(7200)
    assert not (await recent.read(clock.now())).keys
    earlier = clock.now() - 2 * HOUR  # after a failover, what is known may be of a time to come
    assert (await recent.read(earlier)).within(key, HOUR, earlier).failed == 3


@pytest.mark.parametrize("kind", [RuleKind.START_LAG, RuleKind.FAILURE_RATE, RuleKind.DURATION_SPIKE])
async def test_without_such_rules_nothing_is_read(
    bench: Bench, kind: RuleKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {
        RuleKind.START_LAG,
        RuleKind.FAILURE_RATE,
        RuleKind.DURATION_SPIKE,
        RuleKind.BUDGET,
        RuleKind.DISK,
        RuleKind.FORECAST,
    }
    for rule in DEFAULT_RULES.values():
        if rule.kind in kinds:
            await bench.client.alert_rules.put(ALL_TENANTS, rule.name, {"enabled": False})
    asked: list[str] = []
    cls: type[Store] = type(bench.store)

    async def refuse(*_: object, **__: object) -> None:
        asked.append("x")

    monkeypatch.setattr(cls, "list_usage", refuse)
    monkeypatch.setattr(cls, "read_storage", refuse)
    await bench.look(60)
    assert asked == []
    monkeypatch.undo()
    await bench.rule(kind.value)
    assert await bench.look(60) == []
