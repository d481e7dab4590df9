"""Data of the release before, upgraded: what it has stored is the same, goes on, and is closed to that release.

The release before is packed in `before`. Its schema has other names for tables and columns (ADR 0035), so its programs
have to stop first; what they leave behind, killed workers' runs among it, has to be brought along.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ids import parse_job_id, parse_run_id
from mainspring.core.model import Priority
from tests.support.postgres import temporary_database
from tests.upgrade.before_jobs import MENDED
from tests.upgrade.old_store import (
    DRAINING,
    FAR,
    WAITING_BODY,
    Api,
    Known,
    Place,
    Row,
    Tables,
    ask_all,
    crew,
    make_old_store,
    wait_for,
)
from tests.upgrade.versions import NEWEST, ROOT, Version, newest_migration

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.xdist_group("release before")]
CURRENT = Version("under test", None)
TABLES = {"span": "fire_range"}
COLUMNS = {
    "run": {
        "rank": "ready_at",
        "is_alone": "is_quarantined",
        "alone_crashes": "quarantined_crashes",
        "span_id": "fire_range_id",
    },
    "run_history": {"span_id": "fire_range_id"},
    "dead_run": {"span_id": "fire_range_id"},
}
NEW_OPTIONS: Row = {
    "calendars": {"include": [], "exclude": [], "roll": None},
    "catch_up": {"rate": None, "max_live": None},
    "concurrency": [],
    "unique": None,
    "debounce": None,
    "throttle": None,
    "pause_after_failures": None,
    "preempts": None,
    "preemptible": False,
    "notify": None,
    "metrics": False,
    "pause_note": None,
    "batch": None,
    "max_fires": None,
    "fires_left": None,
}
"""What jobs show since, and what it is for a job that does not use it."""
NEW_SEQUENCES = (
    *(
        "alert_id_seq",
        "artifact_id_seq",
        "event_number_seq",
        "audit_id_seq",
        "concurrency_key_id_seq",
        "key_hold_id_seq",
        "limit_rule_id_seq",
    ),
    *("mail_id_seq", "monitor_id_seq", "notification_id_seq", "silence_id_seq"),
)
NO_FLOW: Row = dict.fromkeys(("flow_id", "step", "item", "flow_state"))
OWN = ("migration", "migration_compatibility")
"""What the runner of migrations writes for itself."""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A store of the release before, brought up to date; nothing is running on it.

    Attributes:
        known: what is known of it from before.
        tables: all rows, right after.
    """

    place: Place
    known: Known
    tables: Tables
    server: str


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def upgraded(
    request: pytest.FixtureRequest, release_before: Version, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Upgraded]:
    """Have the release before make a store, and upgrade it."""
    folder = tmp_path_factory.mktemp("made")
    if request.param == "sqlite":
        (folder / "data").mkdir()
        yield make_and_upgrade(Place(str(folder / "data")), folder, release_before, server="")
        return
    server = request.getfixturevalue("postgres_server")
    with temporary_database(server) as dsn:
        yield make_and_upgrade(Place(dsn), folder, release_before, server=server)


def make_and_upgrade(place: Place, folder: Path, version: Version, *, server: str) -> Upgraded:
    known = make_old_store(place, folder, version)
    place.upgrade(CURRENT)
    return Upgraded(place, known, place.read(), server)


@pytest.fixture
def copy(upgraded: Upgraded, tmp_path: Path) -> Iterator[Place]:
    """A copy of the upgraded store, to be worked on."""
    with upgraded.place.copied(upgraded.server, tmp_path / "data") as place:
        yield place


def renamed(tables: Tables) -> Tables:
    """Return an older schema's rows under today's names."""
    found: Tables = {}
    for table, rows in tables.items():
        names = COLUMNS.get(table, {})
        found[TABLES.get(table, table)] = [
            {names.get(column, column): _renamed_value(table, value) for column, value in row.items()}
            for row in rows
        ]
    return found


