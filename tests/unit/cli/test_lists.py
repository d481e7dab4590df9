"""What `run list` and `run count` say on a terminal and to programs, whatever the server answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.cli.main import run_command
from mainspring.errors import InvalidInput
from mainspring.sdk.client import AsyncClient
from mainspring.wire.pages import BriefPage, BriefView, JobPage, RunPage
from mainspring.wire.views import CountsView, RunView

AT = datetime(2026, 11, 22, 9, 16, tzinfo=UTC)
FOUND = BriefView(
    run_id="run_0000000000100",
    job_id="job_01kxj0000000000000000000ab",
    job="report",
    kind="manual",
    status="FAILED",
    reason=None,
    queue="default",
    priority="MEDIUM",
    fire_time=None,
    due_at=AT,
    created_at=AT,
    started_at=AT,
    finished_at=AT,
    lag_ms=0.0,
    took_ms=0.0,
    attempt=1,
    crashes=0,
    error="boom",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Brief lists are answered in three pages; the last of them is cut. Returns what was asked."""
    asked: list[dict[str, Any]] = []

    async def answer(_: AsyncClient, **given: Any) -> BriefPage:
        asked.append(given)
        pages = [BriefPage([FOUND], "run_a"), BriefPage([FOUND], "run_b"), BriefPage([], "run_c", AT)]
        return pages[len(asked) - 1]

    monkeypatch.setattr(AsyncClient, "list_briefs", answer)
    return asked


def test_a_list_that_was_cut_says_how_far_it_looked(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (
        "--state failed --queue q --kind manual --backfill backfill_0 --error b --since 2h --until 1h"
        " --before run_z --limit 7"
    )
    assert run_command(["run", "list", *arguments.split()]) == 0
    said = capsys.readouterr()
    assert said.out.count("run_0000000000100  report  FAILED  2026-11-22 09:16:00+00:00  1        boom") == 2
    assert said.err == (
        "looked back to 2026-11-22 09:16:00+00:00 and found 2; to look further back, add --before run_c\n"
    )
    filters = {
        "state": "failed",
        "queue": "q",
        "kind": "manual",
        "backfill": "backfill_0",
        "error": "b",
        "since": "2h",
        "until": "1h",
    }
    pages = [
        {"before": "run_z", "limit": 7},
        {"before": "run_a", "limit": 6},
        {"before": "run_b", "limit": 5},
    ]
    assert asked == [{"job_id": None, **filters, **page} for page in pages]


def test_a_full_list_says_how_to_go_on(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["run", "list", "--limit", "2"]) == 0
    assert capsys.readouterr().err == "for older ones, add --before run_b\n"
    assert len(asked) == 2


def test_a_server_of_an_older_release_is_asked_for_whole_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refuse(_: AsyncClient, **given: Any) -> BriefPage:
        raise InvalidInput("fields", "does not exist")

    async def answer(_: AsyncClient, **given: Any) -> RunPage:
        facts = {
            name: getattr(FOUND, name) for name in FOUND.__struct_fields__ if name not in {"job", "took_ms"}
        }
        more = dict.fromkeys(["idempotency_key", "payload", "result", "output"])
        whole = {"job_version": 1, "retry_count": 0, "is_cancel_requested": False, **more}
        return RunPage([RunView(**facts | whole | {"error": "boom\nmore"})], None)

    monkeypatch.setattr(AsyncClient, "list_briefs", refuse)
    monkeypatch.setattr(AsyncClient, "list_runs", answer)
    assert run_command(["run", "list"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1].startswith(f"{FOUND.run_id}  {FOUND.job_id}  FAILED  ")
    assert (said.out.splitlines()[1].endswith("  boom"), said.err) == (True, "")


def test_programs_get_whole_runs_and_where_the_list_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [RunPage([], "run_a", AT), RunPage([], None)]

    async def answer(_: AsyncClient, **given: Any) -> RunPage:
        return pages.pop(0)

    monkeypatch.setattr(AsyncClient, "list_runs", answer)
    assert run_command(["run", "list", "--json"]) == 0
    cut = {"items": [], "next": "run_a", "searched_to": "2026-11-22T09:16:00Z"}
    assert json.loads(capsys.readouterr().out) == cut
    assert run_command(["run", "list", "--json"]) == 0
    said = capsys.readouterr()
    assert (json.loads(said.out), said.err) == ({"items": [], "next": None}, "")


@pytest.mark.parametrize(
    ("field", "message", "said"),
    [
        ("job_id", "add it, or another of job_id, state", "job: add it, or another of job, state"),
        (
            "error",
            "is only for runs that FAILED; add state=FAILED",
            "error: is only for runs that FAILED; add --state FAILED",
        ),
        (
            "backfill",
            "there is no such backfill; list them with GET /backfills",
            "backfill: there is no such backfill; list them with mainspring backfill list",
        ),
        ("since", "'soon' is not an instant", "since: 'soon' is not an instant"),
    ],
)
def test_a_refusal_names_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], field: str, message: str, said: str
) -> None:
    async def refuse(_: AsyncClient, **given: Any) -> BriefPage:
        raise InvalidInput(field, message)

    monkeypatch.setattr(AsyncClient, "list_briefs", refuse)
    assert run_command(["run", "list"]) == 2
    assert capsys.readouterr().err == f"error: {said}\n"


@pytest.mark.parametrize(("age_ms", "said"), [(0, "now"), (14_200, "14.2s ago")])
def test_counts_say_how_old_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], age_ms: int, said: str
) -> None:
    names = ["PENDING", "BLOCKED", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
    counts = CountsView(**dict.fromkeys(names, 3), age_ms=age_ms)

    async def answer(_: AsyncClient) -> CountsView:
        return counts

    monkeypatch.setattr(AsyncClient, "count_runs", answer)
    assert run_command(["run", "count"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [*(f"{name:9}  3" for name in names), f"counted    {said}"]
    assert run_command(["run", "count", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["age_ms"] == age_ms


def test_a_list_of_jobs_goes_on_after_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []

    async def answer(_: AsyncClient, **given: Any) -> JobPage:
        asked.append(given)
        return JobPage([], "job_b" if len(asked) == 1 else None)

    monkeypatch.setattr(AsyncClient, "list_jobs", answer)
    assert run_command(["job", "list", "--after", "job_a", "--json"]) == 0
    assert asked == [{"after": "job_a", "limit": 100}, {"after": "job_b", "limit": 100}]
    assert json.loads(capsys.readouterr().out) == {"items": [], "next": None}
