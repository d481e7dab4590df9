"""A real server and its worker through a failover to a host whose clock is five seconds off (reliability F12, F22)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.failover.conftest import StartPair
from tests.integration.test_shifted_clocks import (
    APP,
    await_end,
    await_that,
    call,
    check_ledger,
    done_runs,
    job_id,
)
from tests.processes.processes import running, server
from tests.support.faketime import shifted

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(300)]
SLACK = timedelta(seconds=0.1)
"""A clock is off by half a round trip, and steps over 50 ms."""


@pytest.mark.parametrize("jump", [5.0, -5.0])
def test_failover_to_a_clock_five_seconds_off_fires_each_second_once(
    tmp_path: Path, start_pair: StartPair, jump: float
) -> None:
    (tmp_path / "shop.py").write_text(APP)
    pair = start_pair(is_synchronous=True, standby_environment=shifted(jump))
    store = ("--store", pair.dsn, "--slots", 0, "--beat-period", 2)
    with (
        server("shop:app", *store, cwd=tmp_path) as (_, url),
        running("worker", "shop:app", "--server", url, cwd=tmp_path) as worker,
    ):
        worker.wait_for("ready")
        await_that(lambda: len(done_runs(url, "tick")) >= 3)
        workers = {each["session_id"] for each in call(url, "/api/v1/workers")["items"]}
        run_at = datetime.now(UTC) + timedelta(seconds=12)
        path = f"/api/v1/jobs/{job_id(url, 'once')}/runs"
        run_id = call(url, path, {"run_at": run_at.isoformat()})["run_id"]
        pair.fail_over()
        failed_over = datetime.now(UTC)

        once = await_end(url, run_id)
        await_that(
            lambda: (
                datetime.fromisoformat(done_runs(url, "tick")[-1]["fire_time"])
                > failed_over + timedelta(seconds=15)
            )
        )
        ticks = done_runs(url, "tick")
        assert {each["session_id"] for each in call(url, "/api/v1/workers")["items"]} == workers
        check_ledger(url)
    assert len({run["fire_time"] for run in ticks}) == len(ticks)
    ahead = timedelta(seconds=max(jump, 0.0))
    for run in [*ticks, once]:
        assert (run["attempt"], run["crashes"]) == (1, 0)
        # The worker's own clock is the old server's: nothing started before its instant on the clock that is ahead.
        began = datetime.fromtimestamp(run["result"], UTC)
        assert began + ahead + SLACK >= datetime.fromisoformat(run["due_at"])
