"""Which runs get in: keys, versions, overlaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission import OVERLAP, KnownKey, SubmissionVerdict, admit, skip_overlaps
from mainspring.testing.factories import START, at


@pytest.mark.parametrize(
    ("known", "newest", "wanted", "expected"),
    [
        (None, 3, None, SubmissionVerdict.SUBMITTED),
        (None, 3, 3, SubmissionVerdict.SUBMITTED),
        (None, 3, 2, SubmissionVerdict.JOB_CHANGED),
        (None, None, None, SubmissionVerdict.JOB_MISSING),
        (KnownKey(b"a", at(1)), 3, None, SubmissionVerdict.DUPLICATE),
        (KnownKey(b"b", at(1)), 3, None, SubmissionVerdict.KEY_MISMATCH),
        (KnownKey(b"a", at(1)), None, None, SubmissionVerdict.DUPLICATE),
        (KnownKey(b"a", at(1)), 3, 2, SubmissionVerdict.DUPLICATE),
        (KnownKey(b"b", START), 3, None, SubmissionVerdict.SUBMITTED),
        (KnownKey(b"b", START), None, None, SubmissionVerdict.JOB_MISSING),
    ],
)
def test_known_key_answers_before_the_job(
    known: KnownKey | None, newest: int | None, wanted: int | None, expected: SubmissionVerdict
) -> None:
    admission = admit(
        known=known, request_hashes=(b"a",), newest_version=newest, wanted_version=wanted, now=START
    )
    assert admission is expected


@given(reasons=st.lists(st.none() | st.sampled_from(["misfire", "misfire_limit"])), is_live=st.booleans())
def test_at_most_one_goes_live_and_none_beside_a_live_one(reasons: list[str | None], is_live: bool) -> None:
    decided = skip_overlaps(reasons, is_live=is_live)
    assert decided.count(None) == (0 if is_live else min(reasons.count(None), 1))
    for before, after in zip(reasons, decided, strict=True):
        assert after == before or (before is None and after == OVERLAP)
    if not is_live and None in reasons:
        assert decided.index(None) == reasons.index(None)
