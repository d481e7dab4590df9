"""`run_at` far off: kept in UTC within bounds, or refused by name; never stored to break those who read it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import InvalidInput
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

EAST = timezone(timedelta(hours=23, minutes=59))
WEST = timezone(-timedelta(hours=23, minutes=59))
FAR = [
    datetime(1, 1, 1, tzinfo=EAST),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=EAST),
    datetime(9001, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=WEST),
]


@pytest.mark.parametrize("run_at", FAR)
@pytest.mark.parametrize("expires_after", [None, "1h"])
async def test_run_at_out_of_bounds_is_refused_by_name(
    bench: Bench, run_at: datetime, expires_after: str | None
) -> None:
    job_id = await bench.add(expires_after=expires_after)
    with pytest.raises(InvalidInput) as refused:
        await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id, run_at=run_at))
    assert refused.value.field == "run_at"
    assert await bench.runs(job_id) == []


@pytest.mark.parametrize("run_at", FAR)
async def test_one_off_job_out_of_bounds_is_refused_by_name(bench: Bench, run_at: datetime) -> None:
    with pytest.raises(InvalidInput) as refused:
        await bench.add(run_at=run_at.isoformat())
    assert refused.value.field == "run_at"


async def test_run_at_is_kept_in_utc(bench: Bench) -> None:
    job_id = await bench.add()
    run_at = datetime(2999, 6, 1, 10, tzinfo=timezone(timedelta(hours=2)))
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id, run_at=run_at))
    (run,) = await bench.runs(job_id)
    assert run.due_at == run_at
    assert run.due_at.tzinfo is UTC


async def test_latest_run_at_with_the_longest_expiry_is_kept(bench: Bench) -> None:
    job_id = await bench.add(expires_after="30d")
    run_at = datetime(9000, 12, 31, 23, 59, 59, tzinfo=UTC)
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id, run_at=run_at))
    (run,) = await bench.runs(job_id)
    assert run.due_at == run_at


async def test_same_instant_in_another_zone_is_the_same_request(bench: Bench) -> None:
    job_id = await bench.add()
    runs = bench.runtime.client.runs
    here = datetime(2999, 6, 1, 10, tzinfo=UTC)
    first = await runs.submit(TENANT, Submission(job_id=job_id, run_at=here, idempotency_key="k"))
    again = await runs.submit(
        TENANT, Submission(job_id=job_id, run_at=here.astimezone(EAST), idempotency_key="k")
    )
    assert (again.run_id, again.is_new) == (first.run_id, False)
