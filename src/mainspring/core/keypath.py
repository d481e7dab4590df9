"""Keys: text that is the same for all runs of a job, or a path into a run's payload, which is read, never evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from mainspring.core.fields import decode_payload, is_unicode, kind
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_STEPS = 8
"""Steps of a path, at most."""
LONGEST_KEY = 200
"""Characters of a key, at most. A longer value stands as its hash."""
_STEP = re.compile(r"\.([^.\[\]\s$\"']++)|\[([0-9]{1,6})\]")
_EXACT = 2**53
"""From here on, a float is not exact to one."""


@value()
class KeyPath:
    """Where a run's key is found.

    Attributes:
        text: as the user wrote it.
        steps: names of fields and places in lists, from the payload inwards. Empty if `text` is the key itself.
    """

    text: str
    steps: tuple[str | int, ...] = ()

    def extract(self, payload: object, needed_by: str = "the key") -> str:
        """Return the key of a run.

        Numbers, true and false become text. `17`, `17.0` and `"17"` give the same key.

        Args:
            payload: the decoded JSON; None if the run has no payload.
            needed_by: the option that needs the key, for the error.

        Raises:
            InvalidInput: the payload has no such part, or the part is null, an object or a list. The field names the
                first part that is missing or wrong.
        """
        if not self.steps:
            return self.text
        found: Any = payload
        field = "payload"
        for step in self.steps:
            field, found = _descend(found, step, field, needed_by)
        if found is None:
            raise InvalidInput(field, f"is null; {needed_by} needs it")
        if not isinstance(found, str | int | float):
            wrong = kind(found)
            raise InvalidInput(
                field, f"must be text, a number, true or false, not {wrong}; {needed_by} needs it"
            )
        return _shortened(_text_of(found))


def parse(text: str) -> KeyPath:
    """Read a key: text without `$`, or a path like `$.customer.id` or `$.items[0].sku`.

    Raises:
        ValueError: it is neither; the message says what is wrong, and begins with a verb.
    """
    if not text.startswith("$"):
        if "$" in text:
            raise ValueError("has a '$' inside; write a path like $.customer, or text without '$'")
        if not 1 <= len(text) <= LONGEST_KEY or not text.isprintable():
            raise ValueError(f"must have 1 to {LONGEST_KEY} characters that can be printed")
        return KeyPath(text)
    steps: list[str | int] = []
    place = 1
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None:
            raise ValueError(
                f"is no path from character {place + 1} on; write it like $.customer or $.items[0].sku"
            )
        if len(steps) == MOST_STEPS:
            raise ValueError(f"has more than {MOST_STEPS} steps")
        steps.append(step[1] if step[2] is None else int(step[2]))
        place = step.end()
    if not steps:
        raise ValueError("names no part of the payload; write it like $.customer")
    if len(text) > LONGEST_KEY or not text.isprintable():
        raise ValueError(f"must have 1 to {LONGEST_KEY} characters that can be printed")
    return KeyPath(text, tuple(steps))


def read_key(text: str) -> KeyPath:
    """Read a key that a user writes. Unlike one that is kept already, its path must not look as if `*` meant anything.

    Raises:
        ValueError: as for `parse`.
    """
    path = parse(text)
    for step in path.steps:
        if isinstance(step, str) and "*" in step:
            raise ValueError(
                f"has the step {step!r}, and '*' stands for no other names; name one part, like $.customer"
            )
    return path


def decode_for_key(payload: bytes | None) -> object:
    """Return what a payload's JSON text stands for, to take keys out of it; None if there is no payload.

    Raises:
        InvalidInput: it holds a number that is too long to be read.
    """
    if payload is None:
        return None
    try:
        return decode_payload(payload)
    except (ValueError, RecursionError):
        raise InvalidInput("payload", "cannot be searched for a key: it holds too long a number") from None


def _descend(found: object, step: str | int, field: str, needed_by: str) -> tuple[str, object]:
    """Return the field and the value one step further inwards."""
    if isinstance(step, str):
        inner, right = f"{field}.{step}", "an object"
        if isinstance(found, Mapping):
            if step in found:
                return inner, found[step]
            raise InvalidInput(inner, f"is missing; {needed_by} needs it")
    else:
        inner, right = f"{field}[{step}]", "a list"
        if isinstance(found, list | tuple):
            if step < len(found):
                return inner, found[step]
            raise InvalidInput(inner, f"is missing; {needed_by} needs it")
    if found is None:
        raise InvalidInput(inner, f"is missing; {needed_by} needs it")
    raise InvalidInput(field, f"must be {right}, not {kind(found)}; {needed_by} needs {inner}")


def _text_of(scalar: object) -> str:
    if isinstance(scalar, str):
        return scalar
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    if isinstance(scalar, float) and scalar.is_integer() and abs(scalar) < _EXACT:
        return str(int(scalar))
    return str(scalar)


def _shortened(text: str) -> str:
    """Return a hash in place of text that is too long, or that no store takes."""
    if len(text) <= LONGEST_KEY and "\0" not in text and is_unicode(text):
        return text
    return f"blake2b:{blake2b(text.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
