"""Tables: what a user may write, what it means, and what is refused with which words."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.core.cron import Cron
from mainspring.core.definition import plain_from_spec, read_definition
from mainspring.core.definition.read import OTHER_NAMES, known_fields
from mainspring.core.model import INLINE_LIMIT, JobSpec, Misfire, Priority, Target
from mainspring.core.retry import Backoff
from mainspring.core.triggers import Interval, Once
from mainspring.errors import InvalidInput, PayloadTooLarge

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
BASE = {"name": "report", "function": "mail.send"}
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


def read(**fields: Any) -> JobSpec:
    return read_definition({**BASE, **fields}, now=NOW)


def read_target(**fields: Any) -> Target:
    return read_definition({"name": "report", **fields}, now=NOW).target


def refusal(body: dict[str, Any], **options: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        read_definition(body, now=NOW, **options)
    return caught.value


def test_defaults_are_those_of_the_model() -> None:
    assert read() == JobSpec(name="report", target=Target("function", {"function": "mail.send"}))


def test_the_request_of_the_requirements_is_read() -> None:
    spec = read_definition(
        {
            "name": "daily-report",
            "cron": "0 9 * * *",
            "callback_url": "https://api.example.org/reports",
            "priority": "HIGH",
            "payload": {"team": "Zürich", "n": 2**70},
        },
        now=NOW,
    )
    assert spec.trigger == Cron("0 9 * * *")
    assert spec.target == Target(
        "http", {"url": "https://api.example.org/reports", "method": "POST", "headers": {}}
    )
    assert spec.priority is Priority.HIGH
    assert spec.payload == '{"team":"Zürich","n":1180591620717411303424}'.encode()


@pytest.mark.parametrize(
    ("fields", "trigger"),
    [
        ({"cron": "0 9 * * *"}, Cron("0 9 * * *")),
        (
            {"cron": "@daily", "tz": "Europe/Berlin", "dst": "skip/both"},
            Cron("@daily", tz="Europe/Berlin", dst="skip/both"),
        ),
        ({"cron": "*/2 * * * * *"}, Cron("*/2 * * * * *")),
        ({"every": "90s"}, Interval(90 * SECOND, NOW)),
        ({"every": "1h30m"}, Interval(5400 * SECOND, NOW)),
        ({"every": 1.5}, Interval(1.5 * SECOND, NOW)),
        ({"every": timedelta(minutes=5)}, Interval(300 * SECOND, NOW)),
        ({"run_at": "2026-01-05T13:30:00+01:00"}, Once(datetime(2026, 1, 5, 12, 30, tzinfo=UTC))),
        ({"run_at": "2026-01-06T00:00:00Z"}, Once(datetime(2026, 1, 6, tzinfo=UTC))),
        ({"run_at": NOW + SECOND}, Once(NOW + SECOND)),
        ({"trigger": None}, None),
        ({"cron": None}, None),
        ({"trigger": {"type": "cron", "expression": "@hourly"}}, Cron("@hourly")),
        ({"trigger": {"type": "interval", "every_seconds": 60}}, Interval(60 * SECOND, NOW)),
        (
            {"trigger": {"type": "interval", "every": "2d", "anchor": "2020-01-01T00:00:00Z"}},
            Interval(2 * DAY, datetime(2020, 1, 1, tzinfo=UTC)),
        ),
        ({"trigger": {"type": "once", "at": "2026-01-06T00:00:00Z"}}, Once(datetime(2026, 1, 6, tzinfo=UTC))),
    ],
)
def test_trigger_forms(fields: dict[str, Any], trigger: object) -> None:
    assert read(**fields).trigger == trigger


@pytest.mark.parametrize(
    ("fields", "params"),
    [
        ({"function": "a.b"}, {"function": "a.b"}),
        ({"target": {"type": "function", "function": "a.b"}}, {"function": "a.b"}),
        ({"command": ["ls", "-l", ""]}, {"command": ["ls", "-l", ""], "shell": False}),
        ({"command": "ls | wc", "shell": True}, {"command": "ls | wc", "shell": True}),
        (
            {"target": {"type": "shell", "command": ["a"], "env": {}, "cwd": None}},
            {"command": ["a"], "shell": False},
        ),
        (
            {
                "target": {
                    "type": "shell",
                    "command": ["a"],
                    "env": {"KEY": "two\nlines"},
                    "stdin": "x\n",
                    "user": "root",
                }
            },
            {"command": ["a"], "shell": False, "env": {"KEY": "two\nlines"}, "user": "root", "stdin": "x\n"},
        ),
        (
            {
                "target": {
                    "type": "http",
                    "url": "https://a.example",
                    "method": "head",
                    "headers": {"X-Team": "é"},
                }
            },
            {"url": "https://a.example", "method": "HEAD", "headers": {"X-Team": "é"}},
        ),
    ],
)
def test_target_forms(fields: dict[str, Any], params: dict[str, Any]) -> None:
    assert read_target(**fields).params == params


@pytest.mark.parametrize(
    ("value", "duration"),
    [
        (0, timedelta(0)),
        (30, 30 * SECOND),
        (0.25, timedelta(milliseconds=250)),
        ("250ms", timedelta(milliseconds=250)),
        ("1.5m", 90 * SECOND),
        ("0h59m60s", timedelta(hours=1)),
        (timedelta(seconds=7), 7 * SECOND),
    ],
)
def test_durations_in_all_forms(value: object, duration: timedelta) -> None:
    assert read(jitter=value).jitter == duration
    if not isinstance(value, str):
        assert read(jitter_seconds=value).jitter == duration


def test_policies_are_read() -> None:
    spec = read(
        priority="low",
        queue="reports",
        labels=["gpu", "eu", "gpu"],
        retry={"max_retries": 0, "backoff": "fixed", "delay": "1s", "cap_seconds": 60, "jitter": 0},
        misfire={"policy": "fire_all", "grace": "5m", "max_count": 10, "max_age": "1d"},
        overlap="skip",
        delivery="at_most_once",
        timeout="10m",
        soft_timeout="9m",
        expires_after="1h",
        poison_limit=1,
    )
    plain = plain_from_spec(spec)
    assert plain["priority"] == "LOW"
    assert plain["labels"] == ["eu", "gpu"]
    assert plain["retry"] == {
        "max_retries": 0,
        "backoff": "fixed",
        "delay_seconds": 1,
        "cap_seconds": 60,
        "delays_seconds": [],
        "jitter": 0.0,
    }
    assert plain["misfire"] == {
        "policy": "fire_all",
        "grace_seconds": 300,
        "max_count": 10,
        "max_age_seconds": 86400,
    }
    assert (plain["overlap"], plain["delivery"], plain["poison_limit"]) == ("skip", "at_most_once", 1)
    assert (plain["timeout_seconds"], plain["soft_timeout_seconds"], plain["expires_after_seconds"]) == (
        600,
        540,
        3600,
    )


def test_python_values_are_read_as_their_texts() -> None:
    assert read(priority=Priority.HIGH).priority is Priority.HIGH
    assert read(misfire="skip").misfire.policy is Misfire.SKIP


@pytest.mark.parametrize(
    "name", ["job_1", "job_" + "0" * 25, "job_" + "u" * 26, "JOB_" + "0" * 26, "run_" + "0" * 14, " a", "job"]
)
def test_names_that_are_no_ids(name: str) -> None:
    assert read(name=name).name == name


def test_the_shortest_grace() -> None:
    assert read(misfire={"policy": "skip", "grace": 1}).misfire.grace == SECOND


def test_delays_alone_mean_a_list() -> None:
    retry = read(retry={"delays": ["1s", 5]}).retry
    assert retry.backoff is Backoff.LIST
    assert retry.delays == (SECOND, 5 * SECOND)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"name": ""}, "name", "1 to 200 characters"),
        ({"name": "x" * 201}, "name", "not 201"),
        ({"name": "a\nb"}, "name", "cannot be printed"),
        ({"name": "a\0b"}, "name", "cannot be printed"),
        ({"name": "\ud800"}, "name", "cannot be printed"),
        ({"name": 7}, "name", "must be text in quotes, not a number"),
        ({"name": None}, "name", "not null"),
        ({"name": "   "}, "name", "is blank"),
        ({"name": "job_" + "0" * 26}, "name", "looks like a job's id"),
        ({"name": "job_" + "zIL" + "A" * 23}, "name", "looks like a job's id"),
        ({"name": "run_" + "0" * 13}, "name", "looks like a run's id"),
        ({"misfire": {"policy": "skip", "grace": 0}}, "misfire.grace", "must be at least 1s, not 0s"),
        ({"misfire": {"grace_seconds": 0.999}}, "misfire.grace_seconds", "must be at least 1s, not 999ms"),
        ({"misfire": {"grace": "3651d"}}, "misfire.grace", "between 0s and 3650d"),
        ({"prioritty": "HIGH"}, "prioritty", "did you mean 'priority'?"),
        ({"callback": "https://a"}, "callback", "did you mean 'callback_url'?"),
        ({"zzz": 1}, "zzz", "known are"),
        ({"retries": 3}, "retries", "did you mean 'retry.max_retries'?"),
        ({"timezone": "UTC"}, "timezone", "did you mean 'tz'?"),
        ({"\x1b[31m": 1}, r"'\x1b[31m'", "no such field"),
        ({"cron": "61 * * * *"}, "cron", "minute: '61'"),
        ({"cron": "0 0 30 2 *"}, "cron", "never fires"),
        ({"cron": "* * * *"}, "cron", "4 fields"),
        ({"cron": "@reboot"}, "cron", "@reboot"),
        ({"cron": 5}, "cron", "must be text like"),
        ({"cron": "* * * * *", "tz": "Mars/Base"}, "tz", "'Mars/Base' is not a time zone"),
        ({"cron": "* * * * *", "tz": "../../etc/passwd"}, "tz", "not a time zone"),
        ({"cron": "* * * * *", "tz": 1}, "tz", "IANA name"),
        ({"cron": "* * * * *", "dst": "never"}, "dst", "GAP/OVERLAP"),
        ({"tz": "UTC"}, "tz", "goes with cron"),
        ({"every": "90s", "tz": "UTC"}, "tz", "goes with cron or calendar_interval only"),
        ({"cron": "* * * * *", "every": "1m"}, "every", "says the same as 'cron'"),
        ({"cron": "* * * * *", "trigger": None}, "cron", "says the same as 'trigger'"),
        ({"every": "90"}, "every", "text like '90s'"),
        ({"every": "1 h"}, "every", "text like '90s'"),
        ({"every": "-5s"}, "every", "text like '90s'"),
        ({"every": 0.5}, "every", "between 1s and 3650d, not 500ms"),
        ({"every": "3651d"}, "every", "between 1s and 3650d"),
        ({"every": True}, "every", "not true or false"),
        ({"every": float("nan")}, "every", "nan is not a number of seconds, nor text like '90s'"),
        ({"every": "-Infinity"}, "every", "-Infinity is not a number of seconds"),
        ({"every": 10**400}, "every", "between"),
        ({"run_at": "2026-01-05T13:00:00"}, "run_at", "has no offset; write it like 2026"),
        ({"run_at": "2026-01-06"}, "run_at", "has no offset"),
        ({"run_at": "tomorrow"}, "run_at", "is not an instant; write it like"),
        ({"run_at": "2026-01-05T12:00:00Z"}, "run_at", "has passed"),
        ({"run_at": "2020-01-01T00:00:00Z"}, "run_at", "give an instant after 2026-01-05T12:00:00+00:00"),
        ({"run_at": "0001-01-01T00:00:00+14:00"}, "run_at", "out of range"),
        ({"run_at": 1767614400}, "run_at", "has passed"),
        ({"run_at": True}, "run_at", "must be an instant"),
        ({"trigger": "daily"}, "trigger", "must be an object"),
        (
            {"trigger": {}},
            "trigger.type",
            "one of after_end, any_of, at_start, calendar_interval, cron, event, interval, once",
        ),
        ({"trigger": {"type": "cron"}}, "trigger.expression", "is missing"),
        ({"trigger": {"type": "cron", "expression": "0 25 * * *"}}, "trigger.expression", "hour: '25'"),
        ({"trigger": {"type": "cron", "expression": "@daily", "tz": "X"}}, "trigger.tz", "not a time zone"),
        (
            {"trigger": {"type": "cron", "expresion": "@daily"}},
            "trigger.expresion",
            "did you mean 'expression'?",
        ),
        ({"trigger": {"type": "interval"}}, "trigger.every_seconds", "is missing"),
        (
            {"trigger": {"type": "interval", "every": "1s", "every_seconds": 1}},
            "trigger.every_seconds",
            "says the same",
        ),
        (
            {"trigger": {"type": "interval", "every": "1d", "anchor": "9999-12-31T00:00:00Z"}},
            "trigger.anchor",
            "out of range",
        ),
        ({"trigger": {"type": "once"}}, "trigger.at", "is missing"),
        ({"trigger": {"type": "once", "at": "2020-01-01T00:00:00Z"}}, "trigger.at", "has passed"),
        ({"priority": "URGENT"}, "priority", "HIGH, MEDIUM, LOW, not 'URGENT'"),
        ({"priority": 0}, "priority", "HIGH, MEDIUM, LOW"),
        ({"queue": "a b"}, "queue", "A-Z a-z 0-9"),
        ({"queue": "é"}, "queue", "A-Z a-z 0-9"),
        ({"queue": "x" * 65}, "queue", "1 to 64"),
        ({"labels": "gpu"}, "labels", "must be a list"),
        ({"labels": ["ok", "not ok"]}, "labels[1]", "A-Z a-z 0-9"),
        ({"labels": [str(n) for n in range(17)]}, "labels", "at most 16"),
        (
            {"retry": 3},
            "retry",
            "must be an object of max_retries, backoff, delay, cap, delays, jitter, rules, not a number",
        ),
        ({"retry": None}, "retry", "not null; leave it out instead"),
        ({"retry": {"max_retries": -1}}, "retry.max_retries", "between 0 and 1000"),
        ({"retry": {"max_retries": 1001}}, "retry.max_retries", "between 0 and 1000"),
        ({"retry": {"max_retries": True}}, "retry.max_retries", "whole number"),
        (
            {"retry": {"max_retries": 1.5}},
            "retry.max_retries",
            "must be a whole number from 0 to 1000, not 1.5",
        ),
        ({"retry": {"retries": 1}}, "retry.retries", "did you mean 'max_retries'?"),
        ({"retry": {"backoff": "quadratic"}}, "retry.backoff", "fixed, linear, exponential, list"),
        ({"retry": {"delay": -1}}, "retry.delay", "not a negative time"),
        ({"retry": {"delay_seconds": 31 * 86400}}, "retry.delay_seconds", "between 0s and 30d"),
        ({"retry": {"delay": 1, "delay_seconds": 1}}, "retry.delay_seconds", "says the same"),
        ({"retry": {"jitter": 1.5}}, "retry.jitter", "from 0 to 1"),
        ({"retry": {"jitter": float("nan")}}, "retry.jitter", "from 0 to 1"),
        ({"retry": {"backoff": "list"}}, "retry.delays", "at least one"),
        ({"retry": {"backoff": "list", "delays_seconds": []}}, "retry.delays_seconds", "at least one"),
        ({"retry": {"backoff": "fixed", "delays": [1]}}, "retry.delays", "goes with backoff 'list'"),
        ({"retry": {"delays": [1, "x"]}}, "retry.delays[1]", "text like"),
        ({"misfire": "ignore"}, "misfire", "skip, fire_latest, fire_all"),
        ({"misfire": 1}, "misfire", "must be one of skip, fire_latest, fire_all, or an object"),
        (
            {"misfire": None},
            "misfire",
            "or an object of policy, grace, max_count, max_age, not null; leave it out instead",
        ),
        ({"misfire": {"policy": "ignore"}}, "misfire.policy", "skip, fire_latest, fire_all"),
        ({"misfire": {"max_count": 0}}, "misfire.max_count", "between 1 and 100000"),
        ({"overlap": "queue"}, "overlap", "allow, skip"),
        ({"delivery": "twice"}, "delivery", "at_least_once"),
        ({"timeout": 0}, "timeout", "between 1ms and 30d"),
        ({"timeout_seconds": "31d"}, "timeout_seconds", "between 1ms and 30d"),
        ({"timeout": None}, "timeout", "not null"),
        (
            {"timeout": "10s", "soft_timeout_seconds": 10},
            "soft_timeout_seconds",
            "shorter than the timeout, 10s",
        ),
        ({"jitter": "2h"}, "jitter", "between 0s and 1h"),
        ({"expires_after": 0}, "expires_after", "between 1ms"),
        ({"poison_limit": 0}, "poison_limit", "between 1 and 100"),
        ({"payload": float("nan")}, "payload", "is not JSON"),
        ({"payload": {"a": [float("inf")]}}, "payload.a[0]", "is not JSON"),
        ({"payload": {1: 2}}, "payload", "keys must be text"),
        ({"payload": "\udc00"}, "payload", "lone surrogate"),
        ({"payload": {"\ud800": 1}}, "payload", "lone surrogate"),
        ({"payload": {1, 2}}, "payload", "is not JSON"),
    ],
)
def test_refusals_name_the_field_and_what_is_right(fields: dict[str, Any], field: str, words: str) -> None:
    error = refusal({**BASE, **fields})
    assert (error.field, words in error.message) == (field, True), str(error)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({}, "target", "callback_url, function, command"),
        ({"function": "f", "callback_url": "https://a"}, "function", "'callback_url' is given already"),
        (
            {"function": "f", "target": {"type": "function", "function": "f"}},
            "function",
            "'target' is given already",
        ),
        ({"function": "a+b"}, "function", "no '+'"),
        ({"function": ""}, "function", "1 to 200"),
        ({"callback_url": "ftp://a"}, "callback_url", "must begin with https://"),
        ({"callback_url": "https://" + "a" * 2048}, "callback_url", "2048"),
        ({"command": "ls -l"}, "command", '"shell": true'),
        ({"command": ["ls"], "shell": True}, "command", "one text for /bin/sh -c"),
        ({"command": []}, "command", "is empty; give a list of 1 to 256 arguments, the program first"),
        (
            {"command": ["a"] * 257},
            "command",
            "has 257 arguments; give a list of 1 to 256 arguments, the program first",
        ),
        (
            {"command": {}},
            "command",
            "must be a list of 1 to 256 arguments, the program first, not an object",
        ),
        ({"command": [""]}, "command[0]", "names no program"),
        ({"command": ["ls", 1]}, "command[1]", "must be text"),
        ({"command": ["ls", "a\0b"]}, "command[1]", "without NUL"),
        ({"command": ["ls", "\udc00"]}, "command[1]", "must be text"),
        ({"command": ["x" * 8000] * 9}, "command", f"at most {INLINE_LIMIT}"),
        ({"command": "", "shell": True}, "command", "1 to 8192"),
        ({"command": ["ls"], "shell": "yes"}, "shell", "true or false"),
        (
            {"function": "f", "shell": True},
            "shell",
            "goes with command, not with function; remove shell, or give command instead of function",
        ),
        ({"shell": True}, "shell", "goes with command, which is not given; add command, or remove shell"),
        ({"target": {"type": "fax"}}, "target.type", "container, function, grpc, http, kubernetes, shell"),
        ({"target": {"type": ["http"]}}, "target.type", "container, function, grpc, http, kubernetes, shell"),
        ({"target": None}, "target", "must be an object"),
        ({"target": {"type": "http"}}, "target.url", "is missing"),
        ({"target": {"type": "http", "url": "https://a", "method": "BREW"}}, "target.method", "POST"),
        ({"target": {"type": "http", "url": "https://a", "body": "x"}}, "target.body", "no such field"),
        (
            {"target": {"type": "http", "url": "https://a", "headers": {"Host": "b"}}},
            "target.headers.Host",
            "set by",
        ),
        (
            {"target": {"type": "http", "url": "https://a", "headers": {"A(": "b"}}},
            "target.headers.A(",
            "header's name",
        ),
        (
            {"target": {"type": "http", "url": "https://a", "headers": {"A": "b\r\nC: d"}}},
            "target.headers.A",
            "one line",
        ),
        (
            {"target": {"type": "http", "url": "https://a", "headers": {1: "b"}}},
            "target.headers.a number",
            "text",
        ),
        (
            {
                "target": {
                    "type": "http",
                    "url": "https://a",
                    "headers": {f"A{n}": "b" * 4000 for n in range(3)},
                }
            },
            "target.headers",
            "8192",
        ),
        ({"target": {"type": "function"}}, "target.function", "is missing"),
        ({"target": {"type": "shell"}}, "target.command", "is missing"),
        ({"target": {"type": "shell", "command": ["a"], "env": []}}, "target.env", "must be an object"),
        (
            {"target": {"type": "shell", "command": ["a"], "env": {"A=B": ""}}},
            "target.env.A=B",
            "variable's name",
        ),
        ({"target": {"type": "shell", "command": ["a"], "env": {"A": 1}}}, "target.env.A", "must be text"),
        (
            {"target": {"type": "shell", "command": ["a"], "env": {"MAINSPRING_RUN_ID": "1"}}},
            "target.env.MAINSPRING_RUN_ID",
            "given by the worker",
        ),
        ({"target": {"type": "shell", "command": ["a"], "stdin": "a\0"}}, "target.stdin", "without NUL"),
    ],
)
def test_wrong_targets_are_refused(fields: dict[str, Any], field: str, words: str) -> None:
    error = refusal({"name": "report", **fields})
    assert (error.field, words in error.message) == (field, True), str(error)


def test_body_must_be_an_object_with_a_name() -> None:
    assert refusal([]).field == "body"  # type: ignore[arg-type]
    assert refusal({"function": "f"}).field == "name"


def test_types_that_are_off_are_refused() -> None:
    types = frozenset({"function", "http"})
    error = refusal({"name": "x", "command": ["ls"]}, types=types)
    assert (error.field, "--allow-shell" in error.message) == ("command", True)
    error = refusal({"name": "x", "target": {"type": "fax"}}, types=types)
    assert (error.field, error.message) == ("target.type", "must be one of function, http")
    error = refusal({"name": "x", "target": {"type": "grpc"}}, types=types)
    assert error.message == "grpc jobs are not enabled here; start the server with executors.grpc.enabled"


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ({"mail.send", "mail.sort"}, "known are mail.send"),
        ({"alpha", "beta"}, "known are alpha, beta"),
        (set(), "any"),
    ],
)
def test_unknown_functions_are_refused_with_some_that_are_known(functions: set[str], words: str) -> None:
    error = refusal({"name": "x", "function": "mail.sent"}, functions=frozenset(functions))
    assert error.field == "function"
    assert words in error.message
    read_definition({"name": "x", "function": "mail.sent"}, now=NOW, functions=frozenset({"mail.sent"}))


# -- payload ----------------------------------------------------------------------------------------------------------


def test_payload_up_to_the_limit_in_bytes_fits() -> None:
    text = "é" * ((INLINE_LIMIT - 2) // 2)
    assert len(read(payload=text).payload or b"") == INLINE_LIMIT
    error = refusal({**BASE, "payload": text + "x"})
    assert isinstance(error, PayloadTooLarge)
    assert error.field == "payload"


def test_payload_depth_is_measured_without_recursion() -> None:
    def nested(levels: int, value: object = 1) -> object:
        for level in range(levels):
            value = [value] if level % 2 else {"a": value}
        return value

    innermosts: list[object] = [1, [], {}]
    for innermost in innermosts:
        own = int(innermost != 1)  # an empty list is a level too
        read(payload=nested(64 - own, innermost))
        for levels in (65 - own, 100_000):
            assert "deeper than 64" in refusal({**BASE, "payload": nested(levels, innermost)}).message


def test_payload_null_is_none_and_false_values_are_kept() -> None:
    values: list[Any] = [0, False, "", [], {}]
    assert read(payload=None).payload is None
    assert [read(payload=value).payload for value in values] == [
        b"0",
        b"false",
        b'""',
        b"[]",
        b"{}",
    ]


def test_payload_is_kept_compact_in_the_order_given() -> None:
    assert (
        read(payload={"b": [1, 1.0, True], "a": "\u00fc\u2028\n"}).payload
        == '{"b":[1,1.0,true],"a":"ü\u2028\\n"}'.encode()
    )


@pytest.mark.parametrize("name", [".", ".."])
def test_steps_of_a_path_are_no_names(name: str) -> None:
    for field, value in (("queue", name), ("labels", [name]), ("calendars", {"exclude": [name]})):
        said = refusal({**BASE, field: value})
        assert said.field.startswith(field)
        assert f"must not be {name!r}" in said.message
    assert read(queue="...").queue == "..."


def test_names_of_other_tools_lead_to_fields_that_there_are() -> None:
    fields = known_fields()
    assert {name for name in OTHER_NAMES.values() if name.partition(".")[0] not in fields} == set()
    assert OTHER_NAMES.keys() & fields == set()
