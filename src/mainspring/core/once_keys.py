"""From a rule of what runs once, and a payload, to the key of a submission."""

from __future__ import annotations

import json
from functools import lru_cache
from hashlib import blake2b

from mainspring.core.keypath import KeyPath, decode_for_key, parse
from mainspring.core.model import JobSpec
from mainspring.core.once import OnceGuard, OnceRule, UniqueRule
from mainspring.core.values import value

_RULES = ("unique", "debounce", "throttle")
_PARSED = 1024


@value()
class OnceKeys:
    """Makes the guards of a job's submissions.

    Attributes:
        option: the option of the job that says the rule.
        own_payload: the job's payload, for submissions without one.
    """

    option: str
    rule: OnceRule
    own_payload: bytes | None

    def guard(self, payload: bytes | None) -> OnceGuard:
        """Return what guards a submission.

        Args:
            payload: the submission's own payload, as JSON text; None uses the job's.

        Raises:
            InvalidInput: the payload has no such part as the rule's key names.
        """
        used = self.own_payload if payload is None else payload
        key = self.rule.key
        sort = self.rule.scope.value if isinstance(self.rule, UniqueRule) else ""
        digest = blake2b(f"{self.option}|{sort}|{key}|".encode(), digest_size=16)
        if key is not None:
            text = _parse(key).extract(decode_for_key(used), f"{self.option}.key")
            digest.update(text.encode())
        elif isinstance(self.rule, UniqueRule):
            digest.update(b"" if used is None else canonical(used))
        return OnceGuard(digest.digest(), self.rule)


def once_keys_of(spec: JobSpec) -> OnceKeys | None:
    """Return what makes the guards of a job's submissions; None if the job may run any number of times."""
    for option in _RULES:
        rule = getattr(spec, option)
        if rule is not None:
            return OnceKeys(option, rule, spec.payload)
    return None


def canonical(payload: bytes) -> bytes:
    """Return JSON text that is the same for the same value, because clients write keys in any order."""
    try:
        return json.dumps(json.loads(payload), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):  # numbers with thousands of digits, or too deep a nesting
        return payload


@lru_cache(maxsize=_PARSED)
def _parse(text: str) -> KeyPath:
    return parse(text)
