"""What a process does with its app's jobs before it is ready."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from mainspring import App
from mainspring.errors import Conflict, InvalidInput, MainspringError, StoreUnavailable, Unreachable
from mainspring.host import app_jobs
from mainspring.host.app_jobs import put_app
from mainspring.testing.factories import START
from mainspring.wire.owners import OwnedJobView, OwnerView, TakenJobView

app = App(name="shop")


@app.job(name="one")
async def one() -> None: ...


@app.job(name="two")
async def two() -> None: ...


class Server:
    """Takes jobs, but for what it answers first."""

    def __init__(self, *answers: MainspringError) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[list[str], dict[str, list[str]], bool]] = []
        self.view: dict[str, Any] = {"missing": [], "taken": [], "undefined": [], "deleted": []}

    async def apply(
        self, bodies: Sequence[Mapping[str, Any]], owners: Mapping[str, Sequence[str]], prune: bool
    ) -> list[OwnerView]:
        if self.answers:
            raise self.answers.pop(0)
        names = [body["name"] for body in bodies]
        self.calls.append((names, {owner: list(jobs) for owner, jobs in owners.items()}, prune))
        return [OwnerView(owner=owner, **self.view) for owner in owners]

    async def take(self, some: App = app, *, prune: bool = False) -> list[Any]:
        """Return what is logged meanwhile."""
        with capture_logs() as lines:
            await put_app(some, self.apply, prune=prune)
        return [(line["event"], line.get("job")) for line in lines]


def owned(name: str, *, fires: bool = True) -> OwnedJobView:
    at = START + timedelta(hours=1) if fires else None
    return OwnedJobView(job_id="job_1", name=name, next_fire_time=at, is_served=False)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_jobs, "_RETRY_PAUSE", 0.0)


async def test_server_that_goes_away_between_registering_and_the_jobs_is_waited_for() -> None:
    server = Server(Unreachable("killed"), StoreUnavailable("starting"), Unreachable("killed"))
    assert await server.take() == [("put_jobs_failed", None)] * 3
    assert server.calls == [(["one", "two"], {"shop": ["one", "two"]}, False)]


async def test_what_is_refused_is_for_whoever_starts_the_worker_and_names_the_job() -> None:
    for answer, told in (
        (InvalidInput("jobs[1].every", "is wrong"), "job 'two': every: is wrong"),
        (InvalidInput("[0]", "is wrong"), "job 'one': is wrong"),
        (Conflict("max_jobs", "too many"), "max_jobs: too many"),
    ):
        server = Server(answer)
        with pytest.raises(type(answer), match=f"^{re.escape(told)}$"):
            await server.take()
        assert server.calls == []


@pytest.mark.parametrize("field", ["[1].version", "jobs[1].version", "owners"])
async def test_jobs_that_another_process_has_just_changed_are_applied_again(field: str) -> None:
    server = Server(*[Conflict(field, "changed")] * 4)
    assert await server.take() == [("jobs_changed_meanwhile", None)] * 4
    assert len(server.calls) == 1
    server = Server(*[Conflict(field, "changed")] * 5)
    with pytest.raises(Conflict):
        await server.take()


async def test_many_jobs_go_in_parts_of_which_the_last_tells_whose_all_are() -> None:
    server, many = Server(), App(name="many")
    names = [f"job {number}" for number in range(1001)]
    for name in names:
        many.job(name=name)(lambda: None)
    await server.take(many, prune=True)
    assert server.calls == [(names[:1000], {}, False), (names[1000:], {"many": names}, True)]


async def test_app_without_a_name_owns_nothing() -> None:
    server, nameless = Server(), App()
    nameless.job(name="three")(lambda: None)
    await server.take(nameless)
    assert server.calls == [(["three"], {}, False)]


async def test_name_is_the_given_one_or_that_of_the_module() -> None:
    loaded = App()
    assert loaded.name is None
    loaded.load_as("shop.jobs:app")
    assert loaded.name == "shop.jobs:app"
    named = App(name="shop")
    named.load_as("shop.jobs:app")
    assert named.name == "shop"


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", "x" * 201, "a\nb"])
def test_bad_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        App(name=name)


async def test_what_is_not_defined_any_more_is_named_with_the_remedy() -> None:
    server = Server()
    server.view["undefined"] = [owned("old"), owned("idle", fires=False)]
    with capture_logs() as lines:
        await put_app(app, server.apply, prune=False)
    assert [line["meaning"] for line in lines] == [
        "the code of shop does not define it any more and fires next at 2026-01-05T13:00:00.000Z; `--prune` deletes it",
        "the code of shop does not define it any more; `--prune` deletes it",
    ]


async def test_many_are_counted_after_the_first_twenty() -> None:
    server = Server()
    server.view["undefined"] = [owned(f"old {number}") for number in range(30)]
    lines = await server.take()
    assert len(lines) == 21
    assert lines[-1] == ("jobs_undefined", None)


async def test_deleted_and_taken_jobs_are_told() -> None:
    server = Server()
    server.view |= {"deleted": [owned("old")], "taken": [TakenJobView(name="one", owner="mail")]}
    assert await server.take(prune=True) == [("job_taken_over", "one"), ("job_pruned", "old")]
    assert server.calls[0][2] is True
