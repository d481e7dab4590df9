"""Finds keys that are text where their users must have meant a path into the payload."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mainspring.core.keypath import decode_for_key
from mainspring.core.model import JobSpec
from mainspring.errors import InvalidInput

KEYED_OPTIONS = ("concurrency", "unique", "debounce", "throttle", "batch")
"""Options with keys."""


def refuse_text_for_path(field: str, key: str | None, parts: Collection[str]) -> None:
    """Refuse a key that is text, and the name of a part of the payload.

    It would be the same for all runs. So a unique job would drop the submissions of all customers but one.

    Args:
        field: the option, for the error.
        parts: the names that the runs' payloads have.

    Raises:
        InvalidInput: it is.
    """
    if key is not None and key in parts:
        raise InvalidInput(
            field, f"is the same text for all runs; write '$.{key}' for what the payload has there"
        )


def check_keys_are_meant(spec: JobSpec, body: Mapping[str, Any]) -> None:
    """Refuse keys that are names of parts of the job's own payload.

    Args:
        body: what the user wrote. What was stored before stays as it is.

    Raises:
        InvalidInput: a key is such a name.
    """
    found = [
        (field, key)
        for option, field, key in _keys_of(spec)
        if not key.startswith("$") and (option in body or "payload" in body)
    ]
    if found and isinstance(payload := decode_for_key(spec.payload), Mapping):
        for field, key in found:
            refuse_text_for_path(field, key, payload)


def _keys_of(spec: JobSpec) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of a job, each with its option and its field."""
    for place, limit in enumerate(spec.concurrency):
        if limit.key is not None:
            yield "concurrency", f"concurrency[{place}].key", limit.key
    for option in KEYED_OPTIONS[1:]:
        rule = getattr(spec, option)
        if rule is not None and rule.key is not None:
            yield option, f"{option}.key", rule.key
