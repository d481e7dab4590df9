"""Priority classes, and what of them a definition takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.model import Priority
from mainspring.core.priorities import PriorityClass, class_named, copy_class, read_class, read_priority
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NIGHT = PriorityClass(name="night", tier=Priority.LOW, preemptible=True)
URGENT = PriorityClass(name="urgent", tier=Priority.MEDIUM, preempts=True)
CLASSES = [NIGHT, URGENT]


def read(**body: Any) -> Any:
    return read_definition(copy_class({"name": "a", "function": "a", **body}, CLASSES), now=NOW)


def test_a_class_is_read_with_its_defaults() -> None:
    assert read_class("night", {"tier": "low"}) == PriorityClass(name="night", tier=Priority.LOW)
    body = {"tier": "LOW", "preempts": False, "preemptible": True}
    assert read_class("night", body) == NIGHT


@pytest.mark.parametrize(
    ("name", "body", "field", "words"),
    [
        ("high", {"tier": "HIGH"}, "class", "is the name of a tier"),
        ("a b", {"tier": "HIGH"}, "class", ""),
        ("night", {}, "tier", "is missing"),
        ("night", {"tier": "night"}, "tier", "must be one of HIGH, MEDIUM, LOW"),
        ("night", {"tier": "LOW", "preempts": True}, "preempts", "no tier is lower than LOW"),
        ("night", {"tier": "LOW", "preemptible": 1}, "preemptible", "true or false"),
        ("night", {"tier": "LOW", "weight": 1}, "weight", "no such field"),
    ],
)
def test_a_wrong_class_is_refused(name: str, body: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_class(name, body)
    assert refused.value.field == field
    assert words in refused.value.message


@pytest.mark.parametrize("value", ["HIGH", "low", "Medium", None, 3, ["night"]])
def test_a_tier_names_no_class(value: object) -> None:
    assert class_named(value) is None


def test_a_priority_is_a_tier_or_a_name() -> None:
    assert read_priority("low", "priority") is Priority.LOW
    assert read_priority(Priority.HIGH, "priority") is Priority.HIGH
    assert read_priority("night", "priority") == "night"
    for wrong in (3, "a b", ""):
        with pytest.raises(InvalidInput):
            read_priority(wrong, "priority")


def test_a_definition_takes_the_values_of_its_class() -> None:
    spec = read(priority="night")
    assert (spec.priority, spec.preempts, spec.preemptible) == (Priority.LOW, False, True)
    assert spec_from_plain(plain_from_spec(spec)) == spec


def test_what_the_definition_says_goes_before_its_class() -> None:
    assert not read(priority="night", preemptible=False).preemptible
    assert not read(priority="urgent", preempts=False).preempts


def test_an_unknown_class_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidInput, match="there are night, urgent") as refused:
        read(priority="nigth")
    assert refused.value.field == "priority"


def test_a_tier_given_later_ends_what_the_class_said_of_preempting() -> None:
    spec = read(priority="urgent")
    patched = edit_definition(spec, copy_class({"priority": "LOW"}, CLASSES), now=NOW)
    assert (patched.priority, patched.preempts) == (Priority.LOW, None)
    kept = edit_definition(spec, copy_class({"queue": "mail"}, CLASSES), now=NOW)
    assert (kept.priority, kept.preempts) == (Priority.MEDIUM, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"preemptible": True, "delivery": "at_most_once"}, "preemptible"),
        ({"priority": "night", "delivery": "at_most_once"}, "preemptible"),
        ({"preempts": True, "priority": "LOW"}, "preempts"),
        ({"preempts": "yes"}, "preempts"),
        ({"preemptible": True, "batch": {"size": 2}}, "preemptible"),
        ({"priority": "night", "batch": {"size": 2}}, "preemptible"),
        ({"preemptible": None}, "preemptible"),
    ],
)
def test_what_does_not_go_together_is_refused(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(**body)
    assert refused.value.field == field


def test_a_delivery_given_later_is_the_field_that_is_wrong() -> None:
    with pytest.raises(InvalidInput) as refused:
        edit_definition(read(preemptible=True), {"delivery": "at_most_once"}, now=NOW)
    assert refused.value.field == "delivery"
