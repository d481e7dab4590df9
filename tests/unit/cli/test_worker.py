"""What `mainspring worker` does before it is ready."""

from typing import Any

import pytest

from mainspring import App
from mainspring.cli.commands import worker
from mainspring.errors import Conflict, MainspringError, StoreUnavailable, Unreachable

app = App()


@app.job(name="one")
async def one() -> None: ...


@app.job(name="two")
async def two() -> None: ...


class Server:
    """Takes jobs, but for what it answers first."""

    def __init__(self, *answers: MainspringError) -> None:
        self.answers = list(answers)
        self.jobs: list[str] = []

    async def put(self, body: dict[str, Any]) -> None:
        if self.answers:
            raise self.answers.pop(0)
        self.jobs.append(body["name"])


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_RETRY_PAUSE", 0.0)


async def test_server_that_goes_away_between_registering_and_the_jobs_is_waited_for() -> None:
    server = Server(Unreachable("killed"), StoreUnavailable("starting"), Unreachable("killed"))
    await worker.put_jobs(app, server.put)
    assert server.jobs == ["one", "two"]


async def test_what_is_refused_is_for_whoever_starts_the_worker() -> None:
    server = Server(Conflict("name", "taken"))
    with pytest.raises(Conflict):
        await worker.put_jobs(app, server.put)
    assert server.jobs == []
