"""A worker of the release before that reaches the store by HTTP, and was left running, meets the new server.

It cannot read today's leases. Its session does not outlive the upgrade, and no new one is granted to it.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.postgres import temporary_database
from tests.upgrade.before_jobs import MENDED
from tests.upgrade.cluster import Member
from tests.upgrade.old_store import Place, crew, wait_for
from tests.upgrade.versions import Version

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CURRENT = Version("under test", None)
SENTENCE = "this server speaks worker protocol 2; upgrade the worker"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A store without any table."""
    if request.param == "sqlite":
        (tmp_path / "data").mkdir()
        yield Place(str(tmp_path / "data"))
        return
    with temporary_database(request.getfixturevalue("postgres_server")) as dsn:
        yield Place(dsn)


def log_of(member: Member) -> str:
    return Path(member.log.name).read_text()


def test_worker_that_stays_is_refused_and_holds_nothing(
    place: Place, release_before: Version, tmp_path: Path
) -> None:
    with crew(tmp_path / "old", place, release_before) as old:
        left = old.worker("left", "--slots=2")
        job = old.api.job("held", function="hang")
        held = old.api.submit(job)
        old.api.wait(held, "RUNNING")
        assert old.server.stop() == 0
        with crew(tmp_path / "new", place, CURRENT, port=old.port) as new:
            waiting = new.api.submit(job)
            wait_for(partial(log_of, left), lambda log: SENTENCE in log)
            assert new.api.get("/workers")["items"] == []
            (new.folder / "effects" / MENDED).touch()
            new.worker("new")
            for run in (held, waiting):
                new.api.wait(run, "SUCCEEDED")
            assert new.begun() == {held: 1, waiting: 1}
            assert old.begun() == {held: 1}
            refused = log_of(left).count(SENTENCE)
            wait_for(partial(log_of, left), lambda log: log.count(SENTENCE) > refused)
            assert left.stop() == 0
