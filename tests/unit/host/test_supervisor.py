"""The parent of worker processes: when it starts them again, when it gives up, and how it ends."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.host.process import StopRequest
from mainspring.host.supervisor import Supervisor


class FakeChild:
    """A process of which a test decides when it is ready and how it ends; asked to stop, it ends well."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.is_stopped = self.is_killed = False
        self.signals: list[int] = []
        self._ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def get_ready(self) -> None:
        self._ready.set_result(True)

    def end(self, code: int) -> None:
        if not self._ready.done():
            self._ready.set_result(False)
        self._code.set_result(code)

    async def wait_ready(self) -> bool:
        return await self._ready

    async def wait(self) -> int:
        return await self._code

    def stop(self) -> None:
        self.is_stopped = True
        if not self._code.done():
            self.end(0)

    def kill(self) -> None:
        self.is_killed = True

    def signal(self, number: int) -> None:
        self.signals.append(number)


class Pauses:
    """Waits for nothing, and remembers for how long it should have."""

    def __init__(self) -> None:
        self.all: list[float] = []

    async def wait(self, seconds: float) -> None:
        self.all.append(round(seconds, 3))
        await asyncio.sleep(0)

    def signal(self) -> None: ...


class Highest:
    def random(self) -> float:
        return 1.0


class Stage:
    """A supervisor whose processes are a test's."""

    def __init__(self, count: int) -> None:
        self.children: list[FakeChild] = []
        self.places: list[int] = []
        self.faults: list[OSError] = []
        self._news = asyncio.Event()
        self.pauses = Pauses()
        self.now = 0.0
        self.stop = StopRequest()
        self.supervisor = Supervisor(
            count,
            self._start,
            waiter=lambda: self.pauses,
            random=Highest(),
            monotonic=lambda: self.now,
        )
        self.running = asyncio.create_task(self.supervisor.run(self.stop))

    async def _start(self, place: int) -> FakeChild:
        if self.faults:
            raise self.faults.pop()
        self.places.append(place)
        self.children.append(FakeChild(100 + len(self.children)))
        self._news.set()
        return self.children[-1]

    async def child(self, index: int) -> FakeChild:
        """Return a child as soon as it is started."""
        async with asyncio.timeout(10):
            while len(self.children) <= index:
                self._news.clear()
                await self._news.wait()
        return self.children[index]

    async def code(self) -> int:
        async with asyncio.timeout(10):
            return await self.running


async def ready(stage: Stage, count: int) -> list[FakeChild]:
    children = []
    for index in range(count):
        child = await stage.child(index)
        child.get_ready()
        children.append(child)
    return children


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_first_goes_ahead_and_ready_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(3)
    first = await stage.child(0)
    await settle()
    assert stage.places == [0]
    first.get_ready()
    for index in (1, 2):
        assert capsys.readouterr().out == ""
        (await stage.child(index)).get_ready()
        await settle()
    assert capsys.readouterr().out == "ready\n"
    assert stage.places == [0, 1, 2]
    stage.children[1].end(-9)
    (await stage.child(3)).get_ready()
    await settle()
    assert stage.places == [0, 1, 2, 1]
    assert "ready" not in capsys.readouterr().out
    stage.stop.ask()
    assert await stage.code() == 0
    assert all(child.is_stopped for child in stage.children if child is not stage.children[1])
    assert capsys.readouterr().out == "stopping\n"


async def test_pauses_grow_and_are_bounded_until_one_has_settled() -> None:
    stage = Stage(1)
    for index in range(9):
        child = await stage.child(index)
        child.get_ready()
        await settle()
        child.end(0 if index == 4 else 1)
    last = await stage.child(9)
    assert stage.pauses.all == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    last.get_ready()
    await settle()
    stage.now += 60
    last.end(-11)
    await stage.child(10)
    assert stage.pauses.all[-1] == 0.5
    stage.stop.ask()
    assert await stage.code() == 0


async def test_what_one_is_refused_ends_all() -> None:
    stage = Stage(2)
    one, other = await ready(stage, 2)
    await settle()
    one.end(-9)
    (await stage.child(2)).end(2)
    assert await stage.code() == 2
    assert other.is_stopped
    assert len(stage.children) == 3


@pytest.mark.parametrize("code", [1, 2])
async def test_the_first_that_fails_ends_all_before_the_others_begin(code: int) -> None:
    stage = Stage(4)
    (await stage.child(0)).end(code)
    assert await stage.code() == code
    assert stage.places == [0]


async def test_a_failure_at_the_start_is_tried_again_once_there_was_one_ready() -> None:
    stage = Stage(1)
    (await ready(stage, 1))[0].end(-9)
    (await stage.child(1)).end(1)
    await stage.child(2)
    stage.stop.ask()
    assert await stage.code() == 0


async def test_one_that_is_killed_before_it_is_ready_is_started_again() -> None:
    stage = Stage(1)
    (await stage.child(0)).end(-9)
    (await stage.child(1)).get_ready()
    stage.stop.ask()
    assert await stage.code() == 0


@pytest.mark.parametrize(("end", "code"), [(-9, 1), (130, 130), (0, 0)])
async def test_the_end_of_a_drain_tells_in_the_exit_code(end: int, code: int) -> None:
    stage = Stage(2)
    one, _ = await ready(stage, 2)
    await settle()
    one.stop = lambda: one.end(end)  # type: ignore[method-assign]
    stage.stop.ask()
    assert await stage.code() == code


async def test_where_no_process_can_be_made_it_is_tried_again_but_for_the_very_first() -> None:
    stage = Stage(1)
    (child,) = await ready(stage, 1)
    await settle()
    stage.faults = [BlockingIOError(11, "no more processes")]
    child.end(-9)
    await stage.child(1)
    assert stage.pauses.all == [0.5, 1.0]
    stage.stop.ask()
    assert await stage.code() == 0
    stage = Stage(1)
    stage.faults = [BlockingIOError(11, "no more processes")]
    with pytest.raises(BlockingIOError):
        await stage.code()


async def test_a_second_signal_is_for_all() -> None:
    stage = Stage(2)
    children = await ready(stage, 2)
    await settle()
    assert stage.stop.on_repeat is not None
    stage.stop.on_repeat()
    assert all(child.is_killed for child in children)
    stage.stop.ask()
    assert await stage.code() == 0


async def test_a_signal_goes_to_those_that_are_ready_for_it() -> None:
    stage = Stage(2)
    first = await stage.child(0)
    first.get_ready()
    second = await stage.child(1)
    await settle()
    stage.supervisor.pass_on(12)
    assert (first.signals, second.signals) == ([12], [])
    second.get_ready()
    await settle()
    stage.supervisor.pass_on(12)
    assert (first.signals, second.signals) == ([12, 12], [12])
    stage.stop.ask()
    assert await stage.code() == 0
