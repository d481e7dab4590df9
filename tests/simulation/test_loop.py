"""The virtual loop: time jumps, processes stop, go on and die."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tools.simulator.loop import Process, Stuck, VirtualLoop, current_process, make_loop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = make_loop()
    yield loop
    loop.close()


async def tick(loop: VirtualLoop, times: list[float], count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(1)
        times.append(loop.time())


def test_time_passes_only_by_timers(loop: VirtualLoop) -> None:
    times: list[float] = []
    loop.run_until_complete(tick(loop, times, 1000))
    assert times == [float(second) for second in range(1, 1001)]


def test_paused_process_gets_everything_when_it_goes_on(loop: VirtualLoop) -> None:
    times: list[float] = []

    async def main() -> None:
        process = Process("one", loop)
        task = process.spawn(tick(loop, times))
        await asyncio.sleep(2.5)
        process.pause()
        assert process.is_paused
        await asyncio.sleep(10)
        process.go_on()
        await asyncio.wait([task])

    loop.run_until_complete(main())
    assert times == [1, 2, 12.5, 13.5, 14.5]


def test_killed_process_runs_no_more_and_no_finally(loop: VirtualLoop) -> None:
    said: list[str] = []

    async def work() -> None:
        try:
            await asyncio.create_task(asyncio.sleep(5))
            said.append("went on")
        except BaseException:
            said.append("was told")
            raise

    async def main() -> None:
        process = Process("one", loop)
        task = process.spawn(work())
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(100)
        assert not task.done()
        said.append("end")

    loop.run_until_complete(main())
    assert said == ["end"]


def test_tasks_belong_to_the_process_that_started_them(loop: VirtualLoop) -> None:
    names: list[str | None] = []

    async def inner() -> None:
        await asyncio.sleep(1)
        process = current_process()
        names.append(process.name if process else None)

    async def outer() -> None:
        await asyncio.gather(inner(), asyncio.wait_for(inner(), 5))

    async def main() -> None:
        await asyncio.wait([Process("one", loop).spawn(outer())])
        await inner()

    loop.run_until_complete(main())
    assert names == ["one", "one", None]


def test_timeouts_of_asyncio_work(loop: VirtualLoop) -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.sleep(10)
        done, waiting = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(9))], timeout=2)
        assert (len(done), len(waiting)) == (0, 1)
        return loop.time()

    assert loop.run_until_complete(main()) == 5


def test_wait_for_what_never_comes_is_told(loop: VirtualLoop) -> None:
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())


def test_error_that_nobody_caught_is_kept(loop: VirtualLoop) -> None:
    def fail() -> None:
        raise ValueError("oops")

    async def main() -> None:
        loop.call_soon(fail)
        await asyncio.sleep(0.1)

    loop.run_until_complete(main())
    assert [str(error["exception"]) for error in loop.errors] == ["oops"]
