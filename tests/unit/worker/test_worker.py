"""A worker outlives whatever its gateway answers; one bad report never stops the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from random import Random
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from mainspring.clock import LoopWaiter
from mainspring.core.ids import JobId, RunId, SessionId
from mainspring.core.model import JobSpec, Target
from mainspring.core.outcomes import Failure
from mainspring.errors import InvalidInput, MainspringError, StoreUnavailable, Unreachable
from mainspring.ports.executor import AttemptContext, Outcome, Success
from mainspring.ports.gateway import (
    BeatReply,
    ClaimCall,
    ClaimReply,
    Ending,
    HandedBack,
    Lease,
    LogReport,
    LogResult,
    Registration,
    Report,
    ReportResult,
    Session,
    Stopped,
)
from mainspring.testing.factories import at
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters


def make_lease(number: int) -> Lease:
    spec = JobSpec(name="job", target=Target("test", {}))
    return Lease(
        run_id=RunId(number),
        token=1,
        job_id=JobId(UUID(int=1)),
        version=1,
        tenant="default",
        attempt=1,
        fire_at=None,
        due_at=at(0),
        payload=None,
        target_key="k",
        is_quarantined=False,
        is_cancel_requested=False,
        spec=spec,
    )


class Server:
    """A gateway that refuses what it is told to refuse."""

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.errors: dict[str, list[Exception]] = {}
        self.poison: Callable[[Report], Exception | None] = lambda _: None
        self.endings: dict[RunId, Ending] = {}
        self.reported_under: dict[RunId, SessionId] = {}
        self.beats = 0
        self.answered: list[int | None] = []
        self.registered = 0
        self.granted = Session(id=SessionId(0), beat_period=timedelta(seconds=0.02))
        self.is_live = True
        self.batches: list[int] = []
        self.logged: tuple[LogReport, ...] = ()
        self.log_result = LogResult.KEPT
        self.refused = 0
        self.claims_waiting = 0
        self.claims: list[tuple[int, int]] = []
        self.release = asyncio.Event()
        self.release.set()

    def _fail(self, verb: str) -> None:
        if self.errors.get(verb):
            raise self.errors[verb].pop(0)

    async def register(self, registration: Registration) -> Session:
        self._fail("register")
        self.registered += 1
        self.is_live = True
        return replace(
            self.granted, id=SessionId(self.registered), queues=self.granted.queues or registration.queues
        )

    async def claim(self, call: ClaimCall) -> ClaimReply:
        self.claims.append((call.number, call.limit))
        await asyncio.sleep(0.005)
        self._fail("claim")
        self.claims_waiting += 1
        await self.release.wait()
        self.claims_waiting -= 1
        taken, self.leases = self.leases[: call.limit], self.leases[call.limit :]
        return ClaimReply(leases=tuple(taken))

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        self._fail("beat")
        self.beats += 1
        self.answered.append(answered)
        return BeatReply(is_session_live=self.is_live)

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        await asyncio.sleep(0)
        self._fail("report")
        for report in reports:
            error = self.poison(report)
            if error is not None:
                self.refused += 1
                raise error
        self.batches.append(len(reports))
        for report in reports:
            self.endings[report.run_id] = report.ending
            self.reported_under[report.run_id] = session_id
        return (ReportResult.APPLIED,) * len(reports)

    async def log(self, session_id: SessionId, reports: tuple[LogReport, ...]) -> tuple[LogResult, ...]:
        self._fail("log")
        self.logged += reports
        return (self.log_result,) * len(reports)

    async def leave(self, session_id: SessionId) -> None:
        self._fail("leave")


class Echo:
    """An executor whose result is the run's id."""

    type = "test"

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def execute(self, context: AttemptContext) -> Outcome:
        return Success(result=str(context.run_id).encode())


