"""When a job has failed so often in a row that it is paused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.failures import FAILURES, PAUSED, gap_reason, has_failed_in_a_row, pause_note
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START, at

INSTANTS = st.lists(st.integers(0, 100).map(at), max_size=6)


@given(
    failed=INSTANTS,
    threshold=st.integers(1, 6),
    has_succeeded=st.booleans(),
    since=st.integers(0, 100).map(at),
)
def test_all_of_them_have_failed_since(
    failed: list[Any], threshold: int, has_succeeded: bool, since: Any
) -> None:
    newest = failed[:threshold]
    expected = len(newest) == threshold and all(instant > since for instant in newest) and not has_succeeded
    assert has_failed_in_a_row(threshold, newest, has_succeeded=has_succeeded, since=since) is expected


def test_words() -> None:
    assert pause_note(1) == "its last run failed"
    assert pause_note(3) == "its last 3 runs failed"
    assert (gap_reason(None), gap_reason(pause_note(3))) == (PAUSED, FAILURES)


def read(**more: Any) -> Any:
    return read_definition({"name": "a", "function": "f", **more}, now=START)


def test_the_option_is_kept() -> None:
    spec = read(pause_after_failures=5)
    assert spec_from_plain(plain_from_spec(spec)) == spec
    assert edit_definition(spec, {"pause_after_failures": None}, now=START).pause_after_failures is None
    assert read().pause_after_failures is None


@pytest.mark.parametrize("wrong", [0, 101, "5", True, 1.5])
def test_others_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(pause_after_failures=wrong)
    assert refused.value.field == "pause_after_failures"
