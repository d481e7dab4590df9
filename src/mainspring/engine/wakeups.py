"""Hints within one process that there is something to do; losing one costs latency only (law 1, design 6)."""

from __future__ import annotations

from collections.abc import Callable


class Wakeups:
    """Passes hints from whoever committed a change to the services that wait for it.

    Signals go out after the commit, from the event loop's thread.
    """

    def __init__(self) -> None:
        self._on_runs: list[Callable[[], None]] = []
        self._on_clocks: list[Callable[[], None]] = []
        self._on_cancels: list[Callable[[], None]] = []

    def subscribe_runs(self, signal: Callable[[], None]) -> None:
        """Call `signal` when runs may have become ready."""
        self._on_runs.append(signal)

    def subscribe_clocks(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a job's clock was set from outside the planner."""
        self._on_clocks.append(signal)

    def subscribe_cancels(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a RUNNING run's cancel was asked for."""
        self._on_cancels.append(signal)

    def cancel_requested(self) -> None:
        """Say that a cancel was asked for; workers in this process beat at once to learn of it."""
        for signal in self._on_cancels:
            signal()

    def runs_ready(self) -> None:
        """Say that runs were inserted or given back."""
        for signal in self._on_runs:
            signal()

    def clocks_changed(self) -> None:
        """Say that jobs were added, edited, resumed or deleted."""
        for signal in self._on_clocks:
            signal()
