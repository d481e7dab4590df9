"""The isolation of functions in definitions, and which workers get their runs."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.abilities import plain_labels
from mainspring.core.claiming import accepts_route
from mainspring.core.definition import edit_definition, read_definition
from mainspring.core.definition.short import shorten_definition
from mainspring.core.model import JobSpec
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START


def read(**body: Any) -> JobSpec:
    return read_definition({"name": "x", **body}, now=START)


def test_short_and_full_form_say_the_same() -> None:
    short = read(function="f", isolation="process")
    full = read(target={"type": "function", "function": "f", "isolation": "process"})
    assert short.target == full.target
    assert short.target.params == {"function": "f", "isolation": "process"}


@pytest.mark.parametrize("body", [{"function": "f"}, {"function": "f", "isolation": None}])
def test_without_it_a_target_is_kept_as_before(body: dict[str, Any]) -> None:
    assert read(**body).target.params == {"function": "f"}


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"function": "f", "isolation": "thread"}, "isolation", "process"),
        ({"target": {"type": "function", "function": "f", "isolation": 1}}, "target.isolation", "process"),
        ({"command": ["ls"], "isolation": "process"}, "isolation", "goes with function, not with command"),
        ({"function": "f", "isolation": "process", "batch": {"size": 2}}, "batch", "isolation"),
    ],
)
def test_what_does_not_fit_is_refused(body: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(**body)
    assert refused.value.field == field
    assert words in refused.value.message


def test_edit_to_isolation_names_the_field_that_was_given() -> None:
    spec = read(function="f", batch={"size": 2})
    with pytest.raises(InvalidInput) as refused:
        edit_definition(spec, {"function": "f", "isolation": "process"}, now=START)
    assert refused.value.field == "isolation"


def test_only_workers_with_processes_get_its_runs() -> None:
    route = read(function="f", isolation="process", labels=["gpu"]).route
    assert route == "function:f+gpu+*process"

    def accepts(*labels: str) -> bool:
        return accepts_route(route, types=frozenset(), functions=frozenset({"f"}), labels=frozenset(labels))

    assert accepts("gpu", "*process")
    assert not accepts("gpu")
    assert read(function="f", isolation="process", concurrency=1).route == "function:f+*process+*keys"


def test_no_label_of_a_user_stands_for_it() -> None:
    with pytest.raises(InvalidInput, match="labels"):
        read(function="f", labels=["*process"])


def test_definition_in_short_keeps_it() -> None:
    target = {"type": "function", "function": "f", "isolation": "process"}
    full = {"name": "x", "target": target, "trigger": None}
    assert shorten_definition(full) == {"name": "x", "function": "f", "isolation": "process"}


def test_users_see_their_own_labels_alone() -> None:
    assert plain_labels(["*batch", "*process", "gpu"]) == ["gpu"]
