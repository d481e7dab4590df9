"""Hints within one process that there is something to do. A lost hint costs only latency (law 1, design 6)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Protocol

from mainspring.core.ids import KeyId
from mainspring.core.model import LaneKey
from mainspring.core.values import value
from mainspring.ports.hints import Hint
from mainspring.ports.store.runs import NewRun

Lanes = Callable[[], Iterable[LaneKey]]
"""Tells the lanes of what has become ready. It is only called where somebody wants to know."""


@value()
class RunsNews:
    """Which runs may have become ready.

    Attributes:
        lanes: tells the lanes of this process's runs; None: it may be any, or those of `marks`.
        marks: the lanes that another process has named.
        keys: limits of which runs have ended; None: it may be any.
    """

    lanes: Lanes | None = None
    marks: Collection[str] = ()
    keys: Collection[KeyId] | None = ()


ANYTHING = RunsNews()


def _no_lanes() -> Iterable[LaneKey]:
    return ()


def lanes_of(runs: Iterable[NewRun]) -> Lanes:
    """Return what tells the lanes of runs. Those of one job share an object, so it need not look into each."""

    def tell() -> Iterable[LaneKey]:
        return {id(run.lane): run.lane for run in runs}.values()

    return tell


class Carrier(Protocol):
    """What sends hints to the other processes."""

    def send_soon(self, hint: Hint, news: RunsNews = ANYTHING) -> None:
        """Send a hint when that is worth it."""
        ...

    def notice(self, hint: Hint, lanes: Lanes | None = None) -> str | None:
        """Return the text by which the next commit carries the hint; None if nobody waits for it."""
        ...

    def take_back(self, hint: Hint) -> None:
        """Note that a notice was not sent, because there was no commit, or nothing to tell with it."""
        ...


class Wakeups:
    """Passes hints from the code that commits a change to the services that wait for it, and to other processes.

    Hints are sent after the commit, from the event loop's thread.
    """

    def __init__(self) -> None:
        self._signals: dict[Hint, list[Callable[[], None]]] = {hint: [] for hint in Hint}
        self._runs_signals: list[Callable[[RunsNews], None]] = []
        self._workers_signals: list[Callable[[], None]] = []
        self._late_clocks_signals: list[Callable[[datetime], None]] = []
        self._forwards: list[Callable[[Hint, RunsNews], None]] = []
        self._carrier: Carrier | None = None

    def subscribe_runs(self, signal: Callable[[RunsNews], None]) -> None:
        """Call `signal` when runs may have become ready."""
        self._runs_signals.append(signal)

    def subscribe_workers(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a worker has registered with this process."""
        self._workers_signals.append(signal)

    def subscribe_clocks(self, signal: Callable[[], None]) -> None:
        """Call `signal` when something other than the planner has set a job's clock."""
        self._signals[Hint.CLOCKS].append(signal)

    def subscribe_late_clocks(self, signal: Callable[[datetime], None]) -> None:
        """Call `signal` when this process has set a clock whose fire may be long due, with the instant of that fire."""
        self._late_clocks_signals.append(signal)

    def subscribe_cancels(self, signal: Callable[[], None]) -> None:
        """Call `signal` when somebody has requested the cancel of a RUNNING run."""
        self._signals[Hint.CANCELS].append(signal)

    def subscribe_shards(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a node that stops has given up its shards."""
        self._signals[Hint.SHARDS].append(signal)

    def subscribe_restrictions(self, signal: Callable[[], None]) -> None:
        """Call `signal` when what restricts claims has changed."""
        self._signals[Hint.RESTRICTIONS].append(signal)

    def subscribe_flows(self, signal: Callable[[], None]) -> None:
        """Call `signal` when flows have got mail."""
        self._signals[Hint.FLOWS].append(signal)

    def forward_to(self, forward: Callable[[Hint, RunsNews], None]) -> None:
        """Call `forward` with each hint of this process, so that other processes hear it."""
        self._forwards.append(forward)

    def carry_by(self, carrier: Carrier) -> None:
        """Let this send hints of this process to the others, alone or with a commit."""
        self._carrier = carrier
        self.forward_to(carrier.send_soon)

    def notice_of_runs(self, lanes: Lanes | None = None) -> str | None:
        """Return what the next commit of runs tells the other processes; None if it need not.

        It counts as told from here on. Call `runs_ready(is_told=True)` after the commit, or `take_back_notice`.
        """
        return None if self._carrier is None else self._carrier.notice(Hint.RUNS, lanes)

    def take_back_notice(self) -> None:
        """Note that no commit has told what `notice_of_runs` returned."""
        if self._carrier is not None:
            self._carrier.take_back(Hint.RUNS)

    def cancel_requested(self) -> None:
        """Announce that a cancel was requested. Workers in this process beat at once to learn about it."""
        self._announce(Hint.CANCELS)

    def runs_ready(
        self, lanes: Lanes | None = None, *, keys: Collection[KeyId] | None = (), is_told: bool = False
    ) -> None:
        """Announce that runs were inserted or handed back. Only here, if the commit has told the others.

        Args:
            lanes: tells their lanes; None: that is not known.
            keys: limits of which runs have ended, so that others may start; None: it may be any.
        """
        self._announce(Hint.RUNS, RunsNews(lanes, keys=keys), is_told=is_told)

    def room_made(self, keys: Collection[KeyId] | None) -> None:
        """Announce that there may be room under these limits, or any, and that nothing else has become ready."""
        self.runs_ready(_no_lanes, keys=keys)

    def runs_wanted(self) -> None:
        """Announce that workers of this process wait, and that nothing is ready for them."""
        self._announce(Hint.WANTED)

    def worker_came(self) -> None:
        """Announce within this process that a worker has registered."""
        for signal in self._workers_signals:
            signal()

    def clocks_changed(self) -> None:
        """Announce that jobs were added, edited, paused, resumed or deleted."""
        self._announce(Hint.CLOCKS)

    def clock_set_late(self, due_at: datetime) -> None:
        """Announce within this process that a clock was set to an instant that may be long past."""
        for signal in self._late_clocks_signals:
            signal(due_at)

    def restrictions_changed(self) -> None:
        """Announce that somebody has paused or resumed a queue, a tenant or everything."""
        self._announce(Hint.RESTRICTIONS)

    def flows_told(self) -> None:
        """Announce that flows have got mail: runs of their steps have ended, or somebody has cancelled one."""
        self._announce(Hint.FLOWS)

    def shards_left(self) -> None:
        """Announce that this process's node stops and has given up its shards."""
        self._announce(Hint.SHARDS)

    def hear(self, hint: Hint, news: RunsNews = ANYTHING) -> None:
        """Pass a hint on within this process only, for example one that another process sent."""
        if hint is Hint.RUNS:
            for tell in self._runs_signals:
                tell(news)
        for signal in self._signals[hint]:
            signal()

    def _announce(self, hint: Hint, news: RunsNews = ANYTHING, *, is_told: bool = False) -> None:
        self.hear(hint, news)
        if not is_told:
            for forward in self._forwards:
                forward(hint, news)
