"""Hints within one process that there is something to do. A lost hint costs only latency (law 1, design 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mainspring.ports.hints import Hint


class Carrier(Protocol):
    """What sends hints to the other processes."""

    def send_soon(self, hint: Hint) -> None:
        """Send a hint when that is worth it."""
        ...

    def notice(self, hint: Hint) -> str | None:
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
        self._forwards: list[Callable[[Hint], None]] = []
        self._carrier: Carrier | None = None

    def subscribe_runs(self, signal: Callable[[], None]) -> None:
        """Call `signal` when runs may have become ready."""
        self._signals[Hint.RUNS].append(signal)

    def subscribe_clocks(self, signal: Callable[[], None]) -> None:
        """Call `signal` when something other than the planner has set a job's clock."""
        self._signals[Hint.CLOCKS].append(signal)

    def subscribe_cancels(self, signal: Callable[[], None]) -> None:
        """Call `signal` when somebody has requested the cancel of a RUNNING run."""
        self._signals[Hint.CANCELS].append(signal)

    def subscribe_shards(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a node that stops has given up its shards."""
        self._signals[Hint.SHARDS].append(signal)

    def forward_to(self, forward: Callable[[Hint], None]) -> None:
        """Call `forward` with each hint of this process, so that other processes hear it."""
        self._forwards.append(forward)

    def carry_by(self, carrier: Carrier) -> None:
        """Let this send hints of this process to the others, alone or with a commit."""
        self._carrier = carrier
        self.forward_to(carrier.send_soon)

    def notice_of_runs(self) -> str | None:
        """Return what the next commit of runs tells the other processes; None if it need not.

        It counts as told from here on. Call `runs_ready(is_told=True)` after the commit, or `take_back_notice`.
        """
        return None if self._carrier is None else self._carrier.notice(Hint.RUNS)

    def take_back_notice(self) -> None:
        """Note that no commit has told what `notice_of_runs` returned."""
        if self._carrier is not None:
            self._carrier.take_back(Hint.RUNS)

    def cancel_requested(self) -> None:
        """Announce that a cancel was requested. Workers in this process beat at once to learn about it."""
        self._announce(Hint.CANCELS)

    def runs_ready(self, *, is_told: bool = False) -> None:
        """Announce that runs were inserted or handed back. Only here, if the commit has told the others."""
        if is_told:
            self.hear(Hint.RUNS)
        else:
            self._announce(Hint.RUNS)

    def runs_wanted(self) -> None:
        """Announce that workers of this process wait, and that nothing is ready for them."""
        self._announce(Hint.WANTED)

    def clocks_changed(self) -> None:
        """Announce that jobs were added, edited, paused, resumed or deleted."""
        self._announce(Hint.CLOCKS)

    def shards_left(self) -> None:
        """Announce that this process's node stops and has given up its shards."""
        self._announce(Hint.SHARDS)

    def hear(self, hint: Hint) -> None:
        """Pass a hint on within this process only, for example one that another process sent."""
        for signal in self._signals[hint]:
            signal()

    def _announce(self, hint: Hint) -> None:
        self.hear(hint)
        for forward in self._forwards:
            forward(hint)
