"""Direct calls of jobs' functions need no engine, and errors about definitions lead to the user's line."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import Any

import pytest

from mainspring import App, InvalidInput, RetryRun, SnoozeRun, current_attempt
from mainspring.core.ids import format_run_id
from mainspring.ports.executor import AttemptContext
from mainspring.sdk.direct import make_attempt
from mainspring.signals import lending


@pytest.fixture
def app() -> App:
    return App()


def test_a_function_that_asks_for_its_attempt_can_be_called(app: App) -> None:
    @app.job()
    def who() -> AttemptContext:
        assert current_attempt() is current_attempt()
        return current_attempt()

    first, second = who(), who()
    assert (first.run_id, first.attempt, first.job_name, first.token) == (0, 1, "who", 0)
    assert first.idempotency_key != second.idempotency_key, "two calls are not one run to a target"


async def test_an_async_function_too_and_the_tasks_that_it_starts(app: App) -> None:
    @app.job()
    async def who() -> list[AttemptContext]:
        async def inner() -> AttemptContext:
            return current_attempt()

        return [current_attempt(), await asyncio.create_task(inner())]

    attempts = await who()
    assert attempts[0] is attempts[1]
    first, second = await asyncio.gather(who(), who())
    assert first[0].idempotency_key != second[0].idempotency_key


def test_a_function_that_a_job_calls_shares_its_attempt(app: App) -> None:
    @app.job()
    def inner() -> AttemptContext:
        return current_attempt()

    @app.job()
    def outer() -> tuple[AttemptContext, AttemptContext]:
        return current_attempt(), inner()

    first, second = outer()
    assert first is second
    assert first.job_name == "outer"


def test_outside_there_is_none(app: App) -> None:
    with pytest.raises(LookupError, match="outside an attempt"):
        current_attempt()
    assert current_attempt(None) is None
    assert current_attempt(default="x") == "x"

    @app.job()
    def who() -> AttemptContext:
        return current_attempt()

    who()
    with pytest.raises(LookupError):
        current_attempt()


def test_a_stand_in_can_be_chosen(app: App) -> None:
    @app.job()
    def who() -> AttemptContext:
        return current_attempt()

    with (
        app.testing() as t,
        t.attempt(who, attempt=3, run_id="run_0000000000081", idempotency_key="k") as chosen,
    ):
        assert who() is chosen
        assert (chosen.attempt, format_run_id(chosen.run_id)) == (3, "run_0000000000081")
        assert (chosen.idempotency_key, chosen.due_at) == ("k", t.now)
    with pytest.raises(LookupError):
        current_attempt()


def test_an_attempt_under_way_wins_over_a_stand_in(app: App) -> None:
    @app.job()
    def who() -> str:
        return format_run_id(current_attempt().run_id)

    with app.testing() as t, t.attempt(who):
        run = who.enqueue_sync()
        assert t.run(run).result == run.id


def test_an_attempt_has_the_id_that_the_api_takes(app: App) -> None:
    @app.job()
    def which() -> str:
        return current_attempt().run

    with app.testing() as t:
        run = which.options(idempotency_key="k").enqueue_sync()
        assert t.run(run).result == run.id
        assert app.sync.get_run(str(t.run(run).result)).run_id == run.id


def test_signals_are_raised(app: App) -> None:
    @app.job()
    def snooze() -> None:
        raise SnoozeRun(1)

    @app.job()
    async def retry() -> None:
        raise RetryRun(1)

    with pytest.raises(SnoozeRun):
        snooze()
    with pytest.raises(RetryRun):
        asyncio.run(retry())


def test_lending_ends_with_its_block() -> None:
    with lending(lambda: make_attempt("a")):
        with lending(lambda: make_attempt("b")):
            assert current_attempt().job_name == "b"
        assert current_attempt().job_name == "a"


@pytest.mark.parametrize("options", [{"cron": "61 * * * *"}, {"crom": "* * * * *"}, {"name": ""}])
def test_a_wrong_definition_leads_to_the_users_line(app: App, options: dict[str, Any]) -> None:
    def job() -> None: ...

    decorate = app.job(**options)
    with pytest.raises(InvalidInput) as raised:
        decorate(job)
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert [Path(frame.filename).name for frame in frames] == ["test_direct.py", "app.py"]
    line = frames[0].lineno
    assert raised.value.__cause__ is None
    (note,) = raised.value.__notes__
    assert note.endswith(f"test_direct.py, line {line}")
