"""`mainspring next` and the frame of the command line, in this process."""

import json

import pytest
from click.testing import CliRunner

import mainspring
from mainspring import Cron
from mainspring.cli.main import cli, run_command

BERLIN = ["next", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-03-28T00:00:00Z", "--count", "3"]


def output(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_times_in_utc_and_in_the_zone() -> None:
    assert output(*BERLIN).splitlines() == [
        Cron("30 2 * * *", tz="Europe/Berlin").explain(),
        "UTC                   Europe/Berlin              in",
        "2026-03-28T01:30:00Z  2026-03-28 02:30:00+01:00  1h30m",
        "2026-03-29T01:00:00Z  2026-03-29 03:00:00+02:00  1d1h",
        "2026-03-30T00:30:00Z  2026-03-30 02:30:00+02:00  2d30m",
    ]


def test_json() -> None:
    found = json.loads(output(*BERLIN, "--dst", "skip/first", "--json"))
    assert found["explanation"] == Cron("30 2 * * *", tz="Europe/Berlin").explain()
    assert found["next"][1] == {
        "utc": "2026-03-30T00:30:00Z",
        "local": "2026-03-30T02:30:00+02:00",
        "dst": None,
    }
    assert found["trigger"] == {
        "type": "cron",
        "expression": "30 2 * * *",
        "tz": "Europe/Berlin",
        "dst": "skip/first",
    }
    assert found["warnings"] == [
        "on 2026-03-29, clocks in Europe/Berlin go ahead, and there is no 02:30; it does not fire then",
        "on 2026-10-25, clocks in Europe/Berlin go back, and 02:30 comes twice; it fires once, at 00:30 UTC",
    ]


def test_warnings_go_to_stderr() -> None:
    done = CliRunner().invoke(cli, ["next", "0 0 13 * FRI"])
    assert "warning: both day fields are restricted" in done.stderr
    assert "warning" not in done.stdout


def test_words_are_understood_and_a_name_chooses_slots() -> None:
    instant = ["--after", "2026-12-01T00:00:00Z", "--count", "1"]
    found = json.loads(output("next", "every 2 weeks on monday at 9:30 Europe/Berlin", *instant, "--json"))
    assert (
        found["explanation"] == "every 2 weeks on Monday, at 09:30 (Europe/Berlin), counted from 2026-12-07"
    )
    one, other = (
        json.loads(output("next", "H H * * *", "--name", name, *instant, "--json"))["trigger"]["chosen"]
        for name in ("a", "b")
    )
    assert one != other


def test_what_cannot_be_read_is_refused_with_what_may_be_meant() -> None:
    done = CliRunner().invoke(cli, ["next", "every mondey at 9"])
    assert "did you mean 'every monday at 9'?" in str(done.exception)


def test_the_only_fire_left_is_all_there_is() -> None:
    found = json.loads(
        output("next", "0 0 29 2 *", "--after", "2026-01-01T00:00:00Z", "--count", "2", "--json")
    )
    assert [fire["utc"] for fire in found["next"]] == ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]


def test_version_and_help() -> None:
    assert output("--version") == f"mainspring {mainspring.__version__}\n"
    for command in ("up", "worker", "job", "run", "next", "import"):
        assert command in output("--help")
        assert "Usage" in output(command, "--help")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["next", "x"], 2),
        (["nope"], 2),
        (["next", "@daily"], 0),
        (["job", "list", "--limit", "0"], 2),
    ],
)
def test_exit_codes(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(arguments) == code
    assert (capsys.readouterr().err != "") == (code != 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run list --limit x", "limit: 'x' is not a whole number from 1 to 1000000"),
        ("job list --limit 0", "limit: 0 is not between 1 and 1000000"),
        ("next @daily --count 1.5", "count: '1.5' is not a whole number from 1 to 10000"),
        ("job add a --retries x", "retries: 'x' is not a whole number from 0 to 1000"),
        ("job add a --retries -5", "retries: -5 is not between 0 and 1000"),
        ("job run a --wait x", "wait: must be 0 or more seconds, not 'x'"),
        ("job run a --wait nan", "wait: must be 0 or more seconds, not 'nan'"),
    ],
)
def test_a_number_that_is_none_is_refused_with_what_would_be_right(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(arguments.split()) == 2
    assert capsys.readouterr().err == f"error: {said}\n"


def test_a_table_on_a_terminal_has_the_same_cells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mainspring.cli.output import print_table

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(("A", "B"), [("[red]x[/red]", None)], empty="")
    shown = capsys.readouterr().out
    assert "[red]x[/red]" in shown
    assert "-" in shown
