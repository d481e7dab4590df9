"""Keys: which texts are one, and what a path finds in a payload."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.definition import read_definition
from mainspring.core.keypath import LONGEST_KEY, parse, read_key
from mainspring.errors import InvalidInput

NAMES = st.text(st.characters(categories=["L", "N"], include_characters="-_:/"), min_size=1, max_size=12)
SCALARS = (
    st.text(max_size=50) | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
)
STEPS = st.lists(NAMES | st.integers(0, 5), min_size=1, max_size=8)


def _text_of(steps: list[str | int]) -> str:
    return "$" + "".join(f".{step}" if isinstance(step, str) else f"[{step}]" for step in steps)


def _payload_of(steps: list[str | int], scalar: object) -> object:
    payload = scalar
    for step in reversed(steps):
        payload = {step: payload} if isinstance(step, str) else [*[None] * step, payload]
    return payload


@pytest.mark.parametrize(
    ("path", "payload", "key"),
    [
        ("nightly", None, "nightly"),
        ("$.customer", {"customer": "acme"}, "acme"),
        ("$.order.id", {"order": {"id": 17}}, "17"),
        ("$.order", {"order": 17.0}, "17"),
        ("$.order", {"order": "17"}, "17"),
        ("$.items[1].sku", {"items": [{}, {"sku": "x"}]}, "x"),
        ("$[0]", ["first"], "first"),
        ("$.is_test", {"is_test": True}, "true"),
        ("$.share", {"share": 0.5}, "0.5"),
        ("$.name", {"name": ""}, ""),
        ("$.größe-1", {"größe-1": "L"}, "L"),
    ],
)
def test_extract_gives_key(path: str, payload: object, key: str) -> None:
    assert parse(path).extract(payload) == key


@pytest.mark.parametrize(
    ("path", "payload", "field", "message"),
    [
        ("$.customer", {}, "payload.customer", "is missing; unique.key needs it"),
        ("$.customer", None, "payload.customer", "is missing; unique.key needs it"),
        ("$.order.id", {"order": {}}, "payload.order.id", "is missing; unique.key needs it"),
        ("$.order.id", {}, "payload.order", "is missing; unique.key needs it"),
        ("$.items[2]", {"items": [1, 2]}, "payload.items[2]", "is missing; unique.key needs it"),
        ("$.customer", {"customer": None}, "payload.customer", "is null; unique.key needs it"),
        (
            "$.customer",
            {"customer": {"id": 1}},
            "payload.customer",
            "must be text, a number, true or false, not an object; unique.key needs it",
        ),
        ("$.a.b", {"a": "text"}, "payload.a", "must be an object, not text; unique.key needs payload.a.b"),
        ("$.a[0]", {"a": "text"}, "payload.a", "must be a list, not text; unique.key needs payload.a[0]"),
        ("$.a", ["b"], "payload", "must be an object, not a list; unique.key needs payload.a"),
    ],
)
def test_extract_names_the_part_that_is_missing(path: str, payload: object, field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse(path).extract(payload, "unique.key")
    assert (raised.value.field, raised.value.message) == (field, message)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$",
        "$.",
        "$a",
        "$.a..b",
        "$.a[",
        "$.a[x]",
        "$.a[-1]",
        "$.a b",
        "$.a$",
        "a$b",
        "$..a",
        "$.a['b']",
        "\n",
        "$" + ".a" * 9,
        "x" * 201,
        "$." + "x" * 200,
    ],
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(must|has|is|names) "):
        parse(text)


def test_extract_hashes_long_values_and_what_no_store_takes() -> None:
    path = parse("$.a")
    at_most = "x" * LONGEST_KEY
    assert path.extract({"a": at_most}) == at_most
    keys = {path.extract({"a": text}) for text in (at_most + "x", at_most + "y", "a\0b", "a\ud800b")}
    assert len(keys) == 4
    assert all(key.startswith("blake2b:") and len(key) == 40 for key in keys)


@given(steps=STEPS, scalar=SCALARS)
def test_path_finds_what_stands_there(steps: list[str | int], scalar: object) -> None:
    path = parse(_text_of(steps))
    assert path.steps == tuple(steps)
    payload = _payload_of(steps, scalar)
    key = path.extract(payload)
    assert len(key) <= LONGEST_KEY
    if not isinstance(scalar, str) or scalar.isprintable():
        assert path.extract(json.loads(json.dumps(payload))) == key


@given(text=st.text(max_size=40) | st.text("$.[]ab019", max_size=20))
def test_parse_gives_a_path_or_says_why_not(text: str) -> None:
    try:
        path = parse(text)
    except ValueError:
        return
    assert path.text == text
    assert bool(path.steps) == text.startswith("$")


@pytest.mark.parametrize("path", ["$.*", "$.order.*", "$.items.*.sku", "$.cust*"])
@pytest.mark.parametrize(
    ("option", "field"),
    [
        ({"concurrency": [{"limit": 1}, {"key": "PATH", "limit": 2}]}, "concurrency[1].key"),
        ({"unique": {"key": "PATH"}}, "unique.key"),
        ({"debounce": {"key": "PATH", "wait": "1s"}}, "debounce.key"),
        ({"throttle": {"key": "PATH", "limit": 1, "per": "1h"}}, "throttle.key"),
    ],
)
def test_a_star_is_no_wildcard_and_is_refused(path: str, option: dict[str, object], field: str) -> None:
    body = json.loads(json.dumps({"name": "sync", "function": "sync", **option}).replace("PATH", path))
    with pytest.raises(InvalidInput, match=r"'\*' stands for no other names; name one part") as caught:
        read_definition(body, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert caught.value.field == field


def test_a_star_that_is_kept_already_is_still_a_name() -> None:
    """A release before took it, so jobs may have it."""
    assert parse("$.*").extract({"*": "x"}) == "x"
    assert read_key("a*b").text == "a*b"
