"""Old and new code on one store under load: node by node from one version to the next, and back again.

Reliability F33. The next version is the code under test with a newer schema, the old one a real older version.
"""

from pathlib import Path

import pytest

from mainspring.core.model import Attempt
from tests.support.postgres import fetch
from tests.upgrade.cluster import Cluster, Layout, Result, check, running_cluster, under_load
from tests.upgrade.test_drain import LATEST, RATE
from tests.upgrade.versions import SUCCESSOR, Version

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("cluster"),
]
LAYOUT = Layout(servers=2, remote=((),), direct=((),))


def is_of_an_empty_answer(attempt: Attempt, result: Result, cluster: Cluster, baseline: Version) -> bool:
    """Return whether a server of the baseline gave an attempt to a remote worker and told it of none, as it stopped.

    Such a server gives an empty answer to a call for which its claim is under way, so the worker takes the number for
    used. The next heartbeat would hand the run back; a worker that is stopped before that leaves it behind. Servers
    have told workers to ask again since (`WaitingCalls.close`).
    """
    return (
        attempt.worker.startswith("remote")
        and not result.has_begun(attempt)
        and any(
            stop.name.startswith("server")
            and stop.python_path == baseline.python_path
            and stop.at <= attempt.started_at <= stop.until
            for stop in cluster.stops
        )
    )


async def test_upgrade_and_downgrade_node_by_node(
    tmp_path: Path, postgres_database: str, baseline: Version, successor: Version
) -> None:
    def begin_with_old(cluster: Cluster) -> None:
        for member in cluster.members:
            member.python_path = baseline.python_path

    running = running_cluster(tmp_path, postgres_database, layout=LAYOUT, prepare=begin_with_old)
    async with running as (cluster, receiver):
        async with under_load(cluster, receiver, rate=RATE) as stage:
            first, second = cluster.servers
            await cluster.restart(first, successor.python_path)
            assert fetch(postgres_database, "SELECT max(number) FROM migration") == SUCCESSOR
            # The schema is new, and nobody else: what is old goes on, and may be started again.
            await cluster.restart(second, baseline.python_path)
            for worker in cluster.workers:
                await cluster.restart(worker, baseline.python_path)
            # Node by node; then the other way, servers last: the newest code meets the oldest both times.
            for member in (second, *cluster.workers):
                await cluster.restart(member, successor.python_path)
            for member in reversed(cluster.members):
                await cluster.restart(member, baseline.python_path)
        result = stage.concluded()
        figures = check(
            result,
            latest=LATEST,
            is_excused=lambda attempt: is_of_an_empty_answer(attempt, result, cluster, baseline),
        )
    assert figures["restarts"] == 1 + 3 + 3 + 4
