"""The audit is sealed by the owner of shard 0, and what was changed behind its back is found."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from mainspring.core.actors import Actor, ActorKind
from mainspring.core.audit import KeptEntry
from mainspring.core.audit_seals import AuditCheck, AuditSeal, ExpectedSeal, digest_of
from mainspring.engine.scheduling import sealer
from mainspring.engine.usecases import audit_trail
from mainspring.engine.usecases.audit_trail import AuditTrail
from mainspring.registry import FunctionRegistry
from mainspring.testing.factories import START
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


async def verify(runtime: ManualRuntime, **given: Any) -> AuditCheck:
    return await runtime.client.audit.verify(now=runtime.clock.now(), **given)


def remade(seal: AuditSeal, **fields: Any) -> AuditSeal:
    """Return a seal that says something else, with a digest that fits."""
    other = replace(seal, **fields)
    digest = digest_of(other.id, other.at, other.entries, other.content, other.previous)
    return replace(other, digest=digest)


async def fault(runtime: ManualRuntime, **given: Any) -> tuple[int, int, str]:
    """Return how many seals fit, the one that is broken, and why."""
    check = await verify(runtime, **given)
    assert check.broken is not None
    assert check.is_complete
    return check.seals, check.broken.seal_id, check.broken.reason


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
    whole = await verify(runtime)
    seals = await runtime.store.list_seals(after=0, limit=9)
    assert (whole.seals, whole.entries, whole.last, whole.broken) == (3, 6, seals[2], None)
    assert whole.is_complete
    for name, most in (("SEALS", 2), ("ENTRIES", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(audit_trail, name, most)
            found, after = [await verify(runtime)], 0
            while not found[-1].is_complete:
                last = found[-1].last
                assert last is not None
                assert last.id > after
                after = last.id
                found.append(await verify(runtime, after=after))
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
    check = await verify(runtime)
    if not is_found:
        assert check.broken is None
        return
    assert check.broken is not None
    assert (check.seals, check.broken.seal_id, check.broken.entry_id) == (1, 2, 3)
    assert check.broken.reason == "an entry that it covers was changed"


async def test_an_entry_that_was_taken_out_or_added_breaks_its_seal(runtime: ManualRuntime) -> None:
    await sealed(runtime, 2, 2)
    entries = tables(runtime).entries
    gone = entries.pop(1)
    check = await verify(runtime)
    assert check.broken is not None
    assert check.broken.reason == "it covers 2 entries, and 1 have it"
    entries[:0] = [gone, KeptEntry(99, gone.entry, 1)]
    check = await verify(runtime)
    assert check.broken is not None
    assert check.broken.reason == "it covers 2 entries, and 3 have it"


async def test_a_seal_that_was_taken_out_breaks_the_chain(runtime: ManualRuntime) -> None:
    await sealed(runtime, 1, 1, 1)
    audit = tables(runtime)
    seals = list(audit.seals)
    del audit.seals[1]
    check = await verify(runtime)
    assert check.broken is not None
    assert (check.seals, check.broken.seal_id) == (1, 3)
    assert "does not follow seal 1" in check.broken.reason
    audit.seals[:] = [seals[0], replace(seals[1], previous=b"x"), seals[2]]
    check = await verify(runtime)
    assert check.broken is not None
    assert check.broken.seal_id == 2


async def test_what_need_not_be_kept_any_more_breaks_nothing(runtime: ManualRuntime) -> None:
    await sealed(runtime, 1, 1)
    runtime.clock.advance(3 * 86400)
    await sealed(runtime, 1)
    now = runtime.clock.now()
    await runtime.store.prune_history(before=now, limit=100, audit_before=now - timedelta(days=2))
    trail = AuditTrail(runtime.store, keep=timedelta(days=2))
    check = await trail.verify(now=now)
    assert (check.broken, check.entries) == (None, 1)
    assert check.checked_from == now - timedelta(days=1.8)


def age(runtime: ManualRuntime, *places: int) -> None:
    """Give seals an instant of long ago, and take out what they cover."""
    audit = tables(runtime)
    for place in places:
        seal = audit.seals[place]
        audit.seals[place] = replace(seal, at=seal.at - timedelta(days=900))
        audit.entries = [kept for kept in audit.entries if kept.seal != seal.id]


@pytest.mark.parametrize(("places", "broken"), [([2], 3), ([0], 1), ([0, 1, 2], 1)])
async def test_a_seal_does_not_get_older(runtime: ManualRuntime, places: list[int], broken: int) -> None:
    await sealed(runtime, 1, 1, 1)
    tables(runtime).kept_from = runtime.clock.now() - timedelta(days=800)
    age(runtime, *places)
    assert await fault(runtime) == (
        broken - 1,
        broken,
        "its instant, its number of entries or its place in the chain was changed",
    )


@pytest.mark.parametrize("fields", [{"entries": 2}, {"content": b"x"}, {"at": START}])
async def test_what_a_seal_says_is_in_its_digest(runtime: ManualRuntime, fields: dict[str, Any]) -> None:
    await sealed(runtime, 1, 1)
    audit = tables(runtime)
    audit.seals[1] = replace(audit.seals[1], **fields)
    seals, broken, _ = await fault(runtime)
    assert (seals, broken) == (1, 2)


async def test_a_seal_is_not_older_than_the_one_before(runtime: ManualRuntime) -> None:
    await sealed(runtime, 1, 1)
    audit = tables(runtime)
    audit.seals[1] = remade(audit.seals[1], at=audit.seals[0].at - timedelta(microseconds=1))
    assert await fault(runtime) == (1, 2, "it was set before seal 1")


async def test_the_horizon_alone_does_not_say_what_may_be_gone(runtime: ManualRuntime) -> None:
    await sealed(runtime, 1, 1)
    runtime.clock.advance(40 * 86400)
    await sealed(runtime, 1)
    now = runtime.clock.now()
    await runtime.store.prune_history(before=now, limit=100, audit_before=now)
    seals, broken, reason = await fault(runtime)
    assert (seals, broken) == (0, 3)
    assert reason.startswith("the audit begins with it, at ")
    assert reason.endswith(": what was before was taken out")


@pytest.mark.parametrize("horizon", [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)])
async def test_no_horizon_is_too_far_away(runtime: ManualRuntime, horizon: datetime) -> None:
    await sealed(runtime, 1)
    tables(runtime).kept_from = horizon
    now = runtime.clock.now()
    check = await verify(runtime)
    assert check.broken is None
    assert check.checked_from == min(horizon, now - timedelta(days=400)) + timedelta(days=1)


@pytest.mark.parametrize("gone", [1, 2])
async def test_a_missing_start_is_noticed(runtime: ManualRuntime, gone: int) -> None:
    await sealed(runtime, 1, 1, 1)
    audit = tables(runtime)
    del audit.seals[:gone]
    audit.entries = [kept for kept in audit.entries if kept.seal > gone]
    seals, broken, reason = await fault(runtime)
    assert (seals, broken) == (0, gone + 1)
    assert "what was before was taken out" in reason


async def test_a_start_that_was_made_anew_is_noticed(runtime: ManualRuntime) -> None:
    await sealed(runtime, 1, 1)
    audit = tables(runtime)
    audit.seals = [remade(audit.seals[0], previous=b"x" * 32)]
    seals, broken, reason = await fault(runtime)
    assert (seals, broken) == (0, 1)
    assert "what was before was taken out" in reason


async def test_an_old_seal_is_the_start_of_what_is_kept(runtime: ManualRuntime) -> None:
    await sealed(runtime, 3, 1)
    runtime.clock.advance(500 * 86400)
    await sealed(runtime, 2)
    now = runtime.clock.now()
    await runtime.store.prune_history(before=now, limit=100, audit_before=now - timedelta(days=400))
    assert [seal.id for seal in tables(runtime).seals] == [2, 3]
    check = await verify(runtime)
    assert (check.broken, check.seals, check.entries) == (None, 2, 2)


@pytest.mark.parametrize("seal", [999_999, 0, -1])
@pytest.mark.parametrize("others", [0, 2])
async def test_an_entry_with_a_seal_that_is_not_there_is_noticed(
    runtime: ManualRuntime, seal: int, others: int
) -> None:
    await sealed(runtime, *[1] * others)
    await write(runtime)
    audit = tables(runtime)
    audit.entries[-1] = KeptEntry(audit.entries[-1].id, audit.entries[-1].entry, seal)
    assert await fault(runtime) == (others, seal, "there is no such seal")


async def test_a_chain_that_is_gone_is_noticed(runtime: ManualRuntime) -> None:
    await sealed(runtime, 1, 1)
    tables(runtime).seals.clear()
    assert await fault(runtime) == (0, 1, "there is no such seal")


async def test_a_new_entry_does_not_hide_behind_an_old_seal(runtime: ManualRuntime) -> None:
    await sealed(runtime, 3)
    runtime.clock.advance(500 * 86400)
    now = runtime.clock.now()
    await runtime.store.prune_history(before=now, limit=100, audit_before=now - timedelta(days=400))
    await write(runtime)
    audit = tables(runtime)
    audit.entries = [KeptEntry(kept.id, kept.entry, 1) for kept in audit.entries]
    assert await fault(runtime) == (0, 1, "an entry has it that was written later")


async def test_a_missing_end_is_noticed_by_a_seal_that_is_expected(runtime: ManualRuntime) -> None:
    await sealed(runtime, 1, 1, 1)
    audit = tables(runtime)
    expected = ExpectedSeal(id=3, digest=audit.seals[2].digest)
    assert (await verify(runtime, expected=expected)).broken is None
    other = replace(expected, digest=audit.seals[1].digest)
    seals, broken, reason = await fault(runtime, expected=other)
    assert (seals, broken) == (3, 3)
    assert (
        reason == f"its digest is {expected.digest.hex()}, and not the one expected: the chain was made again"
    )
    del audit.seals[2], audit.entries[2]
    assert (await verify(runtime)).broken is None  # the page says so
    told = "there is no such seal: it was taken out, or is older than what is kept"
    assert await fault(runtime, expected=expected) == (2, 3, told)
    missing = replace(expected, id=1, digest=b"")
    del audit.seals[0], audit.entries[0]
    assert (await fault(runtime, expected=missing))[1] == 2  # the start is missing, too


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
            "checked_from": "1970-01-02T00:00:00Z",
            "broken": None,
            "next": None,
        }
        digest = seal.digest.hex()
        for expect, is_intact in (
            (f"1={digest}", True),
            (f"1={digest[::-1]}", False),
            (f"2={digest}", False),
        ):
            answer = await http.get("/api/v1/audit/verify", params={"expect": expect})
            assert answer.json()["is_intact"] is is_intact, expect
        for expect in ("1", f"x={digest}", f"1={digest}0", f"={digest}"):
            answer = await http.get("/api/v1/audit/verify", params={"expect": expect})
            assert answer.json()["errors"][0]["field"] == "expect"
        tables(runtime).entries.pop()
        found = (await http.get("/api/v1/audit/verify")).json()
        assert (found["is_intact"], found["last_seal"]) == (False, None)
        assert found["broken"] == {"seal": 1, "entry_id": 1, "reason": "it covers 2 entries, and 1 have it"}
        answer = await http.get("/api/v1/audit/verify", params={"after": "x"})
        assert answer.json()["errors"][0]["field"] == "after"
