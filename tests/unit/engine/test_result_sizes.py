"""A result goes from the function into the store and out again: whole up to the limit, as a mark above it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring.core.model import INLINE_LIMIT, Run
from mainspring.core.states import RunState
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.manual import TENANT, ManualRuntime
from mainspring.wire.views import view_run

MakeStore = Callable[[Path], Store | None]


def make_memory(folder: Path) -> None:
    """The runtime's own."""


def make_sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "mainspring.db")


async def carry_out(store: Store | None, size: int) -> Run:
    """Carry out a run whose first attempt fails and whose second returns `size` bytes of JSON."""
    failures = [ValueError("the first attempt writes another row than the second")]

    def work() -> str:
        if failures:
            raise failures.pop()
        return "x" * (size - 2)

    registry = FunctionRegistry()
    registry.add("work", work)
    async with ManualRuntime(registry, store=store) as runtime:
        body = {"name": "job", "function": "work", "retry": {"max_retries": 1, "delay": 0}}
        job = await runtime.client.jobs.create(TENANT, body)
        run_id = (await runtime.client.runs.submit(TENANT, Submission(job_id=job.id))).run_id
        worker = await runtime.worker()
        assert await worker.work() == 2
        return await runtime.client.runs.get(TENANT, run_id)


@pytest.mark.parametrize("make", [make_memory, make_sqlite])
@pytest.mark.parametrize("size", [60_000, 60_001, INLINE_LIMIT])
async def test_result_up_to_the_limit_is_read_as_it_was_returned(
    make: MakeStore, size: int, tmp_path: Path
) -> None:
    run = await carry_out(make(tmp_path), size)
    assert (run.state, run.result) == (RunState.SUCCEEDED, b'"' + b"x" * (size - 2) + b'"')


@pytest.mark.parametrize("make", [make_memory, make_sqlite])
async def test_run_whose_result_is_over_the_limit_succeeds_and_says_so(
    make: MakeStore, tmp_path: Path
) -> None:
    run = await carry_out(make(tmp_path), INLINE_LIMIT + 1)
    assert run.state is RunState.SUCCEEDED
    view = view_run(run, None)
    assert view.result is None
    assert view.result_left_out is not None
    assert (view.result_left_out.reason, view.result_left_out.size_bytes) == ("too_large", INLINE_LIMIT + 1)
    assert view.result_left_out.note == "the result is 65,537 bytes of JSON; at most 65,536 can be kept"
