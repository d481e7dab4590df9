"""What processes tell each other, and what they keep to themselves."""

import random
from collections.abc import Callable, Collection

import pytest

from mainspring.core.ids import KeyId
from mainspring.core.lane_marks import MOST_MARKS, mark_of
from mainspring.core.model import LaneKey, Priority
from mainspring.engine.common.hints import CHECK_PERIOD, MERGE, RENEW, SPREAD, HintExchange
from mainspring.engine.common.wakeups import RunsNews, Wakeups
from mainspring.errors import StoreUnavailable
from mainspring.ports.hints import ANY, Hear, Hint, Ready
from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.testing.factories import START


class Network:
    """Carries what a channel sends to all others at once."""

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.sent: list[tuple[str, list[Hint]]] = []
        self.is_down = False


class Channel:
    """A `HintChannel` in memory."""

    def __init__(self, network: Network, name: str) -> None:
        self.name = name
        self._network = network
        self._hear: Hear | None = None
        self._on_loss: Callable[[], None] | None = None
        network.channels.append(self)

    @property
    def is_connected(self) -> bool:
        return self._hear is not None

    async def connect(self, hear: Hear, on_loss: Callable[[], None]) -> None:
        if self._network.is_down:
            raise StoreUnavailable("down")
        self._hear, self._on_loss = hear, on_loss

    async def send(self, hints: Collection[Hint], ready: Ready = ANY) -> None:
        if self._network.is_down:
            self._hear = None
            raise StoreUnavailable("down")
        self._network.sent.append((self.name, list(hints)))
        for other in self._network.channels:
            if other is not self and other._hear is not None:
                for hint in hints:
                    other._hear(hint, ready if hint is Hint.RUNS else ANY)

    def notice(self, hints: Collection[Hint], ready: Ready = ANY) -> str:
        return f"{self.name}:{','.join(hints)}"

    async def close(self) -> None:
        self._hear = None

    def lose(self) -> None:
        assert self._on_loss is not None
        self._hear = None
        self._on_loss()


class CountingWaiter(ManualWaiter):
    """Counts the signals."""

    def __init__(self) -> None:
        super().__init__()
        self.signals = 0

    def signal(self) -> None:
        self.signals += 1
        super().signal()


class Process:
    """One process's exchange, with what its services were told."""

    def __init__(self, network: Network, name: str, clock: FakeClock) -> None:
        self.clock = clock
        self.wakeups = Wakeups()
        self.channel = Channel(network, name)
        self.told: list[Hint] = []
        self.wakeups.subscribe_runs(lambda news: self.told.append(Hint.RUNS))
        self.wakeups.subscribe_clocks(lambda: self.told.append(Hint.CLOCKS))
        self.wakeups.subscribe_cancels(lambda: self.told.append(Hint.CANCELS))
        self.waiter = CountingWaiter()
        self.exchange = HintExchange(
            self.channel, wakeups=self.wakeups, clock=clock, random=random.Random(1), waiter=self.waiter
        )

    async def tick(self) -> float:
        return await self.exchange.tick(START)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
async def pair(network: Network, clock: FakeClock) -> tuple[Process, Process]:
    """Two processes, connected, that have said nothing yet."""
    processes = Process(network, "a", clock), Process(network, "b", clock)
    for process in processes:
        await process.tick()
        process.told.clear()
    clock.advance(1.0)
    return processes


async def say_wanted(process: Process) -> None:
    process.wakeups.runs_wanted()
    process.clock.advance(SPREAD)
    await process.tick()


async def test_hint_reaches_the_others_and_is_not_sent_on(
    pair: tuple[Process, Process], network: Network
) -> None:
    a, b = pair
    a.wakeups.clocks_changed()
    await a.tick()
    assert (a.told, b.told) == ([Hint.CLOCKS], [Hint.CLOCKS])
    await b.tick()
    assert network.sent == [("a", [Hint.CLOCKS])]


