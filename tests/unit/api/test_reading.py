"""Reading bodies is linear in their size, whatever they hold."""

from __future__ import annotations

import time

import pytest

from mainspring.api.reading import _check_depth
from mainspring.errors import InvalidInput

MIB = 1024 * 1024
BODIES = {
    "unterminated escapes": b'"' + b'\\"' * (MIB // 2),
    "unterminated with a backslash at the end": b'"' + b"\\\\" * (MIB // 2) + b"\\",
    "quotes": b'"' * MIB,
    "odd quotes": b'"' * (MIB + 1),
    "backslashes": b"\\" * MIB,
    "text": b'"' + b"x" * MIB + b'"',
    "escapes": b'"' + b'\\"' * (MIB // 2) + b'"',
    "brackets": b"[" + b"[]," * (MIB // 3) + b"1]",
    "numbers": b"[" + b"1," * (MIB // 2) + b"1]",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_depth_of_a_mebibyte_is_known_at_once(body: bytes) -> None:
    before = time.process_time()
    _check_depth(body)
    assert time.process_time() - before < 0.2


@pytest.mark.parametrize(
    ("body", "is_deep"),
    [
        (b'{"a": "' + b"[" * 1000 + b'"}', False),
        (b'{"a": "\\"' + b"[" * 1000 + b'"}', False),
        (b'{"a": "\\\\"' + b"[" * 1000, True),
        (b"[" * 1000, True),
        (b'"' + b"[" * 1000, False),
        (b"[]" * 1000, False),
    ],
)
def test_brackets_within_strings_do_not_count(body: bytes, is_deep: bool) -> None:
    if is_deep:
        with pytest.raises(InvalidInput):
            _check_depth(body)
    else:
        _check_depth(body)
