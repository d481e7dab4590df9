"""Crontabs in Debian's syntax: what is read, what is refused and where."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.definition import read_definition
from mainspring.importers.crontab import CrontabEntry, read_crontab

EXAMPLES = Path(__file__).parents[3] / "examples"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def only(text: str, *, system: bool = False, seconds: bool = False, tz: str = "UTC") -> CrontabEntry:
    found = read_crontab(text, system=system, seconds=seconds, tz=tz)
    assert found.problems == ()
    (entry,) = found.entries
    return entry


def target(text: str, **options: Any) -> dict[str, Any]:
    value: dict[str, Any] = only(text, **options).body["target"]
    return value


def problem(text: str, **options: Any) -> tuple[int, str, str]:
    found = read_crontab(text, **{"system": False, "seconds": False, **options})
    (fault,) = found.problems
    assert found.entries == ()
    return fault.line, fault.field, fault.message


def test_an_entry_is_a_job() -> None:
    entry = only("# comment\n\n  */5 \t 8-18 * * Mon-Fri   /usr/bin/backup --all\n")
    assert entry.line == 3
    assert entry.body == {
        "name": "backup-all",
        "cron": "*/5 8-18 * * Mon-Fri",
        "tz": "UTC",
        "target": {"type": "shell", "command": "/usr/bin/backup --all", "shell": True, "cwd": "~"},
        "retry": {"max_retries": 0},
    }
    assert entry.cron.next_after(NOW) == datetime(2026, 3, 2, 8, tzinfo=UTC)


def test_blanks_within_a_command_stay() -> None:
    assert target("* * * * * echo 'a  b'\tc")["command"] == "echo 'a  b'\tc"


def test_system_has_a_user() -> None:
    entry = only("17 * * * *\troot\tcd / && run-parts /etc/cron.hourly", system=True)
    assert entry.body["target"]["user"] == "root"
    assert entry.body["target"]["command"] == "cd / && run-parts /etc/cron.hourly"


def test_seconds_come_first() -> None:
    entry = only("*/10 * * * * * tick", seconds=True)
    assert entry.cron.next_after(NOW) == datetime(2026, 3, 1, 0, 0, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "macro", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"]
)
@pytest.mark.parametrize("seconds", [False, True])
def test_macros(macro: str, seconds: bool) -> None:
    entry = only(f"{macro} nobody tidy up", system=True, seconds=seconds)
    assert entry.body["cron"] == macro
    assert entry.body["target"]["command"] == "tidy up"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b c ", "b c"),
        ("A = b", "b"),
        ('A=" b "', " b "),
        ("'A' = 'b\"'", 'b"'),
        ("A=", ""),
        ("A=$HOME/x", "$HOME/x"),
        ("A=\"b' ", "\"b'"),
        ("A=b=c # no comment", "b=c # no comment"),
    ],
)
def test_environment(line: str, value: str) -> None:
    assert target(f"{line}\n* * * * * x")["env"] == {"A": value}


def test_environment_holds_for_what_follows_only() -> None:
    found = read_crontab("0 0 * * * a\nA=1\n1 0 * * * b\nA=2\n2 0 * * * c", system=False, seconds=False)
    assert [entry.body["target"].get("env") for entry in found.entries] == [None, {"A": "1"}, {"A": "2"}]


def test_zones_hold_for_what_follows() -> None:
    lines = ["CRON_TZ=Europe/Berlin", "TZ=Asia/Tokyo", "CRON_TZ=", "TZ="]
    text = "\n".join(["0 0 * * * a", *(f"{line}\n0 0 * * * {index}" for index, line in enumerate(lines))])
    found = read_crontab(text, system=False, seconds=False, tz="America/New_York")
    zones = ["America/New_York", "Europe/Berlin", "Europe/Berlin", "Asia/Tokyo", "America/New_York"]
    assert [entry.body["tz"] for entry in found.entries] == zones
    assert [entry.body["target"].get("env") for entry in found.entries] == [
        None,
        None,
        {"TZ": "Asia/Tokyo"},
        {"TZ": "Asia/Tokyo"},
        None,
    ]


def test_an_unknown_zone_is_a_problem_and_so_is_every_entry_in_it() -> None:
    found = read_crontab("CRON_TZ=Mars/Base\n0 0 * * * a", system=False, seconds=False)
    assert [(fault.line, fault.field) for fault in found.problems] == [(1, "CRON_TZ"), (2, "tz")]
    assert found.entries == ()


def test_the_default_zone_is_checked() -> None:
    assert problem("0 0 * * * a", tz="Nowhere")[1] == "tz"


@pytest.mark.parametrize(
    ("rest", "command", "stdin"),
    [
        ("mail root%Hello%there", "mail root", "Hello\nthere\n"),
        (r"date +\%Y-\%m", "date +%Y-%m", None),
        (r"cat%100\%%done", "cat", "100%\ndone\n"),
        ("cat%", "cat", None),
        ("cat%a%", "cat", "a\n"),
        (r"printf a\\%b", r"printf a\\", "b\n"),
        (r"grep '\.x' f", r"grep '\.x' f", None),
    ],
)
def test_percent(rest: str, command: str, stdin: str | None) -> None:
    found = target(f"* * * * * {rest}")
    assert (found["command"], found.get("stdin")) == (command, stdin)


def test_another_shell_is_an_argument_list() -> None:
    found = target("SHELL=/bin/bash\n* * * * * [[ a ]] && b")
    assert found["command"] == ["/bin/bash", "-c", "[[ a ]] && b"]
    assert "shell" not in found


def test_home_is_the_folder() -> None:
    assert target("HOME=/srv\n* * * * * x")["cwd"] == "/srv"


def test_what_cron_would_do_and_this_does_not_is_noted() -> None:
    found = read_crontab('MAILTO=root\nMAILTO=""\nLOGNAME=x\n0 0 1 * 1 x', system=False, seconds=False)
    assert [note.line for note in found.notes] == [1, 3, 4]
    assert "MAILTO" in str(found.notes[0])
    assert "env" not in found.entries[0].body["target"]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("61 * * * * x", "minute"),
        ("* 24 * * * x", "hour"),
        ("* * 32 * * x", "day of month"),
        ("* * * 13 * x", "month"),
        ("* * * * 8 x", "day of week"),
        ("0 0 30 2 * x", "day of month"),
        ("@reboot x", "expression"),
        ("@fortnightly x", "expression"),
        ("* * * *", "expression"),
        ("* * * * *", "command"),
        ("@daily", "command"),
        ("* * * * * %input", "target.command"),
        ("MAINSPRING_RUN_ID=1", "MAINSPRING_RUN_ID"),
        ("* * * * * " + "x" * 9000, "target.command"),
        ("* * * * * a\0b", "target.command"),
    ],
)
def test_problems_name_line_and_field(line: str, field: str) -> None:
    number, found, message = problem(f"# first\n{line}\n")
    assert (number, found) == (2, field)
    assert message


def test_a_system_line_without_a_command_is_a_problem() -> None:
    assert problem("* * * * * root", system=True)[:2] == (1, "command")
    assert problem("* * * * *", system=True)[:2] == (1, "user")


def test_five_fields_where_six_are_wanted() -> None:
    assert problem("*/5 * * * * tick", seconds=True)[1] in {"day of week", "command"}


def test_names_are_unique_and_do_not_move() -> None:
    text = "0 1 * * * a\n0 2 * * * a\n0 2 * * * a\n"
    names = [entry.name for entry in read_crontab(text, system=False, seconds=False).entries]
    assert len(set(names)) == 3
    assert names[0] == "a"
    again = [
        entry.name for entry in read_crontab("5 5 * * * z\n" + text, system=False, seconds=False).entries
    ]
    assert again == ["z", *names]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/sbin/logrotate /etc/logrotate.conf >/dev/null 2>&1", "logrotate-logrotate.conf"),
        ('"$BIN/effect.sh" backup', "effect.sh-backup"),
        ("${X}/run.py&>>/tmp/log", "run.py"),
        ("!!!", "command"),
        ("ÄÖ", "command"),
        ("word " * 40, "-".join(["word"] * 12)),
    ],
)
def test_names_come_from_commands(command: str, name: str) -> None:
    found = only(f"* * * * * {command}").name
    assert found == name


def test_line_ends_of_windows() -> None:
    assert target("* * * * * x\r\n")["command"] == "x"


@pytest.mark.parametrize(("name", "least"), [("system", 20), ("seconds", 6)])
def test_examples(name: str, least: int) -> None:
    is_system = name == "system"
    text = (EXAMPLES / f"crontab.{name}").read_text()
    found = read_crontab(text, system=is_system, seconds=not is_system)
    assert found.problems == ()
    assert len(found.entries) >= least
    assert len({entry.name for entry in found.entries}) == len(found.entries)
    for entry in found.entries:
        assert '"$EXAMPLES/effect.sh" ' in entry.body["target"]["command"]
        assert read_definition(entry.body, now=NOW).target.params["env"].keys() >= {"EXAMPLES", "EFFECTS_DIR"}


@given(st.text(st.sampled_from("*/ \t\n%\\=@#0159-,LWAa\"'$é\0\ud800")), st.booleans(), st.booleans())
def test_any_text_gives_entries_or_problems(text: str, system: bool, seconds: bool) -> None:
    found = read_crontab(text, system=system, seconds=seconds)
    for entry in found.entries:
        read_definition(entry.body, now=NOW)
    lines = {entry.line for entry in found.entries} | {fault.line for fault in found.problems}
    assert lines <= set(range(1, text.count("\n") + 2))
