"""The audit is sealed by the owner of shard 0, and what was changed behind its back is found."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from mainspring.core.actors import Actor, ActorKind
from mainspring.core.audit import KeptEntry
from mainspring.engine.scheduling import sealer
from mainspring.engine.usecases import audit_trail
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

ANN = Actor(name="ann", kind=ActorKind.LOCAL, action="upsert_queue")


@pytest.fixture
async def runtime() -> Any:
    async with ManualRuntime(FunctionRegistry()) as runtime:
        yield runtime


async def tick(runtime: ManualRuntime) -> float:
    return await runtime.services["sealer"].tick(runtime.clock.now())


async def write(runtime: ManualRuntime, count: int = 1) -> None:
    for number in range(count):
        await runtime.client.queues.put("mail", {"max_queued": number + 1}, by=ANN)


async def sealed(runtime: ManualRuntime, *counts: int) -> None:
    for count in counts:
        await write(runtime, count)
        await tick(runtime)
        runtime.clock.advance(10)


def tables(runtime: ManualRuntime) -> Any:
    return runtime.store._tables.audit  # type: ignore[attr-defined]


async def test_a_seal_is_logged(runtime: ManualRuntime) -> None:
    with capture_logs() as logs:
        assert await tick(runtime) == sealer.PERIOD
        await write(runtime, 2)
        assert await tick(runtime) == sealer.PERIOD
        assert await tick(runtime) == sealer.PERIOD
    [seal] = await runtime.store.list_seals(after=0, limit=9)
    told = {"seal": 1, "entries": 2, "digest": seal.digest.hex()}
    assert [line for line in logs if line["event"] == "audit_sealed"] == [
        {"event": "audit_sealed", "log_level": "info", **told}
    ]


async def test_what_is_more_than_a_seal_covers_follows_at_once(
    runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer, "BATCH", 2)
    await write(runtime, 3)
    assert await tick(runtime) == 0.0
    assert await tick(runtime) == sealer.PERIOD
    assert [seal.entries for seal in await runtime.store.list_seals(after=0, limit=9)] == [2, 1]


async def test_a_node_without_the_first_shard_seals_nothing(runtime: ManualRuntime) -> None:
    await write(runtime)
    ownership = runtime.services["sealer"]._ownership  # type: ignore[attr-defined]
    ownership.epochs = {shard: epoch for shard, epoch in ownership.epochs.items() if shard}
    assert await tick(runtime) == sealer.PERIOD
    assert await runtime.store.list_seals(after=0, limit=9) == []


async def test_an_intact_audit_is_checked_page_by_page(
    runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sealed(runtime, 2, 1, 3)
    trail = runtime.client.audit
    whole = await trail.verify()
    seals = await runtime.store.list_seals(after=0, limit=9)
    assert (whole.seals, whole.entries, whole.last, whole.broken) == (3, 6, seals[2], None)
    assert whole.is_complete
    for name, most in (("SEALS", 2), ("ENTRIES", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(audit_trail, name, most)
            found, after = [await trail.verify()], 0
            while not found[-1].is_complete:
                last = found[-1].last
                assert last is not None
                assert last.id > after
                after = last.id
                found.append(await trail.verify(after=after))
        assert sum(one.entries for one in found) == 6, name
        assert sum(one.seals for one in found) == 3, name
        assert found[-1].last == seals[2], name


@pytest.mark.parametrize(
    ("fields", "is_found"),
    [
        ({"actor": "bob"}, True),
        ({"after": {"max_queued": 9}}, True),
        ({"before": None}, True),
        ({"request_id": "r"}, True),
        ({"subject_name": "x"}, True),
        ({}, False),
    ],
)
async def test_a_changed_entry_breaks_its_seal(
    runtime: ManualRuntime, fields: dict[str, Any], is_found: bool
) -> None:
    await sealed(runtime, 2, 2)
    kept = tables(runtime).entries[3]
    tables(runtime).entries[3] = KeptEntry(kept.id, replace(kept.entry, **fields), kept.seal)
    check = await runtime.client.audit.verify()
    if not is_found:
        assert check.broken is None
        return
    assert check.broken is not None
    assert (check.seals, check.broken.seal.id, check.broken.entry_id) == (1, 2, 3)
    assert check.broken.reason == "an entry that it covers was changed"


async def test_an_entry_that_was_taken_out_or_added_breaks_its_seal(runtime: ManualRuntime) -> None:
    await sealed(runtime, 2, 2)
    entries = tables(runtime).entries
    gone = entries.pop(1)
    check = await runtime.client.audit.verify()
    assert check.broken is not None
    assert check.broken.reason == "it covers 2 entries, and 1 have it"
    entries[:0] = [gone, KeptEntry(99, gone.entry, 1)]
    check = await runtime.client.audit.verify()
    assert check.broken is not None
    assert check.broken.reason == "it covers 2 entries, and 3 have it"


async def test_a_seal_that_was_taken_out_breaks_the_chain(runtime: ManualRuntime) -> None:
    await sealed(runtime, 1, 1, 1)
    audit = tables(runtime)
    seals = list(audit.seals)
    del audit.seals[1]
    check = await runtime.client.audit.verify()
    assert check.broken is not None
    assert (check.seals, check.broken.seal.id) == (1, 3)
    assert "does not follow seal 1" in check.broken.reason
    audit.seals[:] = [seals[0], replace(seals[1], previous=b"x"), seals[2]]
    check = await runtime.client.audit.verify()
    assert check.broken is not None
    assert check.broken.seal.id == 2


async def test_what_need_not_be_kept_any_more_breaks_nothing(runtime: ManualRuntime) -> None:
    await sealed(runtime, 1, 1)
    runtime.clock.advance(3 * 86400)
    await sealed(runtime, 1)
    now = runtime.clock.now()
    await runtime.store.prune_history(before=now, limit=100, audit_before=now - timedelta(days=2))
    check = await runtime.client.audit.verify()
    assert (check.broken, check.entries) == (None, 1)


async def test_a_check_over_http(runtime: ManualRuntime) -> None:
    await sealed(runtime, 2)
    async with client_of(api_of(runtime)) as http:
        found = (await http.get("/api/v1/audit/verify")).json()
        [seal] = await runtime.store.list_seals(after=0, limit=9)
        assert found == {
            "is_intact": True,
            "seals": 1,
            "entries": 2,
            "last_seal": 1,
            "digest": seal.digest.hex(),
            "broken": None,
            "next": None,
        }
        tables(runtime).entries.pop()
        found = (await http.get("/api/v1/audit/verify")).json()
        assert (found["is_intact"], found["last_seal"]) == (False, None)
        assert found["broken"] == {"seal": 1, "entry_id": 1, "reason": "it covers 2 entries, and 1 have it"}
        answer = await http.get("/api/v1/audit/verify", params={"after": "x"})
        assert answer.json()["errors"][0]["field"] == "after"
