"""Patterns: which events are meant. They have the form of EventBridge's, are pure, and cost a few microseconds.

A pattern is nested as the event is. A leaf is a list; it fits a value that any of its entries fits. An entry is a plain
value, or an object with one of `prefix`, `suffix`, `anything-but`, `numeric` and `exists`. All keys have to fit. Of a
list in the event, one element has to fit.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from mainspring.core.fields import kind
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_BYTES = 4096
MOST_LEAVES = 64
MOST_DEPTH = 8
_MISSING: Any = object()
_NUMBERS = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
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
        isinstance(sign, str) and sign in _NUMBERS and _is_number(bound)
        for sign, bound in zip(pairs[::2], pairs[1::2], strict=True)
    )
    if not fits:
        raise InvalidInput(path, 'must be a comparison with a number, like [">", 0] or [">", 0, "<=", 100]')


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


@lru_cache(maxsize=4096)
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
    tests = [_compile_entry(entry) for entry in entries]

    def fits(given: Any) -> bool:
        if isinstance(given, list):
            return any(test(one) for one in given for test in tests)
        return any(test(given) for test in tests)

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


def _compile_entry(entry: Any) -> _Test:
    if not isinstance(entry, Mapping):
        return lambda given: _is_same(entry, given)
    [(head, wanted)] = entry.items()
    if head == "prefix":
        return lambda given: isinstance(given, str) and given.startswith(wanted)
    if head == "suffix":
        return lambda given: isinstance(given, str) and given.endswith(wanted)
    if head == "anything-but":
        those = wanted if isinstance(wanted, list) else [wanted]
        return lambda given: given is not _MISSING and not any(_is_same(one, given) for one in those)
    if head == "numeric":
        bounds = [(_NUMBERS[sign], bound) for sign, bound in zip(wanted[::2], wanted[1::2], strict=True)]
        return lambda given: _is_number(given) and all(test(given, bound) for test, bound in bounds)
    return lambda _: False  # `exists` is asked of the whole leaf


def _is_same(wanted: Any, given: Any) -> bool:
    """Compare JSON values: true is not 1."""
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    return bool(wanted == given)
