"""Patterns: which events are meant. They have the form of EventBridge's, are pure, and cost a few microseconds.

A pattern is nested as the event is. A leaf is a list; it fits a value that any of its entries fits. An entry is a plain
value, or an object with one of `prefix`, `suffix`, `anything-but`, `numeric` and `exists`. All keys have to fit. Of a
list in the event, one element has to fit.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any, TypeAlias

from mainspring.core.fields import kind
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_BYTES = 4096
MOST_LEAVES = 64
MOST_DEPTH = 8
_MOST_COMPILED = 32_768
"""Patterns that stay ready: more than a process keeps definitions. With fewer, a topic that has more triggers than that
would have each pattern compiled anew with each event."""
_MISSING: Any = object()
_SIGNS = frozenset({"=", "<", "<=", ">", ">="})
_HEADS = ("prefix", "suffix", "anything-but", "numeric", "exists")
_Test: TypeAlias = Callable[[Any], bool]


@value()
class EventPattern:
    """A pattern that was checked.

    Attributes:
        text: it, as JSON whose keys are sorted.
    """

    text: bytes

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Say whether an event fits."""
        return _compile(self.text)(event)

    @property
    def plain(self) -> dict[str, Any]:
        """The pattern as JSON values."""
        found: dict[str, Any] = json.loads(self.text)
        return found


def read_pattern(given: object, path: str) -> EventPattern:
    """Read a pattern.

    Raises:
        InvalidInput: it is none; the path says where.
    """
    if not isinstance(given, Mapping):
        raise InvalidInput(path, f"must be an object that is nested as the event, not {kind(given)}")
    leaves = _count_leaves(given, path, 1)
    if leaves > MOST_LEAVES:
        raise InvalidInput(path, f"has {leaves} values; at most {MOST_LEAVES} fit")
    text = json.dumps(given, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) > MOST_BYTES:
        raise InvalidInput(path, f"has {len(text):,} bytes; at most {MOST_BYTES:,} fit")
    return EventPattern(text)


def _count_leaves(given: Mapping[Any, Any], path: str, depth: int) -> int:
    """Check an object of a pattern, and return how many values it has."""
    if depth > MOST_DEPTH:
        raise InvalidInput(path, f"is nested too deeply; at most {MOST_DEPTH} levels fit")
    if not given:
        raise InvalidInput(path, "is empty, so it would fit everything; leave it out")
    found = 0
    for name, part in given.items():
        where = f"{path}.{name}"
        if isinstance(part, Mapping):
            found += _count_leaves(part, where, depth + 1)
        elif isinstance(part, list | tuple):
            if not part:
                raise InvalidInput(where, "is empty, so nothing fits; give values, or leave it out")
            for place, entry in enumerate(part):
                _check_entry(entry, f"{where}[{place}]")
            found += len(part)
        else:
            right = "must be a list of values of which one fits, or an object"
            raise InvalidInput(where, f"{right}, not {kind(part)}; write it in brackets")
    return found


def _check_entry(entry: object, path: str) -> None:
    if not isinstance(entry, Mapping):
        if isinstance(entry, list | tuple):
            raise InvalidInput(path, "must be a value or a test, not a list")
        return
    if len(entry) != 1 or next(iter(entry)) not in _HEADS:
        raise InvalidInput(path, f"must have one of {', '.join(_HEADS)}")
    [(head, wanted)] = entry.items()
    where = f"{path}.{head}"
    if head in {"prefix", "suffix"} and not isinstance(wanted, str):
        raise InvalidInput(where, f"must be text, not {kind(wanted)}")
    if head == "exists" and not isinstance(wanted, bool):
        raise InvalidInput(where, f"must be true or false, not {kind(wanted)}")
    if head == "anything-but":
        those = wanted if isinstance(wanted, list | tuple) else [wanted]
        if not those or any(isinstance(one, Mapping | list | tuple) for one in those):
            raise InvalidInput(where, "must be a value, or a list of values")
    if head == "numeric":
        _check_numeric(wanted, where)