@asynccontextmanager
async def working(server: Server, monotonic: Callable[[], float] = lambda: 0.0) -> AsyncIterator[Worker]:
    """Run a worker on it; its clock stands still by default, so that a busy host is no silence of the worker."""
    worker = Worker(
        server,
        {"test": Echo()},
        settings=WorkerSettings(registration=Registration(name="w", host="h", pid=1, slots=50)),
        waiters=WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter()),
        random=Random(1),
        monotonic=monotonic,
    )
    await worker.start()
    try:
        yield worker
    finally:
        await asyncio.wait_for(worker.stop(grace=1), 15)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(25):
        while not condition():  # noqa: ASYNC110 -- of what the worker does nobody is told
            await asyncio.sleep(0.01)


ERRORS = [InvalidInput("x", "no"), MainspringError("the server failed"), OverflowError("date"), KeyError("k")]


@pytest.mark.parametrize("verb", ["claim", "beat", "report"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_loop_outlives_an_unexpected_error(verb: str, error: Exception) -> None:
    server = Server()
    server.errors[verb] = [error, error]
    server.leases = [make_lease(number) for number in range(10)]
    async with working(server):
        await until(lambda: len(server.endings) == 10 and server.beats > 2)
    assert not server.errors[verb]
    assert all(server.endings[RunId(n)] == Success(result=str(n).encode()) for n in range(10))


async def test_unexpected_error_of_a_new_session_or_of_leaving_is_outlived() -> None:
    server = Server()
    async with working(server):
        server.errors = {"register": [InvalidInput("name", "no"), KeyError("k")], "leave": [KeyError("k")]}
        server.is_live = False
        await until(lambda: server.registered == 2)
        server.leases = [make_lease(1)]
        await until(lambda: len(server.endings) == 1)
    assert not server.errors["leave"]


async def test_worker_ends_though_nobody_answers_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it works straight on a store that has gone: claims wait for that, and nothing says how long."""
    monkeypatch.setattr("mainspring.worker.claiming._RECOVERY_SECONDS", 0.01)
    monkeypatch.setattr("mainspring.worker.claiming._RECOVERIES", 3)
    server = Server()
    async with working(server):
        server.release.clear()
        await until(lambda: server.claims_waiting > 0)


@pytest.mark.parametrize(
    ("tenant", "queues", "is_told"),
    [(None, (), False), ("shop", (), True), (None, ("mail",), True), ("shop", ("mail",), True)],
)
async def test_a_session_that_is_bound_by_its_token_is_told_of_in_the_log(
    tenant: str | None, queues: tuple[str, ...], *, is_told: bool
) -> None:
    server = Server()
    server.granted = replace(server.granted, tenant=tenant, queues=queues)
    with capture_logs() as lines:
        async with working(server):
            pass
    told = [line for line in lines if line["event"] == "session_bound"]
    assert [(line["tenant"], line["queues"]) for line in told] == [(tenant, list(queues))] * is_told


async def test_registration_that_is_refused_at_the_start_is_raised() -> None:
    server = Server()
    server.errors["register"] = [InvalidInput("name", "no")]
    with pytest.raises(InvalidInput):
        async with working(server):
            pass


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_poisoned_report_becomes_a_failure_and_the_others_go_through(error: Exception) -> None:
    server = Server()
    server.poison = lambda report: (
        error if report.run_id == 5 and isinstance(report.ending, Success) else None
    )
    server.leases = [make_lease(number) for number in range(20)]
    async with working(server) as worker:
        await until(lambda: len(server.endings) == 20)
        assert worker.held == ()
    poisoned = server.endings.pop(RunId(5))
    assert isinstance(poisoned, Failure)
    assert "refused" in poisoned.error
    assert all(isinstance(ending, Success) for ending in server.endings.values())


async def test_answer_that_lay_waiting_while_the_process_slept_starts_nothing() -> None:
    server = Server()
    server.release.clear()
    slept = 0.0
    async with working(server, lambda: slept) as worker:
        await until(lambda: server.beats > 0)
        server.errors["beat"] = [Unreachable("asleep")] * 1000
        server.leases = [make_lease(1)]
        slept = 0.06  # three beats of 0.02 s: by then it may have been declared dead
        server.release.set()
        await until(lambda: len(server.endings) == 1)
        assert worker.held == ()
        server.errors["beat"] = []
        heard = server.beats
        await until(lambda: server.beats > heard + 1)
        server.leases = [make_lease(2)]
        await until(lambda: len(server.endings) == 2)
    assert server.endings == {RunId(1): HandedBack(was_started=False), RunId(2): Success(result=b"2")}


@pytest.mark.parametrize(("seconds", "is_begun"), [(2.9, True), (3.1, False)])
async def test_lease_whose_answer_came_when_its_time_was_over_is_not_begun(
    seconds: float, is_begun: bool
) -> None:
    """The server stood still in between. How long the claim waited before that is not known, and counts for it."""
    server, at = Server(), [0.0]
    longest = WorkerSettings(registration=Registration(name="w", host="h", pid=1, slots=1)).long_poll
    server.release.clear()
    async with working(server, monotonic=lambda: at[0]):
        await until(lambda: server.claims_waiting == 1)
        lease = make_lease(1)
        server.leases = [replace(lease, spec=replace(lease.spec, timeout=timedelta(seconds=3)))]
        at[0] = longest.total_seconds() + seconds
        beats = server.beats
        await until(lambda: server.beats > beats + 1)  # the session is alive
        server.release.set()
        await until(lambda: RunId(1) in server.endings)
    ending = server.endings[RunId(1)]
    assert isinstance(ending, Success if is_begun else HandedBack), ending


async def test_lease_whose_cancel_was_asked_for_on_the_way_is_not_begun() -> None:
    server = Server()
    server.leases = [replace(make_lease(1), is_cancel_requested=True), make_lease(2)]
    async with working(server):
        await until(lambda: len(server.endings) == 2)
    assert isinstance(server.endings[RunId(1)], Stopped)
    assert isinstance(server.endings[RunId(2)], Success)


async def test_what_has_ended_is_reported_though_the_session_is_lost() -> None:
    server = Server()
    server.errors["report"] = [Unreachable("away")] * 3
    async with working(server):
        server.leases = [make_lease(1)]
        await until(lambda: len(server.errors["report"]) < 3)
        server.is_live = False
        await until(lambda: server.registered == 2)
        await until(lambda: len(server.endings) == 1)
    assert server.endings == {RunId(1): Success(result=b"1")}


async def test_each_ending_is_reported_under_the_session_that_claimed_it() -> None:
    server = Server()
    async with working(server) as worker:
        server.errors["report"] = [Unreachable("away")] * 100
        server.leases = [make_lease(1), make_lease(2)]
        await until(lambda: len(worker.held) == 2 and len(server.errors["report"]) < 100)
        server.claims.clear()
        server.is_live = False
        await until(
            lambda: 1 in {number for number, _ in server.claims}
        )  # the first claim of the new session
        server.leases = [make_lease(3)]
        await until(lambda: len(worker.held) == 3)
        server.errors["report"] = []
        await until(lambda: len(server.endings) == 3)
    assert server.reported_under == {RunId(1): SessionId(1), RunId(2): SessionId(1), RunId(3): SessionId(2)}
    assert server.batches == [2, 1]


async def test_beat_says_which_claims_were_answered() -> None:
    server = Server()
    server.release.clear()
    async with working(server):
        await until(lambda: server.beats >= 2)
        assert set(server.answered) == {0}  # the first claim waits
        server.release.set()
        await until(lambda: (server.answered[-1] or 0) >= 2)
        server.release.clear()
        server.is_live = False
        await until(lambda: server.registered == 2)
        seen = len(server.answered)
        await until(lambda: len(server.answered) > seen)
        assert server.answered[-1] == 0  # numbers begin anew with a session


class Mute(Server):
    """A server whose first heartbeat is never answered."""

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        if self.beats == 0:
            self.beats = 1
            await asyncio.get_running_loop().create_future()
        return await super().beat(session_id, held, answered=answered)


async def test_heartbeat_that_hangs_is_given_up_for_the_next() -> None:
    server = Mute()
    async with working(server):
        await until(lambda: server.beats >= 3)


class Sleepy(Server):
    """A server whose worker falls asleep once it has taken a lease, before it begins to work."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def _sleep(self) -> None:
        self.now += 0.06  # three beats of 0.02 s
        self.errors["beat"] = []

    async def claim(self, call: ClaimCall) -> ClaimReply:
        reply = await super().claim(call)
        if reply.leases:
            self.errors["beat"] = [Unreachable("asleep")] * 1000
            asyncio.get_running_loop().call_soon(self._sleep)
        return reply


async def test_lease_that_was_taken_before_the_process_slept_is_not_begun_after() -> None:
    server = Sleepy()
    async with working(server, lambda: server.now):
        server.leases = [make_lease(1)]
        await until(lambda: len(server.endings) == 1)
    assert server.endings == {RunId(1): HandedBack(was_started=False)}


async def test_server_that_fails_whatever_it_is_told_turns_no_success_into_a_failure() -> None:
    server = Server()

    def fail(report: Report) -> Exception | None:
        # Mended between two reports of the same run it would take the failure: nobody can tell that from a bad report.
        is_mended = server.refused > 30 and isinstance(report.ending, Success)
        return None if is_mended else MainspringError("the server failed")

    server.poison = fail
    server.leases = [make_lease(number) for number in range(3)]
    async with working(server):
        await until(lambda: len(server.endings) == 3)
    assert all(isinstance(ending, Success) for ending in server.endings.values())


class Granting(Server):
    """A server that grants a lease in the moment in which its claim is cut off, and then is away for a while."""

    def __init__(self, *, away: int) -> None:
        super().__init__()
        self.away = away
        self.is_granted = False

    async def claim(self, call: ClaimCall) -> ClaimReply:
        if call.limit == 0 and self.is_granted:  # the repetition of what was cut off
            if self.away:
                self.away -= 1
                raise StoreUnavailable("the engine is stopping")
            return ClaimReply(leases=(make_lease(1),))
        self.is_granted = True
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


@pytest.mark.parametrize("away", [0, 1, 4])
async def test_lease_granted_as_the_worker_stops_is_handed_back_though_the_server_is_away(away: int) -> None:
    server = Granting(away=away)
    async with working(server):
        await until(lambda: server.is_granted)
    assert server.endings == {RunId(1): HandedBack(was_started=False)}


async def test_claim_that_stays_unanswered_does_not_keep_a_worker_from_stopping() -> None:
    server = Granting(away=1000)
    async with working(server):
        await until(lambda: server.is_granted)
    assert server.endings == {}


async def test_worker_that_stops_while_its_server_is_away_waits_for_it_with_what_has_ended() -> None:
    server = Server()
    server.errors["report"] = [Unreachable("away")] * 7
    async with working(server):
        server.leases = [make_lease(1)]
        # It has failed often already when the stop comes: what counts is how long it may still be believed alive.
        await until(lambda: len(server.errors["report"]) <= 2)
    assert server.endings == {RunId(1): Success(result=b"1")}


async def test_worker_that_stops_gives_up_what_it_may_not_be_believed_any_more() -> None:
    server = Server()
    now = 0.0
    async with working(server, lambda: now):
        server.errors = {"report": [Unreachable("away")] * 1000, "beat": [Unreachable("away")] * 1000}
        server.leases = [make_lease(1)]
        await until(lambda: len(server.errors["report"]) < 1000)
        now = 0.06  # three beats of 0.02 s: others may have it by now
    assert server.endings == {}


async def test_claim_that_failed_is_asked_for_again_as_what_can_only_be_a_repeat() -> None:
    """The leases may be with another server than the one that is asked then, which knows nothing of the first try."""
    server = Server()
    server.errors["claim"] = [Unreachable("gone"), Unreachable("gone")]
    server.leases = [make_lease(1)]
    async with working(server):
        await until(lambda: len(server.endings) == 1)
    assert server.claims[:4] == [(1, 50), (1, 0), (1, 0), (2, 50)]
