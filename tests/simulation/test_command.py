"""The simulator's command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tools.simulator import __main__ as command
from tools.simulator.draw import make_plan
from tools.simulator.plan import read_plan

KEPT = Path(__file__).parent / "regressions" / "edit-during-a-pause.json"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(command.main, [str(argument) for argument in arguments])


def test_replay_tells_the_plan_and_the_verdict(tmp_path: Path) -> None:
    log, kept = tmp_path / "log", tmp_path / "plan.json"
    done = call("--replay", 7, "--log", log, "--keep", kept, "--shrink")
    assert done.exit_code == 0, done.output
    assert done.output.endswith("good\n")
    assert len(log.read_text().splitlines()) > 100
    assert read_plan(kept.read_bytes()) == make_plan(7)


def test_replay_takes_a_kept_plan() -> None:
    done = call("--replay", KEPT)
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "good")


def test_short_campaign_is_void_and_says_what_it_missed() -> None:
    done = call("--seeds", 2, "--first", 5, "--processes", 1)
    assert done.exit_code == 3
    [line] = [line for line in done.output.splitlines() if line.startswith("{")]
    summary = json.loads(line)
    assert (summary["seeds"], summary["failed"]) == (2, [])
    assert "crash_before_take_shards" in summary["never_met"]
    assert "void: " in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--replay", "nowhere.json"], "'nowhere.json' is neither a seed nor a file that can be read"),
        (["--replay", __file__], "is not a plan"),
        (["--replay", "-1"], "'-1' is neither a seed nor a file"),
        (["--replay", "1", "--log", "/no/such/folder/log"], "/no/such/folder/log cannot be written"),
        (["--shrink"], "--shrink goes with --replay"),
        (["--seeds", "abc"], "'abc' is not a valid integer"),
        (["--seeds", "0"], "0 is not in the range"),
        (["--store", "redis"], "'redis' is not one of 'memory', 'sqlite'"),
    ],
)
def test_bad_arguments_get_a_clear_error(arguments: list[str], message: str) -> None:
    done = call(*arguments)
    assert done.exit_code in {1, 2}
    assert message in done.output
    assert "Traceback" not in done.output