def _renamed_value(table: str, value: object) -> object:
    """Both dialects list their counters by name."""
    if table not in {"sequences", "sqlite_sequence"} or not isinstance(value, str):
        return value
    return {"span": "fire_range", "span_id_seq": "fire_range_id_seq"}.get(value, value)


def ordered(rows: list[Row]) -> list[Any]:
    return sorted((sorted(row.items()) for row in rows), key=repr)


def test_old_store_has_something_of_everything(upgraded: Upgraded) -> None:
    """Else what follows would say little."""
    tables = upgraded.known.tables
    runs = tables["run"]
    assert {row["state"] for row in runs} == {"PENDING", "RETRYING", "RUNNING"}
    assert {row["state"] for row in tables["run_history"]} == {"SUCCEEDED", "CANCELLED", "SKIPPED"}
    assert any(row["is_alone"] and row["state"] == "RUNNING" for row in runs)
    assert any(row["crashes"] and row["state"] == "PENDING" for row in runs)
    assert any(row["cancel_requested_at"] for row in runs)
    assert any(row["span_id"] for row in runs)
    assert any(row["span_id"] for row in tables["run_history"])
    reasons = {row["reason"] for row in tables["run_history"]}
    assert {"overlap", "expired"} <= reasons
    assert len(tables["dead_run"]) == 1
    assert len(tables["attempt"]) > 2
    spans = {(row["kind"], bool(row["is_open"]), row["cursor_at"] is not None) for row in tables["span"]}
    assert {("catch_up", True, True), ("gap", True, False), ("gap", False, False)} <= spans
    assert {row["state"] for row in tables["session"]} == {"live", "dead", "left"}
    assert len({(row["queue"], row["priority"]) for row in tables["lane"]}) > 5
    assert len(tables["idempotency"]) == 2
    assert any(row["deleted_at"] for row in tables["job"])
    assert max(row["version"] for row in tables["job_version"]) == 4
    priorities = {clock["priority"] for clock in upgraded.tables["job_clock"]}
    assert priorities == {priority.value for priority in Priority}


def ordered_by_due(clock: Row, tables: Tables) -> Row:
    """Return a clock as it is after the upgrade, with what the planner orders by, and without an outline."""
    [job] = [row for row in tables["job"] if row["id"] == clock["job_id"]]
    [spec] = [
        json.loads(row["spec"])
        for row in tables["job_version"]
        if (row["job_id"], row["version"]) == (job["id"], job["version"])
    ]
    order = {"due_at": clock["next_fire_at"], "priority": Priority[spec["priority"]].value}
    pace = {"catch_up_level": None, "catch_up_level_at": None}
    return clock | order | pace | {"run_outline": None}


def without_keys(run: Row) -> Row:
    """Return a run as it is after the upgrade, with the keys of limits that it has not."""
    return run | dict.fromkeys(
        (
            *("key_id", "second_key_id", "third_key_id", "preemption", "trace"),
            *("flow_id", "step", "item", "flow_seed"),
        )
    )


def ended(sessions: list[Row]) -> list[Row]:
    """Return sessions as they are after the upgrade, which ends them all."""
    return [
        row | {"state": "dead", "ended_at": row["last_beat_at"]} if row["state"] == "live" else row
        for row in sessions
    ]


