"""`mainspring workflow check --offline`: a file is checked by itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.host.exit_codes import ExitCode
from tests.processes.processes import run_here

NOBODY = ("--server", "http://127.0.0.1:9")
STEPS: list[dict[str, Any]] = [
    {"name": "load", "function": "etl.load"},
    {"name": "report", "function": "etl.report", "after": ["load"]},
]


def check(folder: Path, document: object, *more: str) -> tuple[int, str, str]:
    file = folder / "etl.json"
    file.write_text(json.dumps(document))
    done = run_here("workflow", "check", file, "--offline", *NOBODY, *more)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_right_file_is_drawn(tmp_path: Path, is_listed: bool) -> None:
    job = {"name": "etl", "priority": "night-class", "cron": "@daily", "workflow": {"steps": STEPS}}
    code, out, err = check(tmp_path, {"jobs": [job]} if is_listed else job)
    assert (code, err) == (ExitCode.DONE, "")
    assert "2 steps on 2 levels" in out.splitlines()[0]
    assert "report" in out


def test_the_graph_as_json_is_that_of_a_server(tmp_path: Path) -> None:
    code, out, _ = check(tmp_path, {"workflow": {"steps": STEPS}}, "--json")
    assert code == ExitCode.DONE
    assert json.loads(out)[0]["levels"] == [["load"], ["report"]]


def test_all_that_is_wrong_is_told(tmp_path: Path) -> None:
    steps = [{**STEPS[0], "after": ["report"]}, {**STEPS[1], "rule": "any"}, {"name": "x", "after": ["laod"]}]
    code, _, err = check(tmp_path, {"jobs": [{"name": "bad", "workflow": {"steps": steps}}]})
    assert code == ExitCode.REFUSED
    assert "job 'bad': workflow.steps[2].after[0]: there is no step 'laod'; did you mean 'load'?" in err
    assert "workflow.steps[1].rule" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("body", [{"name": "x"}, {"name": "x", "command": ["ls"]}])
def test_what_has_no_steps_is_refused(tmp_path: Path, body: dict[str, object]) -> None:
    code, _, err = check(tmp_path, body)
    assert code == ExitCode.REFUSED
    assert "workflow: is missing; give an object of steps" in err
