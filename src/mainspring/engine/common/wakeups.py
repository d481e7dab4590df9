"""Hints that there is something to do, within one process; losing one costs latency only (law 1, design 6)."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.ports.hints import Hint


class Wakeups:
    """Passes hints from the code that committed a change to the services that wait for it, and to other processes.

    Signals go out after the commit, from the event loop's thread.
    """

    def __init__(self) -> None:
        self._signals: dict[Hint, list[Callable[[], None]]] = {hint: [] for hint in Hint}
        self._forwards: list[Callable[[Hint], None]] = []

    def subscribe_runs(self, signal: Callable[[], None]) -> None:
        """Call `signal` when runs may have become ready."""
        self._signals[Hint.RUNS].append(signal)

    def subscribe_clocks(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a job's clock was set from outside the planner."""
        self._signals[Hint.CLOCKS].append(signal)

    def subscribe_cancels(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a RUNNING run's cancel was asked for."""
        self._signals[Hint.CANCELS].append(signal)

    def subscribe_shards(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a node that stops has given its shards up."""
        self._signals[Hint.SHARDS].append(signal)

    def forward_to(self, forward: Callable[[Hint], None]) -> None:
        """Call `forward` with each hint that arises in this process, for other processes to hear."""
        self._forwards.append(forward)

    def cancel_requested(self) -> None:
        """Say that a cancel was asked for; workers in this process beat at once to learn of it."""
        self._announce(Hint.CANCELS)

    def runs_ready(self) -> None:
        """Say that runs were inserted or given back."""
        self._announce(Hint.RUNS)

    def runs_wanted(self) -> None:
        """Say that workers of this process wait, and found nothing that is ready."""
        self._announce(Hint.WANTED)

    def clocks_changed(self) -> None:
        """Say that jobs were added, edited, resumed or deleted."""
        self._announce(Hint.CLOCKS)

    def shards_left(self) -> None:
        """Say that this process's node has given its shards up, since it stops."""
        self._announce(Hint.SHARDS)

    def hear(self, hint: Hint) -> None:
        """Pass a hint on within this process: another one said it, so it is not forwarded."""
        for signal in self._signals[hint]:
            signal()

    def _announce(self, hint: Hint) -> None:
        self.hear(hint)
        for forward in self._forwards:
            forward(hint)
