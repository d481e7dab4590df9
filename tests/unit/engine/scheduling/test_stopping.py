"""What a pause writes to the ledger of a job whose next fire is due, but not made."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from mainspring.engine.scheduling.stopping import stop_clock
from mainspring.testing.factories import at
from tests.unit.engine.conftest import Bench


@pytest.mark.parametrize(("schedule", "until"), [("every 10 seconds", None), ("@reboot", at(5))])
async def test_pause_keeps_out_what_is_to_come_but_of_a_job_at_start_only_this_fire(
    bench: Bench, schedule: str, until: datetime | None
) -> None:
    """Each start within a pause has a record of its own, and the gap was a second one of it (simulator, S1)."""
    job_id = await bench.add(schedule=schedule)
    job = replace(await bench.runtime.client.jobs.get("default", job_id), next_fire_at=at(5))
    [gap] = stop_clock(job, job.spec, reason="paused", now=at(6)).fire_ranges
    assert (gap.from_at, gap.to_at, gap.reason) == (at(5), until, "paused")
