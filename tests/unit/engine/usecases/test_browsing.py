"""Lists find everything that is there, page by page, and say how far they came when their time is over."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from mainspring.core.ids import SHARDS, RunId
from mainspring.core.model import Run
from mainspring.core.states import RunState
from mainspring.engine.common import run_ids
from mainspring.engine.usecases import browsing
from mainspring.engine.usecases.browsing import RunBrowser, RunFilter
from mainspring.errors import InvalidInput, TookTooLong
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import START, add_job, at, make_spec, submit
from mainspring.testing.manual import TENANT


class SlowStore(MemoryStore):
    """A memory store whose lists take a while for each window.

    Attributes:
        windows: the ranges of ids that were looked at.
    """

    def __init__(self, clock: FakeClock, *, seconds: float = 0.0) -> None:
        super().__init__(time=clock.now)
        self._clock = clock
        self.seconds = seconds
        self.windows: list[tuple[int, int]] = []

    async def list_runs(self, tenant: str, **filters: Any) -> list[Run]:
        self.windows.append((filters["lowest"], filters["before"]))
        self._clock.advance(self.seconds)
        return await super().list_runs(tenant, **filters)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> SlowStore:
    return SlowStore(clock)


@pytest.fixture
def browser(store: SlowStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> RunBrowser:
    """One that looks at ten runs first, so that few runs are many windows."""
    monkeypatch.setattr(browsing, "FIRST_WINDOW", 10 * SHARDS)
    monkeypatch.setattr(run_ids, "_GRAIN", 2 * SHARDS)
    return RunBrowser(store, clock=clock, budget=timedelta(seconds=1))


async def find_all(browser: RunBrowser, wanted: RunFilter, *, limit: int) -> list[RunId]:
    found: list[RunId] = []
    before: RunId | None = None
    while True:
        page = await browser.find(TENANT, wanted, before=before, limit=limit)
        found += [run.id for run in page.runs]
        if page.before is None:
            return found
        assert before is None or page.before < before
        before = page.before


async def test_empty_store_has_an_empty_page(browser: RunBrowser) -> None:
    page = await browser.find(TENANT, RunFilter(), before=None, limit=10)
    assert (page.runs, page.before, page.searched_to) == ([], None, None)


@pytest.mark.parametrize("seconds", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_pages_have_each_run_once_however_slow_the_store_is(
    browser: RunBrowser, store: SlowStore, seconds: float, limit: int
) -> None:
    random = Random(7)
    jobs = [await add_job(store, make_spec(queue=queue)) for queue in ("q", "r")]
    everything = []
    for second in range(300):
        job = random.choice(jobs)
        skip = random.random() < 0.05
        [run_id] = await submit(store, job, now=at(second), skip_reason="misfire" if skip else None)
        everything.append((run_id, job, skip, second))
    everything.reverse()
    store.seconds = seconds
    assert await find_all(browser, RunFilter(), limit=limit) == [run for run, *_ in everything]
    skipped = RunFilter(state=RunState.SKIPPED)
    assert await find_all(browser, skipped, limit=limit) == [run for run, _, skip, _ in everything if skip]
    mine = RunFilter(queue="r", job_id=jobs[1].id)
    assert await find_all(browser, mine, limit=limit) == [
        run for run, job, *_ in everything if job == jobs[1]
    ]
    span = RunFilter(since=at(100), until=at(200))
    expected = [run for run, _, _, second in everything if 100 <= second < 200]
    assert await find_all(browser, span, limit=limit) == expected


async def test_windows_grow_where_nothing_is_found(browser: RunBrowser, store: SlowStore) -> None:
    job = await add_job(store)
    await submit(store, job, 1000)
    page = await browser.find(TENANT, RunFilter(state=RunState.FAILED), before=None, limit=10)
    assert (page.runs, page.before, page.searched_to) == ([], None, None)
    assert len(store.windows) == 3  # 10, 160 and the rest
    assert [high for _, high in store.windows[1:]] == [low for low, _ in store.windows[:-1]]


@pytest.mark.parametrize(("seconds", "factor"), [(0.03, 16), (0.1, 4), (0.2, 1)])
async def test_next_window_is_as_wide_as_half_the_budget_allows(
    browser: RunBrowser, store: SlowStore, seconds: float, factor: int
) -> None:
    await submit(store, await add_job(store), 1000)
    store.seconds = seconds
    await browser.find(TENANT, RunFilter(state=RunState.FAILED), before=None, limit=10)
    (first, high), (second, _) = store.windows[:2]
    assert first - second == (high - first) * factor


async def test_runs_of_a_job_are_one_window(browser: RunBrowser, store: SlowStore) -> None:
    job, other = await add_job(store), await add_job(store)
    [mine] = await submit(store, job)
    await submit(store, other, 500)
    page = await browser.find(TENANT, RunFilter(job_id=job.id), before=None, limit=10)
    assert ([run.id for run in page.runs], page.before, len(store.windows)) == ([mine], None, 1)


async def test_list_whose_time_is_over_says_how_far_it_looked(browser: RunBrowser, store: SlowStore) -> None:
    job = await add_job(store)
    created = {}
    for second in range(100):
        [run_id] = await submit(store, job, now=at(second))
        created[run_id] = at(second)
    store.seconds = 0.6
    page = await browser.find(TENANT, RunFilter(state=RunState.FAILED), before=None, limit=10)
    assert len(store.windows) == 2
    assert page.runs == []
    assert page.before == store.windows[-1][0]
    assert page.searched_to == min(created[run_id] for run_id in created if run_id >= page.before)


async def test_span_is_found_without_passing_what_is_outside(browser: RunBrowser, store: SlowStore) -> None:
    job = await add_job(store)
    for minute in range(600):
        await submit(store, job, now=START + timedelta(minutes=minute))
    span = RunFilter(since=START + timedelta(minutes=300), until=START + timedelta(minutes=310))
    page = await browser.find(TENANT, span, before=None, limit=100)
    assert len(page.runs) == 10
    passed = sum(high - low for low, high in store.windows) / SHARDS
    assert passed < 20


async def test_list_that_the_store_stops_is_refused_with_what_to_add(
    browser: RunBrowser, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await add_job(store)
    await submit(store, job)

    async def refuse(*_: object, **__: object) -> list[Run]:
        raise TookTooLong("stopped")

    monkeypatch.setattr(store, "list_runs", refuse)
    with pytest.raises(InvalidInput, match="takes too long without it; add it, or") as caught:
        await browser.find(TENANT, RunFilter(), before=None, limit=10)
    assert caught.value.field == "job_id"
    with pytest.raises(InvalidInput) as caught:
        await browser.find(TENANT, RunFilter(job_id=job.id), before=None, limit=10)
    assert caught.value.field == "since"
