"""S14 and L10 for limits: which runs count under one key."""

from __future__ import annotations

import pytest

from mainspring.core.limits import JobLimit
from tests.unit.judge.histories import Story


@pytest.mark.parametrize(
    ("payloads", "is_good"),
    [
        ((b'{"customer":1}', b'{"customer":1}'), False),
        ((b'{"customer":1}', b'{"customer":"1"}'), False),
        ((b'{"customer":1}', b'{"customer":2}'), True),
    ],
)
def test_a_number_and_its_text_are_one_key(payloads: tuple[bytes, bytes], *, is_good: bool) -> None:
    story = Story()
    job_id = story.job(concurrency=(JobLimit(key="$.customer", limit=1),))
    for payload in payloads:
        story.submit(job_id, 10.0, payload=payload)
    assert ("S14" in story.broken) is not is_good