async def test_first_hint_goes_at_once_and_those_that_follow_go_together(
    pair: tuple[Process, Process], network: Network, clock: FakeClock
) -> None:
    a, _ = pair
    a.wakeups.clocks_changed()
    await a.tick()
    for _ in range(3):
        a.wakeups.clocks_changed()
        a.wakeups.cancel_requested()
    assert await a.tick() == pytest.approx(MERGE)
    assert len(network.sent) == 1
    clock.advance(MERGE)
    await a.tick()
    assert network.sent[1:] == [("a", [Hint.CLOCKS, Hint.CANCELS])]


async def test_runs_are_told_once_until_somebody_waits_again(
    pair: tuple[Process, Process], network: Network, clock: FakeClock
) -> None:
    a, b = pair
    for _ in range(3):
        a.wakeups.runs_ready()
        await a.tick()
        clock.advance(1.0)
    assert network.sent == [("a", [Hint.RUNS])]
    await say_wanted(b)
    await a.tick()
    assert network.sent[1:] == [("b", [Hint.WANTED]), ("a", [Hint.RUNS])]
    assert b.told == [Hint.RUNS, Hint.RUNS]


async def test_limits_of_ended_runs_are_told_with_the_lanes_until_they_are_too_many(
    pair: tuple[Process, Process], network: Network
) -> None:
    a, b = pair
    heard: list[RunsNews] = []
    b.wakeups.subscribe_runs(heard.append)
    lane = LaneKey("default", "function", "default", Priority.MEDIUM)
    keys = [KeyId(number) for number in range(MOST_MARKS)]
    for lanes, ended in (([], keys[:1]), ([lane], keys), ([], [KeyId(999)])):
        a.wakeups.runs_ready(lambda lanes=lanes: lanes, keys=ended)  # type: ignore[misc]
    await a.tick()
    await say_wanted(b)
    a.wakeups.room_made(keys[:2])
    await a.tick()
    assert [(sorted(news.marks), news.keys) for news in heard] == [
        ([mark_of(lane)], None),
        ([], set(keys[:2])),
    ]


async def test_runs_made_before_anybody_waits_are_told_when_somebody_does(
    pair: tuple[Process, Process], clock: FakeClock
) -> None:
    a, b = pair
    a.wakeups.runs_ready()
    await a.tick()
    b.told.clear()
    a.wakeups.runs_ready()  # nobody waits: b's last look may be older than this
    clock.advance(1.0)
    assert await a.tick() > 1
    assert b.told == []
    await say_wanted(b)
    await a.tick()
    assert b.told == [Hint.RUNS]


async def test_waiting_is_said_by_one_for_all_and_again_after_a_while(
    pair: tuple[Process, Process], network: Network, clock: FakeClock
) -> None:
    a, b = pair
    a.wakeups.runs_wanted()
    b.wakeups.runs_wanted()
    clock.advance(SPREAD)
    await a.tick()
    await b.tick()
    b.wakeups.runs_wanted()
    clock.advance(1.0)
    await b.tick()
    assert network.sent == [("a", [Hint.WANTED])]
    clock.advance(2 * RENEW)
    await say_wanted(b)
    assert network.sent[1:] == [("b", [Hint.WANTED])]


async def test_waiting_is_told_after_runs_of_the_same_moment(
    pair: tuple[Process, Process], network: Network, clock: FakeClock
) -> None:
    a, b = pair
    a.wakeups.runs_wanted()
    a.wakeups.runs_ready()
    clock.advance(1.0)
    await a.tick()
    assert network.sent == [("a", [Hint.RUNS, Hint.WANTED])]
    b.wakeups.runs_ready()
    await b.tick()
    assert network.sent[1:] == [("b", [Hint.RUNS])]


