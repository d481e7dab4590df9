"""Which arguments the keys of a job name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.definition.keys import KEYED_OPTIONS
from mainspring.core.keypath import parse


def keyed_arguments(definition: Mapping[str, Any]) -> list[str] | None:
    """Return which arguments keys of the job name; None if it has no key that depends on their names."""
    keys = keys_of(definition)
    is_whole = definition.get("unique") is not None and all(field != "unique.key" for field, _ in keys)
    names = [step for _, key in keys for step in parse(key).steps[:1] if isinstance(step, str)]
    return names if names or is_whole else None


def keys_of(definition: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the keys of a job as its body says them, each with its field."""
    found: list[tuple[str, str]] = []
    for option in KEYED_OPTIONS:
        given = definition.get(option)
        rules = given if isinstance(given, list | tuple) else [given]
        for place, rule in enumerate(rules):
            key = rule.get("key") if isinstance(rule, Mapping) else rule
            if isinstance(key, str):
                found.append((f"{option}[{place}].key" if rules is given else f"{option}.key", key))
    return found