def _check_numeric(wanted: object, path: str) -> None:
    pairs = wanted if isinstance(wanted, list | tuple) else ()
    fits = len(pairs) in {2, 4} and all(
        isinstance(sign, str) and sign in _SIGNS and _is_number(bound)
        for sign, bound in zip(pairs[::2], pairs[1::2], strict=True)
    )
    if not fits:
        raise InvalidInput(path, 'must be a comparison with a number, like [">", 0] or [">", 0, "<=", 100]')


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


@lru_cache(maxsize=_MOST_COMPILED)
def _compile(text: bytes) -> _Test:
    return _compile_object(json.loads(text))


def _compile_object(pattern: Mapping[str, Any]) -> _Test:
    parts = [
        (name, _compile_object(part) if isinstance(part, Mapping) else _compile_leaf(part))
        for name, part in pattern.items()
    ]

    def fits(given: Any) -> bool:
        found = given if isinstance(given, Mapping) else {}
        return all(test(found.get(name, _MISSING)) for name, test in parts)

    return fits


def _compile_leaf(entries: Sequence[Any]) -> _Test:
    fits_one = _compile_entries(entries)

    def fits(given: Any) -> bool:
        return any(map(fits_one, given)) if isinstance(given, list) else fits_one(given)

    def asks(given: Any) -> bool:
        """Answer for leaves with `exists`, which a list answers as a whole."""
        return given is not _MISSING if wants else given is _MISSING

    existing = [entry["exists"] for entry in entries if isinstance(entry, Mapping) and "exists" in entry]
    if not existing:
        return fits
    wants = any(existing)
    if len(set(existing)) > 1:
        return lambda _: True  # whether it is there or not
    return lambda given: asks(given) or fits(given)


def _compile_entries(entries: Sequence[Any]) -> _Test:
    """Return a test that takes hardly longer for many entries than for one: lists in events may have many elements."""
    tests = [entry for entry in entries if isinstance(entry, Mapping)]
    plain = frozenset(_key(entry) for entry in entries if not isinstance(entry, Mapping))
    prefixes = tuple(test["prefix"] for test in tests if "prefix" in test)
    suffixes = tuple(test["suffix"] for test in tests if "suffix" in test)
    ranges = _Ranges([test["numeric"] for test in tests if "numeric" in test])
    others = [_keys(test["anything-but"]) for test in tests if "anything-but" in test]
    excluded = frozenset.intersection(*others) if others else None

    def fits_one(given: Any) -> bool:
        if given is _MISSING:
            return False
        if isinstance(given, dict | list):
            return excluded is not None  # no plain value is the same
        key = _key(given)
        if key in plain or (excluded is not None and key not in excluded):
            return True
        if isinstance(given, str):
            return given.startswith(prefixes) or given.endswith(suffixes)
        return _is_number(given) and given in ranges

    return fits_one


def _keys(given: Any) -> frozenset[Any]:
    return frozenset(map(_key, given if isinstance(given, list) else [given]))


def _key(given: Any) -> Any:
    """Return what equal JSON values have in common: true is not 1, and 1 is 1.0."""
    return (given,) if isinstance(given, bool) else given


class _Ranges:
    """The numbers that one of some comparisons takes.

    A number stands at the place (number, 0). A range reaches from a place up to before another one.
    """

    def __init__(self, comparisons: Sequence[Sequence[Any]]) -> None:
        self._starts: list[tuple[float, int]] = []
        self._stops: list[tuple[float, int]] = []
        for start, stop in sorted(map(_range_of, comparisons)):
            if start >= stop:
                continue
            if self._stops and start <= self._stops[-1]:
                self._stops[-1] = max(self._stops[-1], stop)
            else:
                self._starts.append(start)
                self._stops.append(stop)

    def __contains__(self, number: float) -> bool:
        place = bisect_right(self._starts, (number, 0)) - 1
        return place >= 0 and (number, 0) < self._stops[place]


def _range_of(comparison: Sequence[Any]) -> tuple[tuple[float, int], tuple[float, int]]:
    start, stop = (-inf, 0), (inf, 1)
    for sign, bound in zip(comparison[::2], comparison[1::2], strict=True):
        if sign in {">", ">=", "="}:
            start = max(start, (bound, int(sign == ">")))
        if sign in {"<", "<=", "="}:
            stop = min(stop, (bound, int(sign != "<")))
    return start, stop
