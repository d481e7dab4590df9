"""Where a process can be made to end itself: before or after the commit of the n-th call of a writing verb."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.chaos.lines import append_line

T = TypeVar("T")
FAILPOINT_VARIABLE = "MAINSPRING_CHAOS_FAILPOINT"
NOTES_VARIABLE = "MAINSPRING_CHAOS_NOTES"
MOMENTS = ("before", "after")
COUNTS = {
    # how often each verb is called within a second or two of load, roughly: a failpoint lies among those calls
    "open": 1,
    "beat_node": 1,
    "expire_nodes": 1,
    "take_shards": 1,
    "add_sessions": 1,
    "expire_sessions": 1,
    "prune_history": 1,
    "prune_keys": 1,
    "prune_unique_keys": 1,
    "prune_sessions": 1,
    "prune_lanes": 1,
    "prune_limits": 1,
    "record_fires": 6,
    "fire_outlined": 1,
    "advance_fire_ranges": 1,
    "submit_runs": 40,
    "try_claim": 6,
    "submit_claimed": 6,
    "claim_runs": 30,
    "apply": 30,
    "beat_sessions": 4,
    "expire_runs": 8,
    "cancel_runs": 2,
    "add_jobs": 1,
    "edit_jobs": 1,
    "pause_jobs": 1,
    "resume_jobs": 1,
    "delete_jobs": 1,
    "close_sessions": 1,
    "leave_shards": 1,
}
WRITING_VERBS = tuple(COUNTS)
"""The store's writing verbs; `open` stands for its migration.

Not among them: `add_fire_ranges`, which nothing calls yet, `prepare_history`, which writes nothing on SQLite,
`release_shards`, for which it takes a second server, `record_tzdata`, which only the first start of a store calls, and
those of calendars, of blackouts, of backfills, of dead letters, of permits to submit, of priority classes, of
preemption and `pause_failing`, which the workload has none of; the simulator crashes at them.
"""
CLUSTER_VERBS = (*(verb for verb in WRITING_VERBS if verb != "open"), "release_shards", "prepare_history")
"""Those of a server that shares its store. Not `open`: a schema that is up to date is left alone."""
ALERT_VERBS = ("save_alerts", "take_notifications", "settle_notifications")
"""Those of watchdog and notifier, which have something to do only where a rule or a job tells a channel (F40)."""
STOPPING_VERBS = frozenset({"close_sessions", "leave_shards"})
"""Verbs that are called only when a process ends in order."""


@dataclass(frozen=True, slots=True)
class Failpoint:
    """The n-th call of a verb, and whether its transaction is committed when the process ends."""

    moment: str
    verb: str
    count: int

    def __str__(self) -> str:
        return f"{self.moment}:{self.verb}:{self.count}"

    @classmethod
    def parse(cls, text: str) -> Failpoint:
        """Read `before:apply:3`.

        Raises:
            ValueError: the text is not a failpoint.
        """
        moment, verb, count = text.split(":")
        if (
            moment not in MOMENTS
            or verb not in {*WRITING_VERBS, *CLUSTER_VERBS, *ALERT_VERBS}
            or int(count) < 1
        ):
            raise ValueError(f"{text!r} is not a failpoint")
        return cls(moment, verb, int(count))


class Fuse:
    """Counts the calls of its failpoint's verb and burns at the commit of the right one.

    Args:
        burn: ends the process.
    """

    def __init__(self, failpoint: Failpoint | None, burn: Callable[[], None]) -> None:
        self._failpoint = failpoint
        self._burn = burn
        self._calls = 0
        self._is_lit = False

    def take(self, verb: str) -> bool:
        """Count a call; say whether it is the one at whose commit the process is to end."""
        if self._failpoint is None or verb != self._failpoint.verb:
            return False
        self._calls += 1
        return self._calls == self._failpoint.count

    def burn_if(self, moment: str) -> None:
        """Burn if this is the moment, of the call that was taken."""
        if self._failpoint is not None and self._failpoint.moment == moment:
            self._burn()

    def guard(self, verb: str, work: Callable[..., T]) -> Callable[..., T]:
        """Return a call's work, which lights the fuse if this is the call."""
        if not self.take(verb):
            return work

        def light(*args: object) -> T:
            result = work(*args)
            self._is_lit = True
            return result

        return light

    def pass_by(self, moment: str) -> None:
        """Burn if the transaction that is before or after its commit holds the call."""
        if self._is_lit:
            self.burn_if(moment)


def note(what: str, *, folder: str | None = None) -> None:
    """Write down durably, for the campaign, that this process did or met something now."""
    path = Path(folder or os.environ[NOTES_VARIABLE]) / f"{os.getpid()}.notes"
    append_line(path, f"{time.time():.6f} {what}")


def read_notes(folder: Path, pid: int | None = None) -> list[tuple[float, str]]:
    """Return what processes (or one of them) have noted: when, and what."""
    found = []
    for path in folder.glob("*.notes" if pid is None else f"{pid}.notes"):
        for line in path.read_text().splitlines():
            instant, _, what = line.partition(" ")
            found.append((float(instant), what))
    return sorted(found)


def end_at(failpoint: Failpoint) -> None:
    """Note that the failpoint was reached, and end this process as `kill -9` does."""
    note(f"reached {failpoint}")
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal is on its way: nothing further may happen
