"""The workers of the page keep the rules of the protocol, whatever their server does."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.wire.protocol import WORKER_PROTOCOL
from tests.processes.scripted_server import (
    GONE,
    PATIENCE,
    Answer,
    Call,
    ScriptedServer,
    heard,
    lease,
    leases,
    scripted_server,
)
from tests.processes.written_workers import WORKERS, has_processes, written_worker
from tests.support.asking import wait_until

pytestmark = [pytest.mark.timeout(3 * PATIENCE), pytest.mark.slow]
KEY = {"run_id": "run_00000000001yf", "token": 1}
NO_ANSWER: list[Answer] = [(GONE, None), (503, {}), (500, None)]


@pytest.fixture(params=WORKERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    # On a busy host each process that the shell starts may take a second, and a silence must not come by itself.
    is_python = "kind" in request.fixturenames and request.getfixturevalue("kind") == "python"
    with scripted_server(period=1 if is_python else 4) as server:
        yield server


def test_every_call_is_repeated_as_it_is_until_it_is_answered(
    server: ScriptedServer, kind: str, tmp_path: Path
) -> None:
    server.will("register", *NO_ANSWER)
    server.will("claim", *NO_ANSWER, (200, lease("add", {"x": 1, "y": 2})))
    server.will("report", *NO_ANSWER)
    server.will("leave", *NO_ANSWER)
    with written_worker(kind, server.address, tmp_path) as worker:
        server.wait_for("claim", 6)
        assert worker.drain() == 0
    claims = server.of("claim")
    assert [call.body["number"] for call in claims[:6]] == [1, 1, 1, 1, 2, 3]
    for repeated in (server.of("register"), claims[:4], server.of("report"), server.of("leave")):
        assert len(repeated) == 4
        assert all(call.body == repeated[0].body for call in repeated)
    assert server.of("report")[0].body["reports"][0].items() >= {**KEY, "result": 3}.items()


def test_repeats_come_later_and_later(server: ScriptedServer, kind: str, tmp_path: Path) -> None:
    server.will("register", *[(503, {}) for _ in range(5)])
    with written_worker(kind, server.address, tmp_path):
        server.wait_for("claim")
    times = [call.at for call in server.of("register")]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1.5), strict=True))


def test_heartbeat_names_what_is_held_and_answered(server: ScriptedServer, kind: str, tmp_path: Path) -> None:
    server.will("claim", (200, leases()), (200, lease()))
    with written_worker(kind, server.address, tmp_path):
        server.wait_for("claim", 2)
        count = len(server.calls)
        body = server.wait_for("beat", 2, since=count).body
        assert body == {"session_id": "ses_1", "held": [KEY], "answered": 2}
        count = len(server.calls)
        server.will("beat", (200, heard(cancel=[KEY])))
        assert server.wait_for("report", since=count).body["reports"][0]["outcome"] == "stopped"
        count = len(server.calls)
        body = server.wait_for("beat", 2, since=count).body
        assert body["held"] == []
        assert body["answered"] >= 2
    assert [call.body["number"] for call in server.of("claim")][:3] == [1, 2, 3]
    assert all(call.body["is_idle"] for call in server.of("claim"))


def test_heartbeat_goes_on_while_a_claim_is_not_answered(
    server: ScriptedServer, kind: str, tmp_path: Path
) -> None:
    release = threading.Event()

    def hold(call: Call) -> Answer:
        release.wait(PATIENCE)
        return 200, leases()

    server.will("claim", hold)
    with written_worker(kind, server.address, tmp_path):
        assert server.wait_for("beat", 3).body["answered"] == 0
        release.set()
        count = len(server.calls)
        assert server.wait_for("beat", 2, since=count).body["answered"] >= 1


def test_heartbeat_that_hangs_is_given_up_after_one_period(
    server: ScriptedServer, kind: str, tmp_path: Path
) -> None:
    release = threading.Event()

    def hang(call: Call) -> Answer:
        release.wait(PATIENCE)
        return GONE, None

    server.will("beat", hang)
    with written_worker(kind, server.address, tmp_path):
        server.wait_for("beat", 2)
        assert not release.is_set()
        release.set()


def test_lost_lease_is_stopped_and_not_reported(server: ScriptedServer, kind: str, tmp_path: Path) -> None:
    server.will("claim", (200, lease()))
    server.will("beat", (200, heard()), (200, heard(lost=[KEY])))
    with written_worker(kind, server.address, tmp_path):
        assert server.wait_for("claim", 2).body["number"] == 2
        assert server.of("report") == []


def test_cancel_of_a_lease_not_begun_is_reported_as_stopped(
    server: ScriptedServer, kind: str, tmp_path: Path
) -> None:
    server.will("claim", (200, lease(is_cancel_requested=True)))
    with written_worker(kind, server.address, tmp_path):
        (report,) = server.wait_for("report").body["reports"]
        assert report.items() >= {**KEY, "outcome": "stopped"}.items()


@pytest.mark.parametrize("teller", ["beat", "claim"])
def test_dead_session_is_replaced_and_numbers_begin_anew(
    teller: str, server: ScriptedServer, kind: str, tmp_path: Path
) -> None:
    if teller == "beat":
        server.will("claim", (200, lease()))
        server.will("beat", (200, heard(is_session_live=False)))
    else:
        server.will("claim", (200, leases()), (200, leases(is_session_live=False)))
    with written_worker(kind, server.address, tmp_path):
        server.wait_for("register", 2)
        wait_until(lambda: [call for call in server.of("claim") if call.body["session_id"] == "ses_2"])
        numbers = [call.body["number"] for call in server.of("claim") if call.body["session_id"] == "ses_2"]
        assert numbers[0] == 1
        wait_until(lambda: [call for call in server.of("beat") if call.body["session_id"] == "ses_2"])
        assert server.of("report") == []


def test_lease_that_comes_after_a_silence_is_handed_back(
    server: ScriptedServer, kind: str, tmp_path: Path
) -> None:
    silent = threading.Event()
    silent.set()

    def refuse(call: Call) -> Answer:
        return (503, {}) if silent.is_set() else (200, heard())

    def lease_late(call: Call) -> Answer:
        registered = server.of("register")[0].at
        while time.monotonic() < registered + 3.2 * server.period:  # the silence itself is what is shown
            time.sleep(0.05)
        return 200, lease()

    server.will("beat", *[refuse for _ in range(200)])
    server.will("claim", lease_late)
    with written_worker(kind, server.address, tmp_path):
        (report,) = server.wait_for("report").body["reports"]
        assert report.items() >= {**KEY, "outcome": "handed_back", "was_started": False}.items()
        silent.clear()
        count = len(server.calls)
        server.wait_for("beat", 2, since=count)
        server.will("claim", (200, lease("add", {"x": 1, "y": 2}, token=2)))
        (report,) = server.wait_for("report", since=count).body["reports"]
        assert report.items() >= {"token": 2, "outcome": "success", "result": 3}.items()


def test_lease_that_comes_after_the_drain_began_is_handed_back(
    server: ScriptedServer, kind: str, tmp_path: Path
) -> None:
    asked, release = threading.Event(), threading.Event()

    def lease_later(call: Call) -> Answer:
        asked.set()
        release.wait(PATIENCE)
        return 200, lease()

    server.will("claim", lease_later)
    with written_worker(kind, server.address, tmp_path) as worker:
        assert asked.wait(PATIENCE)
        worker.process.terminate()
        server.wait_for("beat", 1, since=len(server.calls))  # the signal has been taken by then
        release.set()
        assert worker.process.wait(PATIENCE) == 0
    (report,) = server.of("report")[0].body["reports"]
    assert report.items() >= {**KEY, "outcome": "handed_back", "was_started": False}.items()
    assert [call.verb for call in server.calls if call.verb != "beat"][-1] == "leave"
    assert len(server.of("claim")) == 1


def test_drain_lets_the_attempt_end(server: ScriptedServer, kind: str, tmp_path: Path) -> None:
    server.will("claim", (200, lease(payload={"seconds": 2 * server.period})))  # it lives to see a heartbeat
    with written_worker(kind, server.address, tmp_path) as worker:
        wait_until(lambda: any(call.body["held"] for call in server.of("beat")))
        if kind == "shell":  # slow to start what it holds
            wait_until(lambda: list(tmp_path.glob("tmp.*/ses_1/run_*/pid")))
        assert server.of("report") == []
        assert worker.drain() == 0
    (report,) = server.of("report")[0].body["reports"]
    assert report["outcome"] == "success"
    assert len(server.of("claim")) == 1
    assert [call.verb for call in server.calls if call.verb != "beat"][-1] == "leave"


def test_job_does_not_outlive_its_worker(server: ScriptedServer, tmp_path: Path) -> None:
    server.will("claim", (200, lease()))
    with written_worker("shell", server.address, tmp_path) as worker:
        wait_until(lambda: list(tmp_path.glob("tmp.*/ses_1/run_*/pid")))
        worker.process.kill()
        worker.process.wait(PATIENCE)  # a zombie would still be there for its heartbeat
        wait_until(lambda: list(tmp_path.glob("tmp.*")) == [])  # the last thing that its heartbeat does
        wait_until(lambda: not has_processes(worker.process.pid))
    assert server.of("report") == []


def test_refused_report_becomes_a_failure_that_says_so(
    server: ScriptedServer, kind: str, tmp_path: Path
) -> None:
    server.will("claim", (200, lease("add", {"x": 1, "y": 2})))
    server.will("report", (422, {"title": "Unprocessable Entity", "status": 422, "detail": "too long"}))
    with written_worker(kind, server.address, tmp_path):
        (report,) = server.wait_for("report", 2).body["reports"]
        assert report.items() >= {**KEY, "outcome": "failure"}.items()
        assert "too long" in report["error"]
        assert server.wait_for("claim", 2).body["number"] == 2


def test_refused_registration_ends_the_worker(server: ScriptedServer, kind: str, tmp_path: Path) -> None:
    server.will("register", (403, {"title": "Forbidden", "status": 403, "detail": "not from here"}))
    with written_worker(kind, server.address, tmp_path) as worker:
        assert worker.process.wait(PATIENCE) == 1
        assert b"not from here" in worker.log.read_bytes()
    assert len(server.calls) == 1


def test_refusal_of_the_protocol_is_shown(server: ScriptedServer, kind: str, tmp_path: Path) -> None:
    said = "this server speaks worker protocol 3; upgrade the worker"
    server.will("register", (422, {"status": 422, "errors": [{"field": "protocol", "message": said}]}))
    with written_worker(kind, server.address, tmp_path) as worker:
        assert worker.process.wait(PATIENCE) == 1
        assert said.encode() in worker.log.read_bytes()
    (call,) = server.calls
    assert call.body["protocol"] == WORKER_PROTOCOL
