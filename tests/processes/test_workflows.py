"""Workflows on a real server, as the page "Run one job after another" has them."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.host.exit_codes import ExitCode
from tests.processes.processes import await_that, run_here, server
from tests.support.postgres import temporary_database

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "one-job-after-another.md"


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that runs the example."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(ROOT / "examples" / "etl.py", folder)
    with contextlib.ExitStack() as stack:
        where: tuple[str, ...] = ()
        if request.param == "postgres":
            dsn = stack.enter_context(temporary_database(request.getfixturevalue("postgres_server")))
            where = ("--store", dsn)
        process, address = stack.enter_context(server("etl:app", *where, cwd=folder))
        yield address
        process.stop()


@pytest.fixture(autouse=True)
def _here(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_SERVER", url)
    monkeypatch.chdir(ROOT)


def start(day: str) -> str:
    return run_here("job", "run", "etl", "--payload", json.dumps({"day": day})).stdout.strip()


def steps_of(run: str) -> dict[str, dict[str, Any]]:
    listed = json.loads(run_here("run", "steps", run, "--json").stdout)
    return {step["name"]: step for step in listed["items"]}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_commands_of_the_page_do_what_it_says() -> None:
    [up, graph, run, check, cancel] = [block.splitlines() for block in blocks("sh")]
    assert up == ["mainspring up etl:app"]
    drawn = run_here(*graph[0].split()[1:])
    [drawing] = re.findall(r"^```\n( +╭.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert drawn.stdout == drawing
    started = run_here(*run[0].split()[1:]).stdout.strip()
    followed = run_here(*run[1].replace("RUN", started).split()[1:])
    assert followed.returncode == ExitCode.DONE, followed.stdout + followed.stderr
    assert followed.stdout.splitlines()[-1].startswith(f"etl  {started}  SUCCEEDED")
    [yaml] = blocks("yaml")
    assert (ROOT / "examples" / "etl.yaml").read_text().startswith(yaml)
    for line in check:
        done = run_here(*line.split()[1:])
        assert done.returncode == 0, done.stderr
    assert run_here(*cancel[0].replace("RUN", started).split()[1:]).returncode == 0


def test_rules_of_the_page_are_those_that_there_are() -> None:
    from mainspring.core.workflows.rules import StepRule

    assert re.findall(r"^\| `([a-z_]+)` \| ", PAGE.read_text(), re.MULTILINE) == [*StepRule]


def test_code_of_the_page_is_a_workflow() -> None:
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)
    [body] = names["app"].definitions()
    assert [step["after"] for step in body["workflow"]["steps"]] == [[], ["extract"], ["clean"]]


@pytest.mark.parametrize(
    ("day", "status", "ends"),
    [
        ("today", "SUCCEEDED", {"report": "succeeded", "page": "skipped"}),
        ("odd", "SUCCEEDED", {"check": "failed", "load": "succeeded", "page": "succeeded"}),
        ("broken", "FAILED", {"load": "failed", "report": "upstream_failed", "page": "succeeded"}),
    ],
)
def test_steps_run_by_their_rules(day: str, status: str, ends: dict[str, str]) -> None:
    run = start(day)
    followed = run_here("workflow", "show", run, "--live")
    assert followed.returncode == (ExitCode.DONE if status == "SUCCEEDED" else ExitCode.NOT_WELL)
    shown = json.loads(run_here("run", "show", run, "--json").stdout)
    assert shown["status"] == status
    steps = steps_of(run)
    assert {name: steps[name]["status"] for name in ends} == ends
    assert steps["extract"]["run_id"] is not None
    assert all(step["reason"] for step in steps.values() if step["run_id"] is None)
    own = json.loads(run_here("run", "show", steps["extract"]["run_id"], "--json").stdout)
    assert (own["status"], own["payload"]) == ("SUCCEEDED", {"day": day})
    if status == "FAILED":
        assert "load" in shown["error"]
        assert steps["report"]["reason"] == "load failed"
        drawn = run_here("workflow", "show", run).stdout
        assert re.search(r"✗ load \S+", drawn)
        assert re.search(r"^report +UPSTREAM_FAILED +- +- +- +load failed$", drawn, re.MULTILINE)


def test_workflow_is_a_job_like_others(tmp_path: Path) -> None:
    file = tmp_path / "etl.json"
    exported = json.loads(run_here("export", "etl", "--json").stdout)
    file.write_text(json.dumps(exported))
    assert run_here("diff", file, "--check").returncode == ExitCode.DONE
    page = exported["jobs"][0]["workflow"]["steps"][5]
    page["rule"] = "all_failed"
    file.write_text(json.dumps(exported))
    told = run_here("diff", file).stdout
    assert "    target.steps.page.rule: one_failed -> all_failed\n" in told
    toml = tmp_path / "etl.toml"
    toml.write_text(run_here("export", "etl").stdout)
    assert run_here("diff", toml, "--check").returncode == ExitCode.DONE
    shown = run_here("job", "show", "etl").stdout
    assert re.search(r"^target +workflow of 6 steps", shown, re.MULTILINE)


def test_check_tells_all_that_is_wrong_each_on_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    steps = [
        {"name": "clean", "function": "etl.clean", "after": ["check"]},
        {"name": "check", "function": "etl.chekc", "after": ["clean"]},
        {"name": "load", "function": "etl.load", "after": ["chekc"]},
    ]
    file.write_text(json.dumps({"jobs": [{"name": "bad", "workflow": {"steps": steps}}]}))
    place = f"{file}: job 'bad': workflow"
    for command in (("workflow", "check"), ("apply",), ("diff",)):
        refused = run_here(*command, file)
        assert refused.returncode == ExitCode.REFUSED
        told = [line.removeprefix("error: ") for line in refused.stderr.splitlines()]
        assert told[0].startswith(f"{place}.steps[1].function: no worker has registered 'etl.chekc'")
        assert told[1:] == [
            f"{place}.steps[2].after[0]: there is no step 'chekc'; did you mean 'check'?",
            f"{place}.steps[0].after[0]: cycle: clean → check → clean",
        ]


@pytest.mark.parametrize(
    ("form", "begin", "line"),
    [
        ("mermaid", "flowchart LR", '    s5["page<br>rule one_failed"]'),
        ("dot", 'digraph "etl" {', '    "load" -> "page";'),
    ],
)
def test_graph_is_written_for_other_programs(form: str, begin: str, line: str) -> None:
    lines = run_here("workflow", "graph", "etl", "--format", form).stdout.splitlines()
    assert lines[0] == begin
    assert line in lines


def test_graph_as_json_is_that_of_the_api() -> None:
    graph = json.loads(run_here("workflow", "graph", "etl", "--format", "json").stdout)
    assert graph["levels"] == [["extract"], ["clean", "check"], ["load"], ["report", "page"]]


def test_a_workflow_goes_on_where_it_failed_and_undoes_what_it_did(tmp_path: Path) -> None:
    body = {
        "name": "again",
        "workflow": {
            "steps": [
                {"name": "first", "function": "etl.extract"},
                {"name": "second", "function": "etl.clean", "after": ["first"]},
                {"name": "free", "function": "etl.clean", "undoes": "second"},
                {"name": "third", "function": "etl.load", "after": ["second"], "retry": {"max_retries": 0}},
            ]
        },
    }
    file = tmp_path / "again.json"
    file.write_text(json.dumps(body))
    assert run_here("job", "add", "--body", file).returncode == 0
    drawn = run_here("workflow", "graph", "again").stdout
    assert re.search(r"^free +undoes second$", drawn, re.MULTILINE)
    run = run_here("job", "run", "again", "--payload", '{"day": "broken"}').stdout.strip()
    await_that("the run has ended", lambda: _status(run) == "FAILED")
    assert steps_of(run)["free"]["status"] == "succeeded"
    refused = run_here("run", "retry", run, "--from", "frist")
    assert refused.returncode == ExitCode.REFUSED
    assert "from[0]: there is no step 'frist'; did you mean 'first'?" in refused.stderr
    refused = run_here("run", "retry", run, "--from", "first", "--whole")
    assert "--from: does not go with --whole" in refused.stderr
    retried = run_here("run", "retry", run, "--wait", "30", "--json")
    again = json.loads(retried.stdout)[0]["retried_as"]
    steps = steps_of(again)
    assert (steps["first"]["status"], steps["first"]["reason"]) == ("succeeded", f"taken over from {run}")
    assert steps["second"]["run_id"] is not None, "it was undone"
    dead = run_here("run", "retry", steps["third"]["run_id"])
    assert f"is of a step of {again}; redrive that run" in dead.stderr
    whole = run_here("run", "retry", again, "--whole", "--wait", "30", "--json")
    assert steps_of(json.loads(whole.stdout)[0]["retried_as"])["first"]["run_id"] is not None


def test_cancel_ends_a_workflow(tmp_path: Path) -> None:
    body = {
        "name": "slow",
        "workflow": {
            "steps": [
                {"name": "first", "function": "etl.extract", "labels": ["none"]},
                {"name": "second", "function": "etl.load", "after": ["first"]},
            ]
        },
    }
    file = tmp_path / "slow.json"
    file.write_text(json.dumps(body))
    assert run_here("job", "add", "--body", file).returncode == 0
    run = run_here("job", "run", "slow").stdout.strip()
    await_that("the first step waits", lambda: steps_of(run)["first"]["status"] == "live")
    assert steps_of(run)["second"]["reason"] == "waits for first"
    assert run_here("run", "cancel", run).returncode == 0
    await_that("the run has ended", lambda: _status(run) == "CANCELLED")
    assert {name: step["status"] for name, step in steps_of(run).items()} == {
        "first": "cancelled",
        "second": "upstream_failed",
    }


def _status(run: str) -> str:
    status: str = json.loads(run_here("run", "show", run, "--json").stdout)["status"]
    return status