def test_every_row_is_the_same_but_for_names_and_sessions(upgraded: Upgraded) -> None:
    before, after = renamed(upgraded.known.tables), upgraded.tables
    before["session"] = ended(before["session"])
    before["job_clock"] = [
        ordered_by_due(clock, before) | {"fires_left": None} for clock in before["job_clock"]
    ]
    assert after.keys() - before.keys() == {
        *("census", "revision", "run_tally", "run_unique"),
        *("limit_rule", "limit_use", "concurrency_key", "key_hold"),
        *("calendar", "calendar_use", "pause", "failure_watch", "backfill", "redrive", "blackout"),
        *("account", "token", "password", "flow", "flow_value", "mail"),
        *("alert", "alert_rule", "channel", "job_notify", "notification", "silence", "monitor"),
        *("priority_class", "past_session", "ledger_check", "at_start", "after_end", "kept_attempt"),
        *("audit", "audit_horizon", "audit_seal"),
        *("usage_hour", "usage_minute", "slo", "archive_part", "encryption_key", "failover", "artifact"),
        *("checkpoint", "event", "listener", "wait"),
        *(
            ("log_chunk", "run_progress") if "sequences" in before else ()
        ),  # SQLite has a file of its own for these
    }
    unowned = {"pause_note": None, "owner": None, "undefined_since": None}
    before["job"] = [job | unowned for job in before["job"]]
    before["attempt"] = [attempt | {"host": None} for attempt in before["attempt"]]
    unsettled = dict.fromkeys(
        ("error_group", "settled_at", "settlement", "settle_reason", "redriven_as", "is_unnoticed", "trace")
    )
    before["dead_run"] = [run | unsettled | NO_FLOW for run in before["dead_run"]]
    before["run"] = [without_keys(run) for run in before["run"]]
    before["run_history"] = [run | {"trace": None} | NO_FLOW for run in before["run_history"]]
    epoch = None if "sequences" in before else 0  # SQLite has no sessions of other releases
    before["session"] = [
        row | {"policy_epoch": epoch, "account": None, "tenant": None} for row in before["session"]
    ]
    before["lane"] = [row | {"preempted_at": None} for row in before["lane"]]
    before["node"] = [row | {"protocol": None, "is_member": 1} for row in before["node"]]
    before["fire_range"] = [row | {"backfill_id": None} for row in before["fire_range"]]
    if "sequences" in before:
        before["sequences"] += [{"sequencename": name, "last_value": None} for name in NEW_SEQUENCES]
    before["idempotency"] = [row | {"verdict": None} for row in before["idempotency"]]
    before["fire_range"] = [row | {"calendars": None} for row in before["fire_range"]]
    [cluster] = after["cluster"]
    assert re.fullmatch("[0-9a-f]{32}", cluster["installation"])
    named = {"installation": cluster["installation"], "archive_url": None}
    before["cluster"] = [row | named for row in before["cluster"]]
    before["tenant"] = before["queue"] = []  # what they said of the default ones holds without it
    assert after.keys() >= before.keys()
    for table in before.keys() - set(OWN):
        assert ordered(before[table]) == ordered(after[table]), table
    numbers = {row["number"] for row in after["migration"]}
    assert numbers == set(range(1, NEWEST + 1))


def test_ended_runs_are_tallied(upgraded: Upgraded) -> None:
    tables = upgraded.tables
    [census] = tables["census"]
    expected = Counter(
        (row["tenant"], row["state"])
        for row in [*tables["run_history"], *tables["dead_run"]]
        if row["finished_at"] < census["settled_before"]
    )
    tallied: Counter[tuple[str, str]] = Counter()
    for row in tables["run_tally"]:
        tallied[row["tenant"], row["state"]] += row["runs"]
    assert tallied == expected
    assert census["body"] is None


