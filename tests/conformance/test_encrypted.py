"""A store that encrypts passes the suite, but for what it refuses, or leaves out, on purpose."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mainspring.encryption.cipher import Cipher
from mainspring.encryption.keys import Keys
from mainspring.encryption.store import encrypted
from mainspring.ports.store import Store
from mainspring.stores.memory import MemoryStore
from mainspring.testing import conformance
from mainspring.testing.clock import FakeClock

CIPHER = Cipher(Keys("k", {"k": bytes(32)}))


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = encrypted(MemoryStore(time=FakeClock().now), CIPHER)
    await store.open()
    yield store
    await store.close()


REFUSED = {
    "TestDeadLettersAreFound": (
        *(
            "test_only_what_failed_for_good_is_a_dead_letter",
            "test_groups_are_those_of_a_job_that_failed_alike",
        ),
        "test_every_filter_means_what_the_core_says",
    ),
    "TestRedrivesAreKept": ("test_a_redrive_is_as_it_was_made",),
    "TestInspection": (
        *(
            "test_runs_that_failed_are_found_by_how_their_error_begins",
            "test_each_state_is_found_by_every_filter",
        ),
    ),
    "TestArchive": ("test_texts_are_kept_to_the_letter", "test_attempts_are_copied"),
    "TestJobsThatNotify": (
        *(
            "test_only_failures_of_such_jobs_are_unnoticed",
            "test_a_job_fails_that_has_failed_so_often_in_a_row",
        ),
    ),
}
"""What searches in errors, knows groups by their text, tells errors in alerts, or copies what is encrypted."""

collected = conformance.collect(__name__)
for name, refused in REFUSED.items():
    for test in refused:
        assert hasattr(collected[name], test)
        setattr(collected[name], test, None)
globals().update(collected)