async def test_lost_connection_is_opened_anew_and_everything_taken_as_said(
    pair: tuple[Process, Process], network: Network, clock: FakeClock
) -> None:
    a, b = pair
    network.is_down = True
    b.channel.lose()
    assert b.waiter.signals == 1
    with pytest.raises(StoreUnavailable):
        await b.tick()
    b.wakeups.clocks_changed()
    a.wakeups.clocks_changed()
    with pytest.raises(StoreUnavailable):
        await a.tick()
    assert b.waiter.signals == 1, "a hint must not cut the pause before the next try short"
    network.is_down = False
    b.told.clear()
    await b.tick()
    assert b.told == [Hint.RUNS, Hint.CLOCKS, Hint.CANCELS]
    clock.advance(MERGE)
    await b.tick()
    await a.tick()
    clock.advance(MERGE)
    await a.tick()
    assert network.sent == [("b", [Hint.CLOCKS]), ("a", [Hint.CLOCKS])]


async def test_silent_connection_is_tried(
    pair: tuple[Process, Process], network: Network, clock: FakeClock
) -> None:
    a, _ = pair
    clock.advance(CHECK_PERIOD)
    assert await a.tick() == pytest.approx(CHECK_PERIOD)
    assert network.sent == [("a", [])]
    network.is_down = True
    clock.advance(CHECK_PERIOD)
    with pytest.raises(StoreUnavailable):
        await a.tick()
    assert not a.channel.is_connected


async def test_close_says_what_is_left(
    pair: tuple[Process, Process], network: Network, clock: FakeClock
) -> None:
    a, b = pair
    a.wakeups.runs_ready()
    a.wakeups.runs_wanted()
    await a.exchange.close()
    assert network.sent == [("a", [Hint.RUNS])]
    assert b.told == [Hint.RUNS]
    network.is_down = True
    b.wakeups.runs_ready()
    await b.exchange.close()
    assert not b.channel.is_connected


async def test_commit_carries_the_hint_while_somebody_waits(
    pair: tuple[Process, Process], network: Network
) -> None:
    a, b = pair
    await say_wanted(b)
    assert a.wakeups.notice_of_runs() == "a:runs"
    a.wakeups.runs_ready(is_told=True)
    assert a.told == [Hint.RUNS]
    await a.tick()
    assert network.sent == [("b", [Hint.WANTED])], "the commit has told the others"
    assert a.wakeups.notice_of_runs() is None, "nobody is known to wait any more"


async def test_answer_to_a_notice_may_come_before_that_of_its_commit(
    pair: tuple[Process, Process], network: Network, clock: FakeClock
) -> None:
    """Who waits again says so once, and that must not be forgotten when the commit returns."""
    a, b = pair
    await say_wanted(b)
    assert a.wakeups.notice_of_runs() is not None
    b.wakeups.hear(Hint.RUNS)
    clock.advance(2 * RENEW)
    await say_wanted(b)
    a.wakeups.runs_ready(is_told=True)
    assert a.wakeups.notice_of_runs() is not None


async def test_notice_that_no_commit_has_sent_is_taken_back(
    pair: tuple[Process, Process], network: Network
) -> None:
    a, b = pair
    await say_wanted(b)
    assert a.wakeups.notice_of_runs() is not None
    a.wakeups.take_back_notice()
    a.wakeups.runs_ready()
    await a.tick()
    assert network.sent[-1] == ("a", [Hint.RUNS])


async def test_commit_carries_nothing_without_a_connection_or_beside_a_hint(
    pair: tuple[Process, Process],
) -> None:
    a, b = pair
    await say_wanted(b)
    a.wakeups.runs_ready()
    assert a.wakeups.notice_of_runs() is None, "one is on its way"
    await a.tick()
    await say_wanted(b)
    a.channel.lose()
    assert a.wakeups.notice_of_runs() is None


def test_process_without_a_channel_tells_itself() -> None:
    wakeups = Wakeups()
    told: list[Hint] = []
    wakeups.subscribe_runs(lambda news: told.append(Hint.RUNS))
    assert wakeups.notice_of_runs() is None
    wakeups.runs_ready()
    assert told == [Hint.RUNS]
