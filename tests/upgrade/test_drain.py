"""A rolling restart under load: each server and each worker is asked to end and started again, twice round."""

from pathlib import Path

import pytest

from tests.upgrade.cluster import check, running_cluster, under_load

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("cluster"),
]
LATEST = 2.4
"""Seconds: a period of the servers' heartbeats (1.4 s), within which the others see what was given up, and one more."""
RATE = 10.0


async def test_rolling_restart_loses_nothing_and_repeats_nothing(
    tmp_path: Path, postgres_database: str
) -> None:
    async with running_cluster(tmp_path, postgres_database) as (cluster, receiver):
        async with under_load(cluster, receiver, rate=RATE) as stage:
            for _ in range(2):
                for member in cluster.members:
                    await cluster.restart(member)
        figures = check(stage.concluded(), latest=LATEST)
    assert figures["restarts"] == 2 * len(cluster.members) == 14
