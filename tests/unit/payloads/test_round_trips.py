"""Arguments go to JSON and come back as equal values of the annotated types."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.payloads.results import encode_result
from mainspring.payloads.signature import FunctionTypes


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    HALF = 0.5
    NAME = "name"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Item:
    sku: UUID
    price: Decimal
    added: date | None = None


class Place(NamedTuple):
    name: str
    at: datetime


class Options(TypedDict, total=False):
    since: date
    colors: set[Color]


class Order(msgspec.Struct):
    items: list[Item]
    place: Place | None = None


@attrs.define
class Parcel:
    weight: Decimal
    sent: date


class Customer(pydantic.BaseModel):
    name: str = pydantic.Field(alias="customerName")
    born: date
    tags: frozenset[str] = frozenset()


_UUIDS = st.uuids()
_DECIMALS = st.decimals(allow_nan=False)
_MINUTES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
_ZONES: Any = st.none() | st.just(UTC) | _MINUTES
_INSTANTS = st.datetimes(
    datetime(2, 1, 1),  # noqa: DTZ001 -- hypothesis wants naive bounds
    datetime(9998, 1, 1),  # noqa: DTZ001 -- the same
    timezones=_ZONES,
)
_ITEMS = st.builds(Item, _UUIDS, _DECIMALS, st.none() | st.dates())
_PLACES = st.builds(Place, st.text(), _INSTANTS)
_LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers(-(2**63), 2**64 - 1) | st.booleans()),
    (str, st.text()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (bytes, st.binary()),
    (datetime, _INSTANTS),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, st.timedeltas()),
    (UUID, _UUIDS),
    (Decimal, _DECIMALS),
    (Color, st.sampled_from(Color)),
    (Level, st.sampled_from(Level)),
    (Odd, st.sampled_from(Odd)),
    (Access, st.sampled_from([Access.READ, Access.WRITE, Access.READ | Access.WRITE])),
    (Literal["a", 2, b"c"] | None, st.sampled_from(["a", 2, b"c", None])),
    (Item, _ITEMS),
    (Place, _PLACES),
    (
        Options,
        st.fixed_dictionaries({}, optional={"since": st.dates(), "colors": st.sets(st.sampled_from(Color))}),
    ),
    (Order, st.builds(Order, st.lists(_ITEMS, max_size=2), st.none() | _PLACES)),
    (Parcel, st.builds(Parcel, _DECIMALS, st.dates())),
    (
        Customer,
        st.builds(
            Customer, customerName=st.text(), born=st.dates(), tags=st.frozensets(st.text(), max_size=2)
        ),
    ),
]
_KEYS = [leaf for leaf in _LEAVES if leaf[0] in {str, int, date, UUID, Color}]
_HASHABLE = [leaf for leaf in _LEAVES if leaf[0] in {date, Decimal, UUID, Color, Level, Place, bytes}]


def _is_no_bool(key: object) -> bool:
    return not isinstance(key, bool)


def _of(origin: Any, *arguments: Any) -> Any:
    return origin[arguments]


@st.composite
def annotated(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """Draw an annotation, with a strategy for its values."""
    shape = draw(st.sampled_from(["leaf", "list", "dict", "tuple", "pair", "set", "optional", "union"]))
    kind: Any
    values: st.SearchStrategy[Any]
    if shape == "leaf" or not depth:
        kind, values = draw(st.sampled_from(_LEAVES))
        return kind, values
    if shape == "set":
        kind, values = draw(st.sampled_from(_HASHABLE))
        origin, make = draw(st.sampled_from([(set, st.sets), (frozenset, st.frozensets)]))
        return _of(origin, kind), make(values, max_size=3)
    kind, values = draw(annotated(depth - 1))
    if shape == "list":
        return _of(draw(st.sampled_from([list, Sequence])), kind), st.lists(values, max_size=3)
    if shape == "tuple":
        return _of(tuple, kind, ...), st.lists(values, max_size=3).map(tuple)
    if shape == "dict":
        key, keys = draw(st.sampled_from(_KEYS))
        origin = draw(st.sampled_from([dict, Mapping]))
        return _of(origin, key, kind), st.dictionaries(keys.filter(_is_no_bool), values, max_size=3)
    if shape == "optional":
        return kind | None, st.none() | values
    other, others = draw(annotated(depth - 1))
    if shape == "pair":
        return _of(tuple, kind, other), st.tuples(values, others)
    return kind | other, values | others


def _function_of(annotation: Any) -> FunctionTypes:
    def work(given: Any) -> None: ...

    work.__annotations__["given"] = annotation
    return FunctionTypes(work, inspect.signature(work))


def _sent(value: object) -> Any:
    return msgspec.json.decode(encode_result(value))


@settings(max_examples=60)
@given(st.data())
def test_every_value_comes_back_equal_or_is_refused(data: st.DataObject) -> None:
    annotation, values = data.draw(annotated())
    types = _function_of(annotation)
    value = data.draw(values)
    try:
        [encoded], _ = types.encode([value], {})
    except ValueError as error:
        assert "told apart" in str(error)  # noqa: PT017 -- only then it may be refused
        return
    [by_place], _ = types.decode((_sent(encoded),), {})
    _, by_name = types.decode((), {"given": _sent(encoded)})
    assert by_place == by_name["given"] == value


@pytest.mark.parametrize(("annotation", "values"), _LEAVES, ids=lambda one: getattr(one, "__name__", None))
def test_every_type_comes_back_as_itself(annotation: Any, values: st.SearchStrategy[Any]) -> None:
    types = _function_of(annotation)

    @settings(max_examples=20)
    @given(values)
    def check(value: object) -> None:
        [encoded], _ = types.encode([value], {})
        [again], _ = types.decode((_sent(encoded),), {})
        assert again == value
        assert type(again) is type(value) or annotation is float

    check()
