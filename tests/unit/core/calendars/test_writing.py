"""What a write keeps: versions that never change, followers, and refusals of what could not be resolved."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.calendars.spec import read_calendar
from mainspring.core.calendars.writing import DEEPEST, plan_write
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 5, tzinfo=UTC)
ONE = {"date": "2026-01-01"}


class Shelf:
    """The calendars of a tenant, written one after the other."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], CalendarVersion] = {}

    def write(self, name: str, *rules: dict[str, Any]) -> list[str]:
        newest: dict[str, CalendarVersion] = {}
        for (each, _), version in sorted(self.known.items()):
            newest[each] = version
        last = newest[name].version if name in newest else 0
        present = {each: version for each, version in newest.items() if not version.is_deleted}
        versions = plan_write(
            tenant="t",
            name=name,
            spec=read_calendar({"rules": list(rules)}),
            newest=present,
            last=last,
            known=self.known,
            now=NOW,
        )
        self.known |= {(one.name, one.version): one for one in versions}
        return [one.label for one in versions]

    def delete(self, name: str) -> None:
        self.known = {
            key: replace(one, is_deleted=one.is_deleted or key[0] == name) for key, one in self.known.items()
        }


def test_the_same_again_is_no_version() -> None:
    shelf = Shelf()
    assert shelf.write("a", ONE) == ["a@1"]
    assert shelf.write("a", ONE) == []
    assert shelf.write("a", {"yearly": "01-01"}) == ["a@2"]


def test_followers_get_a_version_each() -> None:
    shelf = Shelf()
    shelf.write("a", ONE)
    shelf.write("b", {"union": ["a"]})
    shelf.write("c", {"union": ["a@1"]})
    shelf.write("d", {"union": ["a"]}, {"intersect": ["b", "c"]})
    assert shelf.known["d", 1].resolved == {"a": 1, "b": 1, "c": 1}
    assert sorted(shelf.write("a", {"yearly": "05-01"})) == ["a@2", "b@2", "d@2"]
    assert shelf.known["d", 2].resolved == {"a": 2, "b": 2, "c": 1}
    assert shelf.known["b", 1].resolved == {"a": 1}


def test_numbers_go_on_after_a_delete() -> None:
    shelf = Shelf()
    shelf.write("a", ONE)
    shelf.delete("a")
    with pytest.raises(InvalidInput, match="no calendar named 'a'"):
        shelf.write("b", {"union": ["a"]})
    assert shelf.write("b", {"union": ["a@1"]}) == ["b@1"]
    assert shelf.write("a", ONE) == ["a@2"]


@pytest.mark.parametrize(
    ("rule", "field", "message"),
    [
        ({"union": ["x"]}, "rules[1].union[0]", "there is no calendar named 'x'"),
        ({"minus": "b@7"}, "rules[1].minus[0]", "there is no calendar 'b@7'"),
        ({"union": ["a"]}, "rules", "name the calendar itself: a names a"),
        ({"intersect": ["b"]}, "rules", "name the calendar itself: a names b names a"),
        ({"intersect": ["b@1"]}, "rules", "name the calendar itself: a names b names a"),
    ],
)
def test_what_cannot_be_resolved_is_refused(rule: dict[str, Any], field: str, message: str) -> None:
    shelf = Shelf()
    shelf.write("a", ONE)
    shelf.write("b", {"union": ["a"]})
    with pytest.raises(InvalidInput, match=message) as caught:
        shelf.write("a", ONE, rule)
    assert caught.value.field == field
    assert set(shelf.known) == {("a", 1), ("b", 1)}


def test_calendars_lie_eight_deep_at_most() -> None:
    shelf = Shelf()
    shelf.write("c1", ONE)
    for number in range(2, DEEPEST + 1):
        shelf.write(f"c{number}", {"union": [f"c{number - 1}"]})
    with pytest.raises(InvalidInput, match="would lie 9 calendars deep"):
        shelf.write("c9", {"union": ["c8"]})
    shelf.write("base", ONE)
    with pytest.raises(InvalidInput, match="'c8', which names it,"):
        shelf.write("c1", {"union": ["base"]})
