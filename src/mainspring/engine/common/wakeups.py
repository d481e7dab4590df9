"""Hints within one process that there is something to do. A lost hint costs only latency (law 1, design 6)."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.ports.hints import Hint


class Wakeups:
    """Passes hints from the code that commits a change to the services that wait for it, and to other processes.

    Hints are sent after the commit, from the event loop's thread.
    """

    def __init__(self) -> None:
        self._signals: dict[Hint, list[Callable[[], None]]] = {hint: [] for hint in Hint}
        self._forwards: list[Callable[[Hint], None]] = []

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

    def cancel_requested(self) -> None:
        """Announce that a cancel was requested. Workers in this process beat at once to learn about it."""
        self._announce(Hint.CANCELS)

    def runs_ready(self) -> None:
        """Announce that runs were inserted or handed back."""
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
