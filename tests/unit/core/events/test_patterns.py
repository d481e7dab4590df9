"""Patterns fit what they say, refuse what they cannot mean, and never fail on an event."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.events.patterns import MOST_DEPTH, MOST_LEAVES, EventPattern, read_pattern
from mainspring.errors import InvalidInput

EVENT = {
    "type": "orders.paid",
    "key": "4711",
    "data": {
        "cents": 4200,
        "country": "DE",
        "tags": ["new", "gift"],
        "test": False,
        "note": None,
        "file": "a.csv",
    },
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


def fits(pattern: dict[str, Any], event: Any = EVENT) -> bool:
    return read_pattern(pattern, "pattern").matches(event)


@pytest.mark.parametrize(
    "pattern",
    [
        {"type": ["orders.paid"]},
        {"key": ["1", "4711"], "data": {"country": ["DE"]}},
        {"data": {"cents": [4200]}},
        {"data": {"cents": [4200.0]}},
        {"data": {"tags": ["gift"]}},
        {"data": {"note": [None]}},
        {"data": {"test": [False]}},
        {"data": {"country": [{"prefix": "D"}]}},
        {"data": {"file": [{"suffix": ".csv"}]}},
        {"data": {"country": [{"anything-but": ["AT", "CH"]}]}},
        {"data": {"country": [{"anything-but": "AT"}]}},
        {"data": {"cents": [{"numeric": [">", 0, "<=", 4200]}]}},
        {"data": {"cents": [{"numeric": ["=", 4200]}]}},
        {"data": {"discount": [{"exists": False}]}},
        {"data": {"cents": [{"exists": True}]}},
        {"data": {"discount": [{"exists": False}, 5]}},
        {"data": {"discount": [{"exists": False}, {"exists": True}]}},
        {"data": {"country": ["AT", {"prefix": "DE"}]}},
    ],
)
def test_fits(pattern: dict[str, Any]) -> None:
    assert fits(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        {"type": ["orders.sent"]},
        {"key": ["4711"], "data": {"country": ["AT"]}},
        {"data": {"test": [0]}},
        {"data": {"cents": ["4200"]}},
        {"data": {"cents": [True]}},
        {"data": {"country": [{"prefix": "E"}]}},
        {"data": {"cents": [{"prefix": "4"}]}},
        {"data": {"country": [{"anything-but": ["DE"]}]}},
        {"data": {"discount": [{"anything-but": [5]}]}},
        {"data": {"cents": [{"numeric": ["<", 4200]}]}},
        {"data": {"test": [{"numeric": ["=", 0]}]}},
        {"data": {"cents": [{"exists": False}]}},
        {"data": {"discount": [{"exists": True}]}},
        {"data": {"country": {"code": ["DE"]}}},
        {"more": {"of": ["this"]}},
    ],
)
def test_does_not_fit(pattern: dict[str, Any]) -> None:
    assert not fits(pattern)


@pytest.mark.parametrize(
    ("pattern", "field", "message"),
    [
        ([], "pattern", "must be an object that is nested as the event"),
        ({}, "pattern", "is empty"),
        ({"data": {}}, "pattern.data", "is empty"),
        ({"data": 5}, "pattern.data", "write it in brackets"),
        ({"data": []}, "pattern.data", "nothing fits"),
        ({"data": [[1]]}, "pattern.data[0]", "not a list"),
        ({"data": [{"like": "a"}]}, "pattern.data[0]", "must have one of prefix"),
        ({"data": [{"prefix": "a", "suffix": "b"}]}, "pattern.data[0]", "must have one of prefix"),
        ({"data": [{"prefix": 5}]}, "pattern.data[0].prefix", "must be text"),
        ({"data": [{"exists": "yes"}]}, "pattern.data[0].exists", "true or false"),
        ({"data": [{"anything-but": []}]}, "pattern.data[0].anything-but", "a list of values"),
        ({"data": [{"anything-but": [{"a": 1}]}]}, "pattern.data[0].anything-but", "a list of values"),
        ({"data": [{"numeric": 5}]}, "pattern.data[0].numeric", "a comparison"),
        ({"data": [{"numeric": [">"]}]}, "pattern.data[0].numeric", "a comparison"),
        ({"data": [{"numeric": ["~", 5]}]}, "pattern.data[0].numeric", "a comparison"),
        ({"data": [{"numeric": [">", "5"]}]}, "pattern.data[0].numeric", "a comparison"),
        ({"data": [{"numeric": [">", True]}]}, "pattern.data[0].numeric", "a comparison"),
        ({"data": list(range(MOST_LEAVES + 1))}, "pattern", "at most 64"),
        ({"data": ["x" * 5000]}, "pattern", "at most 4,096"),
    ],
)
def test_refuses(pattern: Any, field: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        read_pattern(pattern, "pattern")
    assert refusal.value.field == field


def test_refuses_what_is_too_deep() -> None:
    pattern: dict[str, Any] = {"a": [1]}
    for _ in range(MOST_DEPTH - 1):
        pattern = {"a": pattern}
    read_pattern(pattern, "pattern")
    with pytest.raises(InvalidInput, match="at most 8 levels"):
        read_pattern({"a": pattern}, "pattern")


def test_equal_patterns_are_equal() -> None:
    assert read_pattern({"a": [1], "b": [2]}, "p") == read_pattern({"b": [2], "a": [1]}, "p")
    assert read_pattern({"a": [1]}, "p").plain == {"a": [1]}


@given(JSON, st.dictionaries(st.sampled_from("abc"), JSON, max_size=3))
def test_never_fails_on_an_event(pattern: Any, event: dict[str, Any]) -> None:
    try:
        read = read_pattern(pattern, "pattern")
    except InvalidInput:
        return
    assert isinstance(read, EventPattern)
    assert read.matches(event) in {True, False}


@given(st.dictionaries(st.sampled_from("abc"), st.integers() | st.text(max_size=3), min_size=1, max_size=3))
def test_event_fits_the_pattern_of_its_own_values(event: dict[str, Any]) -> None:
    assert fits({name: [value] for name, value in event.items()}, event)


_SIGNS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.5])
    | st.text("ab", max_size=2)
)
COMPARISON = st.tuples(st.sampled_from(sorted(_SIGNS)), st.integers(-3, 3) | st.just(0.5)).map(list)
ENTRY = st.one_of(
    SCALARS,
    st.builds(lambda text: {"prefix": text}, st.text("ab", max_size=2)),
    st.builds(lambda text: {"suffix": text}, st.text("ab", max_size=2)),
    st.builds(lambda those: {"anything-but": those}, SCALARS | st.lists(SCALARS, min_size=1, max_size=3)),
    st.builds(lambda one: {"numeric": one}, COMPARISON),
    st.builds(lambda one, other: {"numeric": one + other}, COMPARISON, COMPARISON),
)


def is_same(one: Any, other: Any) -> bool:
    return bool(isinstance(one, bool) == isinstance(other, bool) and one == other)


def fits_entry(entry: Any, found: Any) -> bool:
    """Say what the how-to says of an entry."""
    if not isinstance(entry, dict):
        return is_same(entry, found)
    [(head, wanted)] = entry.items()
    if head == "anything-but":
        return not any(is_same(one, found) for one in (wanted if isinstance(wanted, list) else [wanted]))
    if head == "numeric":
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        pairs = zip(wanted[::2], wanted[1::2], strict=True)
        return is_number and all(_SIGNS[sign](found, bound) for sign, bound in pairs)
    text = found if isinstance(found, str) else None
    return text is not None and (text.startswith(wanted) if head == "prefix" else text.endswith(wanted))


@given(st.lists(ENTRY, min_size=1, max_size=6), SCALARS | st.lists(SCALARS | st.lists(SCALARS), max_size=4))
def test_one_of_many_entries_fits_as_each_says_alone(entries: list[Any], found: Any) -> None:
    elements = found if isinstance(found, list) else [found]
    expected = any(fits_entry(entry, one) for entry in entries for one in elements)
    assert fits({"a": entries}, {"a": found}) == expected


class Counted(int):
    """A number that counts with what it is compared."""

    count = 0

    def _compare(name: str) -> Any:  # type: ignore[misc]  # noqa: N805 -- it makes methods
        def compare(self: int, other: Any) -> bool:
            Counted.count += 1
            return bool(getattr(int, name)(self, other))

        return compare

    __eq__, __lt__, __le__ = _compare("__eq__"), _compare("__lt__"), _compare("__le__")
    __gt__, __ge__, __hash__ = _compare("__gt__"), _compare("__ge__"), int.__hash__


def test_long_lists_are_not_held_against_each_entry_one_by_one() -> None:
    """An event of 64 KiB has room for 32,000 elements, and a pattern for 64 entries."""
    entries = [{"numeric": [">", 10 * place, "<", 10 * place + 5]} for place in range(1, 32)]
    assert not fits({"a": [*entries, *range(2, 9)]}, {"a": [Counted(1)] * 1000})
    assert Counted.count <= 20 * 1000
