"""Crontabs in Debian's syntax: what is read, what is refused and where."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.definition import read_definition
from mainspring.importers.crontab import read_crontab
from mainspring.importers.found import ImportedJob, ImportedMail

EXAMPLES = Path(__file__).parents[3] / "examples"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def only(text: str, *, system: bool = False, seconds: bool = False, tz: str = "UTC") -> ImportedJob:
    found = read_crontab(text, system=system, seconds=seconds, tz=tz)
    assert found.problems == ()
    (entry,) = found.entries
    return entry


def target(text: str, **options: Any) -> dict[str, Any]:
    value: dict[str, Any] = only(text, **options).body["target"]
    return value


def problem(text: str, **options: Any) -> tuple[int | str, str, str]:
    found = read_crontab(text, **{"system": False, "seconds": False, **options})
    (fault,) = found.problems
    assert found.entries == ()
    return fault.place, fault.field, fault.message


def test_an_entry_is_a_job() -> None:
    entry = only("# comment\n\n  */5 \t 8-18 * * Mon-Fri   /usr/bin/backup --all\n")
    assert entry.place == 3
    assert entry.body == {
        "name": "backup-all",
        "cron": "*/5 8-18 * * Mon-Fri",
        "tz": "UTC",
        "target": {"type": "shell", "command": "/usr/bin/backup --all", "shell": True, "cwd": "~"},
        "retry": {"max_retries": 0},
    }
    assert entry.next_fires(NOW, 1) == [datetime(2026, 3, 2, 8, tzinfo=UTC)]


def test_blanks_within_a_command_stay() -> None:
    assert target("* * * * * echo 'a  b'\tc")["command"] == "echo 'a  b'\tc"


def test_system_has_a_user() -> None:
    entry = only("17 * * * *\troot\tcd / && run-parts /etc/cron.hourly", system=True)
    assert entry.body["target"]["user"] == "root"
    assert entry.body["target"]["command"] == "cd / && run-parts /etc/cron.hourly"


@pytest.mark.parametrize("line", ["-*/15 * * * * root run", "  -5 1 * * *\troot run", "-@hourly root run"])
def test_a_dash_in_front_is_about_the_system_log_only(line: str) -> None:
    marked = read_crontab(line, system=True, seconds=False)
    plain = read_crontab(line.replace("-", "", 1), system=True, seconds=False)
    assert marked == plain
    assert len(marked.entries) == 1
    assert marked.problems == ()


def test_a_dash_is_for_the_users_own_crontab_of_root_too() -> None:
    assert only("-0 3 * * * run").body["cron"] == "0 3 * * *"


@pytest.mark.parametrize("line", ["- 0 3 * * * root run", "--5 3 * * * root run", "-", "-\t"])
def test_a_dash_alone_is_no_time(line: str) -> None:
    assert problem(line, system=True)[1] in {"expression", "minute"}


def test_a_byte_order_mark_is_skipped_where_a_file_begins() -> None:
    assert only("\ufeff0 3 * * * run").body["cron"] == "0 3 * * *"
    assert target("\ufeffA=b\n* * * * * x")["env"] == {"A": "b"}
    assert read_crontab("\ufeff# comment\n", system=False, seconds=False).problems == ()
    assert problem("# comment\n\ufeff0 3 * * * run")[:2] == (2, "expression")


def test_seconds_come_first() -> None:
    entry = only("*/10 * * * * * tick", seconds=True)
    assert entry.next_fires(NOW, 1) == [datetime(2026, 3, 1, 0, 0, 10, tzinfo=UTC)]


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
    lines = ["CRON_TZ=Europe/Berlin", "CRON_TZ=:Asia/Tokyo", "CRON_TZ="]
    text = "\n".join(["0 0 * * * a", *(f"{line}\n0 0 * * * {index}" for index, line in enumerate(lines))])
    found = read_crontab(text, system=False, seconds=False, tz="America/New_York")
    zones = ["America/New_York", "Europe/Berlin", "Asia/Tokyo", "America/New_York"]
    assert [entry.body["tz"] for entry in found.entries] == zones
    assert all("env" not in entry.body["target"] for entry in found.entries)


@pytest.mark.parametrize("value", ["Asia/Tokyo", ":Asia/Tokyo", "CET-1CEST", "Mars/Base", ""])
def test_tz_is_for_the_command_and_moves_no_time(value: str) -> None:
    found = read_crontab(f"TZ={value}\n0 0 * * * a", system=False, seconds=False, tz="Europe/Berlin")
    assert (found.problems, found.notes) == ((), ())
    (entry,) = found.entries
    assert entry.body["tz"] == "Europe/Berlin"
    assert entry.body["target"]["env"] == {"TZ": value}


def test_both_zones_do_not_mix() -> None:
    entry = only("CRON_TZ=Europe/Berlin\nTZ=Asia/Tokyo\n0 0 * * * a")
    assert (entry.body["tz"], entry.body["target"]["env"]) == ("Europe/Berlin", {"TZ": "Asia/Tokyo"})


def test_an_unknown_zone_is_a_problem_and_so_is_every_entry_in_it() -> None:
    found = read_crontab("CRON_TZ=Mars/Base\n0 0 * * * a", system=False, seconds=False)
    assert [(fault.place, fault.field) for fault in found.problems] == [(1, "CRON_TZ"), (2, "tz")]
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


@pytest.mark.parametrize("word", ["@reboot", "@REBOOT"])
def test_what_runs_at_the_start_of_the_machine_runs_at_that_of_the_scheduler(word: str) -> None:
    found = read_crontab(
        f"{word} root warm-up --all\n0 1 * * * root warm-up --all", system=True, seconds=False
    )
    assert found.problems == ()
    first, second = found.entries
    assert (first.body["schedule"], "tz" in first.body) == ("@reboot", False)
    assert first.next_fires(NOW, 3) == []
    assert second.next_fires(NOW, 1)
    assert first.name != second.name
    (note,) = found.notes
    assert (note.place, "the first server" in note.message) == (1, True)


def test_another_shell_is_an_argument_list() -> None:
    found = target("SHELL=/bin/bash\n* * * * * [[ a ]] && b")
    assert found["command"] == ["/bin/bash", "-c", "[[ a ]] && b"]
    assert "shell" not in found


def test_home_is_the_folder() -> None:
    assert target("HOME=/srv\n* * * * * x")["cwd"] == "/srv"


def test_what_cron_would_do_and_this_does_not_is_noted() -> None:
    found = read_crontab("MAILFROM=root\nLOGNAME=x\n0 0 1 * 1 x", system=False, seconds=False)
    assert [note.place for note in found.notes] == [1, 2, 3]
    assert "MAILFROM" in str(found.notes[0])
    assert "env" not in found.entries[0].body["target"]


def test_whom_to_mail_is_kept_beside_the_command_as_under_cron() -> None:
    found = read_crontab('MAILTO=ops\n0 0 * * * a\nMAILTO=""\n0 1 * * * b', system=False, seconds=False)
    assert [entry.body["target"]["env"] for entry in found.entries] == [{"MAILTO": "ops"}, {"MAILTO": ""}]
    (note,) = found.notes
    assert note.place == 1
    assert "names no mail address" in note.message
    assert found.mails == ()


def test_whom_to_mail_is_told_when_a_job_fails() -> None:
    text = "MAILTO=ops@example.com\n0 0 * * * a\nMAILTO=b@x.org, a@x.org\n0 1 * * * b\nMAILTO=\n0 2 * * * c"
    found = read_crontab(text, system=False, seconds=False)
    assert [entry.body.get("notify") for entry in found.entries] == [
        {"to": ["mail-ops-example.com"]},
        {"to": ["mail-b-x.org-a-x.org"]},
        None,
    ]
    assert found.mails == (
        ImportedMail("mail-ops-example.com", ("ops@example.com",)),
        ImportedMail("mail-b-x.org-a-x.org", ("b@x.org", "a@x.org")),
    )
    assert [note.place for note in found.notes] == [1, 3]
    assert "a mail comes when a job fails" in found.notes[0].message


def test_a_channel_of_many_addresses_has_a_short_name() -> None:
    addresses = ",".join(f"somebody{number}@example.com" for number in range(9))
    found = read_crontab(f"MAILTO={addresses}\n0 0 * * * a", system=False, seconds=False)
    (mail,) = found.mails
    assert len(mail.channel) == 64


def test_a_random_time_is_the_one_that_the_server_chooses_by_the_name() -> None:
    found = read_crontab("0~59 3 * * * a\n0~59 3 * * * b", system=False, seconds=False)
    assert [note.place for note in found.notes] == [1, 2]
    fires = [entry.next_fires(NOW, 2) for entry in found.entries]
    assert fires[0] != fires[1]
    assert all(second - first == timedelta(days=1) for first, second in fires)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("61 * * * * x", "minute"),
        ("* 24 * * * x", "hour"),
        ("* * 32 * * x", "day of month"),
        ("* * * 13 * x", "month"),
        ("* * * * 8 x", "day of week"),
        ("0 0 30 2 * x", "day of month"),
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


@pytest.mark.parametrize("user", ["root", "www-data", "_apt", "host$", "a", "systemd-network", "u" * 32])
def test_names_that_users_have(user: str) -> None:
    assert target(f"0 3 * * * {user} backup --all", system=True)["user"] == user


@pytest.mark.parametrize(
    "user",
    ["/usr/bin/backup", "Root", "0", "-x", '"$BIN/run"', "a.b", "cd;", "[", "A=b", "a$b", "é", "u" * 33],
)
def test_a_word_that_is_no_user_is_not_taken_for_one(user: str) -> None:
    line, field, message = problem(f"# first\n0 3 * * * {user} --all", system=True)
    assert (line, field) == (2, "user")
    assert user[:20] in message
    assert "0 3 * * * root COMMAND" in message
    assert "--system" in message


def test_five_fields_where_six_are_wanted() -> None:
    assert problem("*/5 * * * * tick", seconds=True)[1] in {"day of week", "command"}


def names(text: str, *, system: bool = False) -> dict[str, str]:
    """By name, what a line became."""
    found = read_crontab(text, system=system, seconds=False)
    assert found.problems == ()
    bodies = {entry.name: {**entry.body, "name": ""} for entry in found.entries}
    assert len(bodies) == len(found.entries)
    return {name: json.dumps(body, sort_keys=True) for name, body in bodies.items()}


SAME_COMMAND = [
    "0 1 * * * root a",
    "0 2 * * * root a",
    "0 1 * * * nobody a",
    "0 1 * * * root /opt/a",
    "0 1 * * * root a >/dev/null",
    "0 1 * * * root a%1",
    "0 1 * * * root a%2",
    "0 5 * * * root b",
]


@given(st.permutations(SAME_COMMAND))
def test_names_do_not_depend_on_the_order_of_lines(lines: list[str]) -> None:
    found = names("\n".join(lines), system=True)
    assert found == names("\n".join(SAME_COMMAND), system=True)
    assert "b" in found


def test_a_name_that_is_shared_says_no_more_than_it_must() -> None:
    assert set(names("0 1 * * * a\n0 2 * * * b")) == {"a", "b"}
    found = sorted(names("0 1 * * * a\n0 2 * * * a\n0 2 * * * b"))
    assert [re.sub("[0-9a-f]{6}", "#", name) for name in found] == ["a-#", "a-#", "b"]


def test_a_further_line_of_a_command_leaves_the_names_of_several() -> None:
    two = names("0 1 * * * a\n0 2 * * * a")
    assert names("0 3 * * * a\n0 2 * * * a\n0 1 * * * a").items() >= two.items()


def test_lines_that_differ_by_their_environment_or_zone_only() -> None:
    first, second = "A=1\n0 1 * * * a\n", "A=2\n0 1 * * * a\n"
    assert names(first + second) == names(second + first)
    first, second = "CRON_TZ=Asia/Tokyo\n0 1 * * * a\n", "CRON_TZ=Europe/Berlin\n0 1 * * * a\n"
    assert names(first + second) == names(second + first)


def test_lines_that_are_wholly_the_same_are_numbered() -> None:
    assert set(names("0 1 * * * a\n0 1 * * * a\n0 1 * * * a")) == {"a", "a-2", "a-3"}
    lines = ["0 1 * * * a", "0 1 * * * a", "0 2 * * * a"]
    assert names("\n".join(lines)) == names("\n".join(reversed(lines)))


def test_a_name_that_another_command_gives_is_not_taken() -> None:
    lines = ["0 1 * * * a", "0 1 * * * a", "0 1 * * * a 2"]
    assert names("\n".join(lines)) == names("\n".join(reversed(lines)))
    (hashed,) = names("0 1 * * * a\n0 2 * * * a").keys() - names("0 2 * * * a\n0 3 * * * a").keys()
    lines = ["0 1 * * * a", "0 2 * * * a", f"0 1 * * * {hashed}"]
    assert names("\n".join(lines)) == names("\n".join(reversed(lines)))


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
    lines = {entry.place for entry in found.entries} | {fault.place for fault in found.problems}
    assert lines <= set(range(1, text.count("\n") + 2))
