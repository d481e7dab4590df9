"""Definitions of calendars: what is read is shown again, and what is wrong is refused by its path."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.calendars.spec import MOST_RULES, CalendarRef, read_calendar
from mainspring.errors import InvalidInput

EVERY: list[dict[str, Any]] = [
    {"date": "2026-12-24", "note": "Christmas Eve"},
    {"from": "2026-12-28", "to": "2026-12-31"},
    {"from": "2026-12-28T22:00:00", "to": "2026-12-29T04:30:00"},
    {"yearly": "02-29"},
    {"weekly": ["SAT", "SUN"]},
    {"weekly": ["MON-FRI"], "from": "22:00", "to": "06:00"},
    {"union": ["a", "b@3"]},
    {"intersect": ["a", "b"]},
    {"minus": ["c"]},
]


def test_every_rule_is_shown_as_it_was_written() -> None:
    body = {"tz": "Europe/Berlin", "rules": EVERY, "invert": True}
    spec = read_calendar(body)
    assert spec.plain() == body
    assert read_calendar(spec.plain()) == spec
    assert spec.refs() == [CalendarRef("a"), CalendarRef("b", 3), CalendarRef("b"), CalendarRef("c")]


def test_short_ways_to_write_are_taken() -> None:
    spec = read_calendar(
        {
            "rules": [
                {"weekly": "sat-mon"},
                {"union": "a"},
                {"from": "2026-01-01T08:00", "to": "2026-01-01T09:00"},
            ]
        }
    )
    assert spec.plain()["rules"] == [
        {"weekly": ["SAT-MON"]},
        {"union": ["a"]},
        {"from": "2026-01-01T08:00:00", "to": "2026-01-01T09:00:00"},
    ]
    assert [low // 86_400 for low, _ in spec.rules[0].weekly] == [0, 5, 6]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "rules"),
        ({"rules": []}, "rules"),
        ({"rules": [{"minus": "a"}]}, "rules"),
        ({"rules": [{"date": "2026-01-01"}] * (MOST_RULES + 1)}, "rules"),
        ({"rules": [{"weekly": ["SAT"]}] * 201}, "rules"),
        (
            {"rules": [{"union": [f"a{n}" for n in range(30)]}, {"union": [f"b{n}" for n in range(30)]}]},
            "rules",
        ),
        ({"rules": EVERY, "tz": "Mars/Phobos"}, "tz"),
        ({"rules": EVERY, "tz": 5}, "tz"),
        ({"rules": EVERY, "invert": "yes"}, "invert"),
        ({"rules": EVERY, "zone": "UTC"}, "zone"),
    ],
)
def test_a_wrong_definition_is_refused(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_calendar(body)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ("2026-12-24", "rules[0]"),
        ({}, "rules[0]"),
        ({"day": "2026-12-24"}, "rules[0]"),
        ({"date": "2026-12-24", "extra": 1}, "rules[0].extra"),
        ({"date": "2026-12-24", "yearly": "12-24"}, "rules[0].yearly"),
        ({"date": "2026-12-24", "from": "2026-12-24"}, "rules[0].from"),
        ({"date": "2026-02-30"}, "rules[0].date"),
        ({"date": "24.12.2026"}, "rules[0].date"),
        ({"date": "1926-12-24"}, "rules[0].date"),
        ({"date": 20261224}, "rules[0].date"),
        ({"date": "2026-12-24", "note": ""}, "rules[0].note"),
        ({"from": "2026-12-24"}, "rules[0].to"),
        ({"from": "2026-12-24", "to": "2026-12-23"}, "rules[0].to"),
        ({"from": "2026-12-24", "to": "2026-12-24T10:00"}, "rules[0].to"),
        ({"from": "2026-12-24T10:00", "to": "2026-12-24T10:00"}, "rules[0].to"),
        ({"from": "2026-12-24T10:00", "to": "2026-12-25"}, "rules[0].to"),
        ({"from": "2026-12-24T10:00+01:00", "to": "2026-12-25T10:00"}, "rules[0].from"),
        ({"yearly": "13-01"}, "rules[0].yearly"),
        ({"yearly": "5-1"}, "rules[0].yearly"),
        ({"weekly": []}, "rules[0].weekly"),
        ({"weekly": ["Montag"]}, "rules[0].weekly[0]"),
        ({"weekly": ["MON-"]}, "rules[0].weekly[0]"),
        ({"weekly": ["SAT"], "from": "22:00"}, "rules[0].to"),
        ({"weekly": ["SAT"], "to": "22:00"}, "rules[0].from"),
        ({"weekly": ["SAT"], "from": "22:00", "to": "22:00"}, "rules[0].to"),
        ({"weekly": ["SAT"], "from": "24:00", "to": "02:00"}, "rules[0].to"),
        ({"weekly": ["SAT"], "from": "22:00", "to": "24:01"}, "rules[0].to"),
        ({"weekly": ["SAT"], "from": "9:00", "to": "10:00"}, "rules[0].from"),
        ({"union": []}, "rules[0].union"),
        ({"union": ["a b"]}, "rules[0].union[0]"),
        ({"union": ["a@"]}, "rules[0].union[0]"),
        ({"union": ["a@0"]}, "rules[0].union[0]"),
        ({"minus": [7]}, "rules[0].minus[0]"),
    ],
)
def test_a_wrong_rule_is_refused_by_its_path(rule: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_calendar({"rules": [rule, {"weekly": ["SUN"]}]})
    assert caught.value.field == field
