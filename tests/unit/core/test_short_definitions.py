"""What a person is given to edit makes the same job again; what differs is told field by field."""

from __future__ import annotations

import tomllib
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.toml_text import as_json, read_toml, write_toml
from mainspring.core.definition import plain_from_spec, read_definition
from mainspring.core.definition.changes import FieldChange, compare_definitions
from mainspring.core.definition.short import shorten_definition
from mainspring.core.model import JobSpec
from mainspring.errors import InvalidInput
from tests.unit.core.test_definition import NOW, specs


def has_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(has_null, value.values()))
    return value is None or (isinstance(value, list | tuple) and any(map(has_null, value)))


@given(specs)
def test_short_form_makes_the_same_job(spec: JobSpec) -> None:
    short = shorten_definition(plain_from_spec(spec))
    assert read_definition(short, now=NOW, old=spec.trigger) == spec


@given(specs)
def test_toml_makes_the_same_job(spec: JobSpec) -> None:
    short = shorten_definition(plain_from_spec(spec))
    if has_null(short):
        with pytest.raises(InvalidInput, match="is null, which TOML cannot hold"):
            write_toml(short)
        return
    text = write_toml(short)
    assert read_definition(read_toml(text, "file"), now=NOW, old=spec.trigger) == spec


@pytest.mark.parametrize(
    "body",
    [
        {"name": "a", "function": "f", "cron": "0 9 * * *", "tz": "Europe/Berlin"},
        {"name": "a", "command": ["ls", "-l"], "timeout": "10m"},
        {"name": "a", "callback_url": "https://example.com/", "priority": "HIGH"},
        {"name": "a", "function": "f", "retry": {"max_retries": 5, "delay": "10s"}},
        {"name": "a", "function": "f", "cron": "0 9 * * *", "starts_at": "2026-12-01T00:00:00+00:00"},
        {"name": "a", "function": "f", "concurrency": [{"key": "$.customer", "limit": 2}]},
        {"name": "a", "function": "f", "unique": {"key": "$.order"}},
        {
            "name": "a",
            "function": "f",
            "calendars": {"exclude": ["holidays"], "roll": "next"},
            "cron": "@daily",
        },
        {"name": "a", "function": "f", "batch": {"size": 100, "wait": "2s"}},
        {"name": "a", "function": "f", "any_of": ["every day at 9:00", "every sunday at 11:00"]},
    ],
    ids=str,
)
def test_what_is_written_short_stays_short(body: dict[str, Any]) -> None:
    spec = read_definition(body, now=NOW)
    short = shorten_definition(plain_from_spec(spec))
    assert read_definition(read_toml(write_toml(short), "file"), now=NOW) == spec
    if "any_of" not in body and body.get("cron") != "@daily":
        assert short.keys() == body.keys()


def test_differences_are_told_by_field() -> None:
    old = read_definition({"name": "a", "function": "f", "cron": "0 9 * * *", "payload": {"x": 1}}, now=NOW)
    new = read_definition(
        {
            "name": "a",
            "function": "f",
            "every": "1h",
            "payload": {"x": True, "y": None},
            "retry": {"max_retries": 9},
        },
        now=NOW,
    )
    changes = compare_definitions(plain_from_spec(old), plain_from_spec(new))
    assert [(one.field, one.before, one.after) for one in changes if one.field != "trigger"] == [
        ("payload.x", 1, True),
        ("payload.y", None, None),
        ("retry.max_retries", old.retry.max_retries, 9),
    ]
    (trigger,) = (one for one in changes if one.field == "trigger")
    assert (trigger.before["type"], trigger.after["type"]) == ("cron", "interval")
    assert compare_definitions(plain_from_spec(old), plain_from_spec(old)) == []


LATER = NOW + timedelta(hours=3, microseconds=17)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"every": "1h"}, {"every": "2h"}, ["trigger.every_seconds"]),
        ({"every": "1h"}, {"every": "2h", "queue": "q"}, ["queue", "trigger.every_seconds"]),
        (
            {"every": "1h"},
            {"every": "2h", "starts_at": "2026-05-01T00:00:00Z"},
            ["trigger.every_seconds", "trigger.starts_at"],
        ),
        (
            {"every": "1h"},
            {"trigger": {"type": "interval", "every": "2h", "anchor": "2026-01-01T00:00:00Z"}},
            ["trigger.anchor", "trigger.every_seconds"],
        ),
        (
            {"calendar_interval": "2 weeks"},
            {"calendar_interval": "2 months"},
            ["trigger.day", "trigger.every", "trigger.weekday"],
        ),
        (
            {"every": "1h"},
            {"trigger": {"type": "interval", "every": "1h", "anchor": "2026-01-01T00:00:00Z"}},
            ["trigger.anchor"],
        ),
    ],
)
def test_an_anchor_is_told_if_it_was_given(old: dict[str, Any], new: dict[str, Any], told: list[str]) -> None:
    head = {"name": "a", "function": "f"}
    before = read_definition({**head, **old}, now=NOW)
    after = read_definition({**head, **new}, now=LATER, old=before.trigger)
    plain = plain_from_spec(before), plain_from_spec(after)
    assert sorted(one.field for one in compare_definitions(*plain, made_at=LATER)) == told
    with_anchor = {one.field for one in compare_definitions(*plain)}
    assert with_anchor == {*told, "trigger.anchor"}
    assert {one.field for one in compare_definitions(*plain, made_at=LATER + timedelta(1))} >= set(told)


@given(specs, specs)
def test_no_difference_means_the_same_definition(one: JobSpec, other: JobSpec) -> None:
    changes: list[FieldChange] = compare_definitions(plain_from_spec(one), plain_from_spec(other))
    assert (changes == []) == (one == other)


JSON = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_toml_keeps_all_that_it_can_hold(value: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(value)) == value


@pytest.mark.parametrize("text", ["set -e\necho 'a'\n", "a\nb'", "'''\n", "a\r\nb", "\\\n\x7f", "\n\n"])
def test_texts_of_several_lines_are_kept(text: str) -> None:
    assert tomllib.loads(write_toml({"command": text})) == {"command": text}


def test_instants_of_toml_become_text() -> None:
    read = read_toml("a = 2026-12-01T09:00:00+01:00\nb = [2026-12-01, 09:00:00]\n", "file")
    assert read == {"a": "2026-12-01T09:00:00+01:00", "b": ["2026-12-01", "09:00:00"]}
    assert as_json({"x": [1]}) == {"x": [1]}


def test_wrong_toml_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidInput, match=r"file: is not TOML: .*line 2"):
        read_toml("a = 1\nb = = 2\n", "file")
    with pytest.raises(InvalidInput, match="file: is not TOML"):
        read_toml("a = " + "[" * 100_000, "file")
