"""Hashed slots: `H` and `~` in an expression, for which a job's identity chooses values.

Many jobs may then have the same schedule, and are spread. A job keeps its slots, wherever and whenever they are chosen.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from mainspring.core.cron.fields import DAY_OF_MONTH, FIVE, SIX, CronError, Field

_HASHED = re.compile(r"H(?:\((?P<low>[^()~-]*)-(?P<high>[^()~-]*)\))?(?:/(?P<step>.*))?")
_RANDOM = re.compile(r"(?P<low>[^~/]*)~(?P<high>[^~/]*)(?:/(?P<step>.*))?")
_SAFE_DAY = 28
"""The last day that every month has: where the end of a range of days is not given."""


def has_slots(expression: str) -> bool:
    """Say whether there is anything to choose."""
    if "~" in expression:
        return True
    return "H" in expression and any(
        item == "H" or item.startswith(("H/", "H("))
        for field in expression.split()
        for item in field.split(",")
    )


def choose_slots(expression: str, key: str) -> str:
    """Return an expression with values instead of `H` and `~`.

    Args:
        key: what the values depend on, and nothing else does: a job's tenant and name.

    Raises:
        CronError: a range or a step is wrong.
    """
    texts = expression.split()
    if not has_slots(expression) or len(texts) not in {5, 6}:
        return expression  # of a wrong number of fields, others complain
    fields = SIX if len(texts) == 6 else FIVE
    chosen = [
        ",".join(
            _choose(expression, field, item, f"{key}\0{field.name}\0{place}")
            for place, item in enumerate(text.split(","))
        )
        for field, text in zip(fields, texts, strict=True)
    ]
    return " ".join(chosen)


def _choose(expression: str, field: Field, item: str, key: str) -> str:
    found = _RANDOM.fullmatch(item) if "~" in item else _HASHED.fullmatch(item) if item[:1] == "H" else None
    if found is None:
        if "~" in item:
            raise CronError(field.name, expression, f"{item!r}: write a range like 0~29, or ~ for any value")
        return item

    def value(text: str | None, default: int) -> int:
        if not text:
            return default
        named = field.number_of(text)
        number = named if named is not None else int(text) if text.isdigit() and len(text) < 4 else -1
        if not field.low <= number <= field.high:
            right = f"{text!r} is not between {field.low} and {field.high}"
            raise CronError(field.name, expression, f"{item!r}: {right}")
        return number

    last = _SAFE_DAY if field is DAY_OF_MONTH else field.low + field.span - 1
    low, high = value(found["low"], field.low), value(found["high"], last)
    if low > high:
        raise CronError(field.name, expression, f"{item!r}: the range runs backwards")
    number = int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    if found["step"] is None:
        return str(low + number % (high - low + 1))
    text = found["step"]
    step = int(text) if text.isdigit() and len(text) < 4 else 0
    if not 1 <= step <= high - low + 1:
        raise CronError(field.name, expression, f"{item!r}: the step must be 1 to {high - low + 1}")
    return f"{low + number % step}-{high}/{step}"