def test_old_program_is_refused_and_changes_nothing(upgraded: Upgraded, release_before: Version) -> None:
    member_path = str(release_before.python_path)
    done = subprocess.run(
        [sys.executable, "-m", "mainspring", "server", "--store", upgraded.place.option, "--port", "0"],
        env={"PYTHONPATH": member_path, "PATH": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    last = newest_migration(release_before)
    expected = (
        "error: the store has migration 0006, which works with migration 0006 or later; this program ends at"
        f" {last:04}; upgrade the program"
    )
    assert done.stderr.splitlines() == [expected]
    assert upgraded.place.read() == upgraded.tables


def test_http_answers_are_the_same(upgraded: Upgraded, copy: Place, tmp_path: Path) -> None:
    """But for the runs that were held: their sessions ended with the upgrade, so they are taken back at once."""
    before = upgraded.known.answers
    held = {item["run_id"]: item["job_id"] for item in before["/runs?RUNNING"]}
    assert len(held) == 5
    with crew(tmp_path / "new", copy, CURRENT) as new:
        wait_for(lambda: new.api.get("/runs?state=RUNNING")["items"], lambda items: not items)
        answers = ask_all(new.api, upgraded.known.jobs, ranges="fire-ranges")
    assert before.keys() == answers.keys()
    statuses = {f"/jobs/{job}/status" for job in held.values()}
    for path in answers.keys() - statuses - {f"/runs/{run}" for run in held}:
        assert _without(held, _comparable(answers[path])) == _without(held, _comparable(before[path])), path
    for run in held:
        _check_taken_back(before[f"/runs/{run}"][1], answers[f"/runs/{run}"][1])
    for path in statuses:
        # A job shows the state of its newest run. These are held runs: their states changed, and nothing else.
        code, status = before[path]
        assert status["last_run_id"] in held, path
        newest = answers[f"/runs/{status['last_run_id']}"][1]
        assert answers[path] == (code, status | {"status": newest["status"]}), path


def _without(held: Mapping[str, str], answer: Any) -> Any:
    """Return an answer without the items of lists that are one of these runs."""
    if isinstance(answer, tuple):
        return answer[0], _without(held, answer[1])
    if isinstance(answer, dict):
        return {
            field: _without(held, value) if field == "items" else value for field, value in answer.items()
        }
    if isinstance(answer, list):
        items = [item for item in answer if not (isinstance(item, dict) and item.get("run_id") in held)]
        return [_without(held, item) if isinstance(item, dict) else item for item in items]
    return answer


def _check_taken_back(before: Row, after: Row) -> None:
    assert before["status"] == "RUNNING"
    assert after["status"] in {"PENDING", "CANCELLED", "FAILED"}
    for field in [
        "run_id",
        "job_id",
        "job_version",
        "kind",
        "priority",
        "queue",
        "due_at",
        "created_at",
        "payload",
        "attempt",
        "idempotency_key",
    ]:
        assert after[field] == before[field], field
    assert after["crashes"] == before["crashes"] + 1


def _comparable(answer: Any) -> Any:
    """A problem names the path that was asked, and by now the request and a way on, too."""
    if not isinstance(answer, tuple):
        return _without_new_options(answer)
    answer = answer[0], _without_new_options(answer[1])
    if isinstance(answer, tuple) and isinstance(answer[1], dict) and "instance" in answer[1]:
        problem = {name: value for name, value in answer[1].items() if name != "request_id"}
        return answer[0], problem | {
            "instance": problem["instance"].replace("/spans", "/fire-ranges"),
            "detail": problem["detail"].partition("; GET ")[0],
        }
    return answer


NEW_FIELDS = frozenset(
    {
        *("job", "worker", "host", "redrive_of", "settled", "result_left_out", "attempts"),
        *("owner", "undefined_since", "warnings", "trace_id", "progress"),
    }
)
"""What runs and jobs tell since then. Attempts have got a host."""


def _without_new_options(answer: Any) -> Any:
    """Return an answer without the options that jobs have got since, which none of these jobs uses."""
    if isinstance(answer, list):
        return [_without_new_options(item) for item in answer]
    if not isinstance(answer, dict):
        return answer
    if "items" in answer:
        return answer | {"items": _without_new_options(answer["items"])}
    return {
        name: value
        for name, value in answer.items()
        if name not in NEW_FIELDS and (name not in NEW_OPTIONS or value != NEW_OPTIONS[name])
    }


def test_what_waited_is_carried_out_once(upgraded: Upgraded, copy: Place, tmp_path: Path) -> None:
    known = upgraded.known
    with crew(tmp_path / "new", copy, CURRENT) as new:
        (tmp_path / "new" / "effects" / MENDED).touch()
        worker = new.worker("new", "--label=gpu")
        expected = expected_ends(known)
        for run, status in expected.items():
            new.api.wait(run, status)
        check_keys(new.api, known)
        check_ids(new.api, known, copy)
        check_draining(new.api, known, copy)
        for name, job in known.jobs.items():
            if name != "deleted":
                ledger = new.api.get(f"/jobs/{job}/ledger")
                assert (ledger["missing"], ledger["surplus"]) == ([], []), name
        assert new.api.get(f"/runs/{known.runs['future']}")["status"] == "PENDING"
        begun = new.begun()
        assert worker.stop() == 0
        assert new.server.stop() == 0
    done = [run for run, status in expected.items() if status == "SUCCEEDED"]
    assert {run: begun[run] for run in done} == dict.fromkeys(done, 1)
    never = {known.runs[name] for name in ("at_most_once", "asked to cancel", "future", "done", "cancelled")}
    assert not never & begun.keys()


def expected_ends(known: Known) -> dict[str, str]:
    """Return how each run of the release before that was not over has to end."""
    live: list[dict[str, Any]] = [
        item for path in ("PENDING", "RETRYING", "RUNNING") for item in known.answers[f"/runs?{path}"]
    ]
    ends = {item["run_id"]: "SUCCEEDED" for item in live if not item["due_at"].startswith(FAR[:4])}
    assert len(ends) > 20
    return ends | {known.runs["at_most_once"]: "FAILED", known.runs["asked to cancel"]: "CANCELLED"}


def check_keys(api: Api, known: Known) -> None:
    """Keys that were used before the upgrade answer the run that they stand for."""
    keyed, plain = known.jobs["keyed"], known.jobs["plain"]
    for job, body, key, run in (
        (keyed, WAITING_BODY, "waiting-key", "keyed"),
        (plain, {"payload": {"n": 1}}, "done-key", "done"),
    ):
        status, answer = api.ask("POST", f"/jobs/{job}/runs", body, key=key)
        assert (status, answer) == (200, {"run_id": known.runs[run], "is_new": False, "status": "submitted"})
        assert api.ask("POST", f"/jobs/{job}/runs", {"payload": 2}, key=key)[0] == 409


def check_ids(api: Api, known: Known, place: Place) -> None:
    """No id is given a second time, not even one whose row is gone."""
    tables = known.tables
    oldest = [row["id"] for table in ("run", "run_history", "dead_run") for row in tables[table]]
    sequence = max(oldest) // 256
    run = parse_run_id(api.submit(known.jobs["plain"]))
    assert run // 256 > sequence
    api.post(f"/jobs/{known.jobs['once']}/pause")
    newest = max(row["id"] for row in place.read()["fire_range"])
    if place.is_postgres:
        [last] = [row for row in tables["sequences"] if row["sequencename"] == "span_id_seq"]
        assert newest > last["last_value"]
    else:
        [last] = [row for row in tables["sqlite_sequence"] if row["name"] == "span"]
        assert newest > last["seq"]
    assert newest > max(row["id"] for row in tables["span"]) + 1
    sessions = [int(item["session_id"].removeprefix("ses_")) for item in api.get("/workers")["items"]]
    assert max(sessions) > max(row["id"] for row in tables["session"])


def check_draining(api: Api, known: Known, place: Place) -> None:
    """A catch-up goes on where it was, with the same id."""
    [span] = [row for row in known.tables["span"] if row["cursor_at"] is not None and row["is_open"]]

    def read() -> Row:
        [fire_range] = [row for row in place.read()["fire_range"] if row["id"] == span["id"]]
        return fire_range

    later = wait_for(read, lambda row: row["cursor_at"] > span["cursor_at"])
    assert (later["from_at"], later["to_at"]) == (span["from_at"], span["to_at"])
    api.wait_for_runs(known.jobs[DRAINING], state="SUCCEEDED")
    assert parse_job_id(known.jobs[DRAINING]).bytes in {
        later["job_id"],
        getattr(later["job_id"], "bytes", b""),
    }
