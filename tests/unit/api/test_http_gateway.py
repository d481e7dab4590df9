"""A worker in another process reaches the engine over a real connection as if it were in the same one."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from httpx import AsyncClient

from mainspring.core.causes import Cause
from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import INLINE_LIMIT
from mainspring.core.outcomes import Failure
from mainspring.core.results import keep, leave_out, read_mark
from mainspring.core.states import RunState
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import InvalidInput, StoreUnavailable, Unreachable
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import (
    ClaimCall,
    ClaimReply,
    Ending,
    HandedBack,
    Registration,
    Report,
    ReportResult,
    Stopped,
)
from mainspring.sdk.http_gateway import HttpGateway
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.unit.api.serving import make_api, serving

REGISTRATION = Registration(name="far", host="elsewhere", pid=7, slots=50, functions=("work",))


@pytest.fixture
async def server(runtime: ManualRuntime) -> AsyncIterator[str]:
    async with serving(make_api(runtime)) as address:
        yield address


@pytest.fixture
async def far(server: str) -> AsyncIterator[HttpGateway]:
    gateway = HttpGateway(server)
    await gateway.start()
    yield gateway
    await gateway.close()


async def submit(runtime: ManualRuntime, count: int = 1, **body: object) -> list[RunId]:
    job = await runtime.client.jobs.create(TENANT, {"name": "a-job", "function": "work", **body})
    results = await runtime.client.runs.submit_many(TENANT, [Submission(job_id=job.id)] * count)
    return [result.run_id for result in results if result.run_id is not None]


async def claim(far: HttpGateway, session_id: SessionId, number: int = 1, limit: int = 50) -> ClaimReply:
    call = ClaimCall(session_id=session_id, number=number, limit=limit, wait=timedelta(0), is_idle=True)
    return await far.claim(call)


async def state(runtime: ManualRuntime, run_id: RunId) -> RunState:
    return (await runtime.client.runs.get(TENANT, run_id)).state


async def test_session_is_seen_with_what_it_offers_and_leaves(
    runtime: ManualRuntime, far: HttpGateway
) -> None:
    session = await far.register(REGISTRATION)
    assert session.beat_period == timedelta(seconds=10)
    ((facts, held),) = await runtime.client.workers()
    assert held == 0
    assert (facts.worker, facts.host, facts.pid, facts.functions) == ("far", "elsewhere", 7, ("work",))
    await far.leave(session.id)
    assert await runtime.client.workers() == []
    assert not (await far.beat(session.id, ())).is_session_live
    assert not (await claim(far, session.id)).is_session_live


async def test_leases_are_those_that_a_near_worker_gets(runtime: ManualRuntime, far: HttpGateway) -> None:
    body = {"payload": {"x": 1.5, "y": "ü"}, "retry": {"delay": 0.25}, "timeout": "90s", "priority": "HIGH"}
    await submit(runtime, 3, **body)
    session = await far.register(REGISTRATION)
    over_wire = await claim(far, session.id)
    again = await claim(far, session.id)
    near = await runtime.ask(
        ClaimCall(session_id=session.id, number=1, limit=50, wait=timedelta(0), is_idle=True)
    )
    assert len(over_wire.leases) == 3
    assert over_wire == again == near, "a repeated number gets the same answer, either way"


async def test_limit_of_nothing_claims_nothing(runtime: ManualRuntime, far: HttpGateway) -> None:
    await submit(runtime)
    session = await far.register(REGISTRATION)
    assert await claim(far, session.id, limit=0) == ClaimReply()


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (Success(result=b'{"a":1}', output="said"), RunState.SUCCEEDED),
        (Failure(error="broke", retry_after=timedelta(seconds=3)), RunState.RETRYING),
        (Failure(error="broke", is_retryable=False, result=b"[1]"), RunState.FAILED),
        (Failure(error="broke", cause=Cause(exceptions=("a.Broke", "builtins.OSError"))), RunState.RETRYING),
        (Failure(error="broke", cause=Cause(exceptions=("a.Wrong", "builtins.KeyError"))), RunState.FAILED),
        (Failure(error="late", is_timeout=True), RunState.FAILED),
        (Snooze(timedelta(seconds=60)), RunState.RETRYING),
        (HandedBack(was_started=False), RunState.PENDING),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_every_ending_takes_effect(
    runtime: ManualRuntime, far: HttpGateway, ending: Ending, expected: RunState
) -> None:
    (run_id,) = await submit(runtime, retry={"rules": [{"on": ["KeyError", "timeout"], "then": "fail"}]})
    session = await far.register(REGISTRATION)
    (lease,) = (await claim(far, session.id)).leases
    report = Report(run_id=run_id, token=lease.token, ending=ending)
    assert await far.report(session.id, (report,)) == (ReportResult.APPLIED,)
    assert await state(runtime, run_id) is expected


async def test_cancel_is_told_by_the_beat_and_sticks(runtime: ManualRuntime, far: HttpGateway) -> None:
    (run_id,) = await submit(runtime)
    session = await far.register(REGISTRATION)
    (lease,) = (await claim(far, session.id)).leases
    await runtime.client.runs.cancel(TENANT, run_id)
    key = (run_id, lease.token)
    assert (await far.beat(session.id, (key,))).cancel == (key,)
    await far.report(session.id, (Report(run_id=run_id, token=lease.token, ending=Stopped()),))
    assert await state(runtime, run_id) is RunState.CANCELLED


async def test_lease_of_a_claim_without_an_answer_is_kept_until_the_worker_says_that_it_came(
    runtime: ManualRuntime, far: HttpGateway
) -> None:
    (run_id,) = await submit(runtime)
    session = await far.register(REGISTRATION)
    await claim(far, session.id)
    for _ in range(3):
        await far.beat(session.id, (), answered=0)
    assert await state(runtime, run_id) is RunState.RUNNING
    for _ in range(2):
        await far.beat(session.id, (), answered=1)
    assert await state(runtime, run_id) is RunState.PENDING


async def test_stale_token_changes_nothing(runtime: ManualRuntime, far: HttpGateway) -> None:
    (run_id,) = await submit(runtime)
    session = await far.register(REGISTRATION)
    (lease,) = (await claim(far, session.id)).leases
    stale = (run_id, lease.token - 1)
    assert (await far.beat(session.id, (stale, (run_id, lease.token)))).lost == (stale,)
    late = Report(run_id=run_id, token=lease.token - 1, ending=Success())
    assert await far.report(session.id, (late,)) == (ReportResult.STALE,)
    unknown = Report(run_id=RunId(2**40), token=1, ending=Success())
    assert await far.report(session.id, (unknown,)) == (ReportResult.MISSING,)
    assert await state(runtime, run_id) is RunState.RUNNING


async def test_report_of_another_session_changes_nothing(runtime: ManualRuntime, far: HttpGateway) -> None:
    (run_id,) = await submit(runtime)
    session, stranger = await far.register(REGISTRATION), await far.register(REGISTRATION)
    (lease,) = (await claim(far, session.id)).leases
    for ending in (Success(result=b"1"), Failure(error="broke", is_retryable=False), Stopped()):
        false = Report(run_id=run_id, token=lease.token, ending=ending)
        assert await far.report(stranger.id, (false,)) == (ReportResult.STALE,)
    assert await state(runtime, run_id) is RunState.RUNNING
    own = Report(run_id=run_id, token=lease.token, ending=Success())
    assert await far.report(session.id, (own,)) == (ReportResult.APPLIED,)


async def test_many_large_results_arrive_although_one_body_could_not_hold_them(
    runtime: ManualRuntime, far: HttpGateway
) -> None:
    ids = await submit(runtime, 40)
    session = await far.register(REGISTRATION)
    leases = (await claim(far, session.id)).leases
    result = b'"' + b"r" * (INLINE_LIMIT - 2) + b'"'
    reports = tuple(
        Report(run_id=lease.run_id, token=lease.token, ending=Success(result=result, output="\x01" * 60_000))
        for lease in leases
    )
    assert await far.report(session.id, reports) == (ReportResult.APPLIED,) * 40
    runs = [await runtime.client.runs.get(TENANT, run_id) for run_id in ids]
    assert {(run.state, run.result) for run in runs} == {(RunState.SUCCEEDED, result)}
    assert await far.report(session.id, ()) == ()


async def test_result_over_the_limit_is_left_out_and_one_up_to_it_arrives_whole(
    runtime: ManualRuntime, far: HttpGateway
) -> None:
    sizes = (60_000, 60_001, INLINE_LIMIT, INLINE_LIMIT + 1)
    ids = await submit(runtime, len(sizes))
    session = await far.register(REGISTRATION)
    reports = [
        Report(run_id=lease.run_id, token=lease.token, ending=Success(result=b'"' + b"x" * (size - 2) + b'"'))
        for lease, size in zip((await claim(far, session.id)).leases, sizes, strict=True)
    ]
    assert await far.report(session.id, tuple(reports)) == (ReportResult.APPLIED,) * 4
    assert [await state(runtime, run_id) for run_id in ids] == [RunState.SUCCEEDED] * 4
    kept = {run_id: (await runtime.client.runs.get(TENANT, run_id)).result for run_id in ids}
    *within, over = reports
    assert read_mark(kept.pop(over.run_id)) == read_mark(keep(b'"' + b"x" * (INLINE_LIMIT - 1) + b'"'))
    assert kept == {
        report.run_id: report.ending.result for report in within if isinstance(report.ending, Success)
    }


async def test_server_from_before_durations_gets_reports_without_them(
    runtime: ManualRuntime, server: str
) -> None:
    """Such a server refuses a field that it does not know, and the runs end all the same."""
    refused: list[bytes] = []

    class Older(HttpGateway):
        async def _report(
            self, session_id: SessionId, reports: tuple[Report, ...]
        ) -> tuple[ReportResult, ...]:
            if any(report.took is not None for report in reports):
                refused.append(b"")
                raise InvalidInput("reports[0].took_seconds", "is not a field")
            return await super()._report(session_id, reports)

    far = Older(server)
    await far.start()
    try:
        run_ids = await submit(runtime, 2)
        session = await far.register(REGISTRATION)
        leases = (await claim(far, session.id)).leases
        for lease in leases:
            report = Report(run_id=lease.run_id, token=lease.token, ending=Success(), took=0.5)
            assert await far.report(session.id, (report,)) == (ReportResult.APPLIED,)
        assert [await state(runtime, run_id) for run_id in run_ids] == [RunState.SUCCEEDED] * 2
        assert len(refused) == 1  # it is asked only once
        await far.register(REGISTRATION)
        with pytest.raises(InvalidInput, match="token"):  # what else is wrong is still said
            await far.report(
                session.id,
                (
                    Report(
                        run_id=run_ids[0],
                        token=-1,
                        ending=Success(),
                        took=1.0,
                    ),
                ),
            )
    finally:
        await far.close()


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (Failure(error="broke", cause=Cause(status=503)), RunState.RETRYING),
        (Success(result=leave_out("no JSON")), RunState.SUCCEEDED),
    ],
    ids=["cause", "result"],
)
async def test_server_from_before_causes_gets_reports_without_them(
    runtime: ManualRuntime, server: str, ending: Failure | Success, expected: RunState
) -> None:
    refused: list[Report] = []

    class Older(HttpGateway):
        async def _report(
            self, session_id: SessionId, reports: tuple[Report, ...]
        ) -> tuple[ReportResult, ...]:
            if reports[0].ending == ending:
                refused.append(reports[0])
                raise InvalidInput("reports[0]", "has a field that does not exist")
            return await super()._report(session_id, reports)

    far = Older(server)
    await far.start()
    try:
        [run_id] = await submit(runtime)
        session = await far.register(REGISTRATION)
        [lease] = (await claim(far, session.id)).leases
        report = Report(run_id=lease.run_id, token=lease.token, ending=ending)
        assert await far.report(session.id, (report,)) == (ReportResult.APPLIED,)
        assert await state(runtime, run_id) is expected
        assert len(refused) == 1
    finally:
        await far.close()


async def test_duration_arrives_and_is_learned(runtime: ManualRuntime, far: HttpGateway) -> None:
    await submit(runtime)
    session = await far.register(REGISTRATION)
    [lease] = (await claim(far, session.id)).leases
    runtime.clock.advance(3)
    report = Report(run_id=lease.run_id, token=lease.token, ending=Success(), took=2.5)
    assert await far.report(session.id, (report,)) == (ReportResult.APPLIED,)
    assert runtime.matcher._lanes.order.times.mean(TENANT) == 2.5


async def test_a_beat_of_as_much_as_a_worker_may_hold_fits(far: HttpGateway) -> None:
    session = await far.register(Registration(name="big", host="h", pid=1, slots=10_000, functions=("work",)))
    held = tuple((RunId(2**62 + index), 2**31 - 1) for index in range(20_000))
    assert len((await far.beat(session.id, held)).lost) == 20_000
    with pytest.raises(InvalidInput) as refused:
        await far.register(Registration(name="bigger", host="h", pid=1, slots=10_001))
    assert refused.value.field == "slots"


async def test_nobody_at_the_address_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        gateway = HttpGateway(f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(Unreachable):
            await gateway.register(REGISTRATION)
        await gateway.close()


async def test_store_that_does_not_answer_may_be_asked_again(
    runtime: ManualRuntime, far: HttpGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object, **__: object) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(runtime.gateway, "register", unavailable)
    with pytest.raises((Unreachable, StoreUnavailable)):
        await far.register(REGISTRATION)


def test_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        HttpGateway("127.0.0.1:8620")
    assert refused.value.field == "server"


async def test_server_from_before_preemption_gets_a_plain_hand_back(
    runtime: ManualRuntime, server: str
) -> None:
    """One server has asked for the slot, and the report goes to another one, which is older."""

    class Older(HttpGateway):
        async def _report(
            self, session_id: SessionId, reports: tuple[Report, ...]
        ) -> tuple[ReportResult, ...]:
            if any(report.ending == HandedBack(was_started=True, is_preempted=True) for report in reports):
                raise InvalidInput("reports[0].reason", "is not a field")
            return await super()._report(session_id, reports)

    far = Older(server)
    await far.start()
    try:
        [run_id] = await submit(runtime)
        session = await far.register(REGISTRATION)
        [lease] = (await claim(far, session.id)).leases
        ending = HandedBack(was_started=True, is_preempted=True)
        report = Report(run_id=lease.run_id, token=lease.token, ending=ending)
        assert await far.report(session.id, (report,)) == (ReportResult.APPLIED,)
        assert await state(runtime, run_id) is RunState.PENDING
    finally:
        await far.close()


async def test_reason_of_a_hand_back_is_checked(http: AsyncClient) -> None:
    item = {"run_id": "run_00000000001yf", "token": 1, "outcome": "handed_back", "reason": "tired"}
    answer = await http.post("/api/v1/worker/report", json={"session_id": "ses_1", "reports": [item]})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "reports[0].reason"
