"""What `mainspring top` draws: the lines of one screen, from what a server has answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from mainspring.cli.output import show_age, show_rough
from mainspring.cli.terminal import cut
from mainspring.core.doctor.findings import number
from mainspring.core.values import value

if TYPE_CHECKING:
    from mainspring.wire.alerts import AlertView
    from mainspring.wire.overview import OverviewView, QueueLoadView
    from mainspring.wire.pages import BriefView
    from mainspring.wire.usage import QueueUsageView, UsageFigures, UsageView
    from mainspring.wire.views import WorkerView

SORTS = {"w": "waiting", "r": "running", "o": "oldest", "n": "name"}
"""The keys that sort queues, and by what."""
KEYS = "q quit   p pause   sort: w waiting  r running  o oldest  n name"
WIDE = 130
"""From so many columns on, workers stand beside the queues."""
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.:-=+*#"
_MINUTES = 30
_MOST_ATTENTION = 3
_MOST_FAILURES = 8
_LEAST_ROWS = 3
_GAP = "   "
_MINUTE = timedelta(minutes=1)


@value()
class Snapshot:
    """What a server answered at one moment.

    Attributes:
        alerts: those that fire.
        rate: runs that ended, a second, since the snapshot before; None if that is not known yet.
    """

    overview: OverviewView
    usage: UsageView
    workers: Sequence[WorkerView]
    failures: Sequence[BriefView]
    alerts: Sequence[AlertView] = ()
    rate: float | None = None


@value()
class Screen:
    """How to draw.

    Attributes:
        lines: how many there are; None draws all.
        sort: one of the values of `SORTS`.
        notes: lines at the top, like that the server does not answer.
    """

    columns: int
    lines: int | None = None
    has_colours: bool = False
    has_blocks: bool = True
    sort: str = "waiting"
    notes: Sequence[str] = field(default=())


def ended_of(snapshot: Snapshot) -> tuple[int, datetime]:
    """Return how many runs have ended, and as of when that was counted."""
    runs = snapshot.overview.runs
    count = runs.SUCCEEDED + runs.FAILED + runs.CANCELLED + runs.SKIPPED
    return count, snapshot.overview.now - timedelta(milliseconds=runs.age_ms)


def rate_between(before: Snapshot | None, now: Snapshot) -> float | None:
    """Return how many runs ended a second between two snapshots.

    If the server has not counted again, it is the rate of before; None if there was none.
    """
    if before is None:
        return None
    (old, since), (new, until) = ended_of(before), ended_of(now)
    seconds = (until - since).total_seconds()
    if seconds < 0.1:
        return before.rate
    return max(new - old, 0) / seconds


def draw(snapshot: Snapshot, address: str, screen: Screen) -> list[str]:
    """Return the lines of a screen, none wider than it is."""
    head = [
        _title(snapshot, address, screen),
        *_attention(snapshot, screen),
        *_alerts(snapshot, screen),
        *_figures(snapshot, screen),
        "",
    ]
    foot = _failures(snapshot, screen)
    room = None if screen.lines is None else screen.lines - len(head) - len(foot) - 1
    return [*head, *_tables(snapshot, screen, room), *foot]


def plain_text(text: str) -> str:
    """Return a text without what would move the cursor: names and errors are what users make them."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _paint(text: str, screen: Screen, **style: object) -> str:
    return click.style(text, **style) if screen.has_colours else text  # type: ignore[arg-type]


def _title(snapshot: Snapshot, address: str, screen: Screen) -> str:
    found = snapshot.overview
    at = f"{found.now.astimezone():%H:%M:%S}"
    left = plain_text(f"mainspring {found.version}  {found.store}  {address}")
    room = screen.columns - len(at) - 1
    return _paint(f"{cut(left, room).ljust(room)} {at}", screen, bold=True)


def _attention(snapshot: Snapshot, screen: Screen) -> list[str]:
    lines = [_paint(cut(plain_text(note), screen.columns), screen, fg="red") for note in screen.notes]
    found = snapshot.overview.attention
    for one in found[:_MOST_ATTENTION]:
        is_bad = one.level == "bad"
        text = cut(f"{'!!' if is_bad else ' !'} {plain_text(one.sentence)}", screen.columns)
        lines.append(_paint(text, screen, fg="red" if is_bad else "yellow"))
    if len(found) > _MOST_ATTENTION:
        lines.append(f"   and {len(found) - _MOST_ATTENTION} more: mainspring status")
    return lines


def _alerts(snapshot: Snapshot, screen: Screen) -> list[str]:
    lines = []
    for one in snapshot.alerts[:_MOST_ATTENTION]:
        age = show_age(one.fired_at or one.since, snapshot.overview.now)
        quiet = ", silenced" if one.silenced else ""
        text = plain_text(f"alert {one.subject}: {one.summary} ({age}{quiet})")
        lines.append(_paint(cut(text, screen.columns), screen, fg="red"))
    if len(snapshot.alerts) > _MOST_ATTENTION:
        lines.append("   and more: mainspring alert list")
    return lines


def _figures(snapshot: Snapshot, screen: Screen) -> list[str]:
    found, usage = snapshot.overview, snapshot.usage
    runs, slots = found.runs, found.slots
    rate = "" if snapshot.rate is None else f"{snapshot.rate:,.1f} ended/s, "
    minutes = _ended_by_minute(usage)
    latest = usage.total
    facts = {
        "runs": f"{runs.PENDING:,} waiting  {runs.RUNNING:,} running  {runs.RETRYING:,} retrying"
        f"  {number(found.dead_letters, 'dead letter')}",
        "rates": f"{rate}{minutes[-2]:,} in the last full minute  {_spark(minutes, screen)}",
        "times": f"start lag {_times(latest, 'lag')}, attempts {_times(latest, 'duration')}",
        "slots": f"{_bar(slots.held, slots.total, screen)} {slots.held:,} of {slots.total:,} busy,"
        f" {number(slots.workers, 'worker')}, {number(len(found.servers), 'server')}",
    }
    return [cut(f"{name}  {text}", screen.columns) for name, text in facts.items()]


def _ended_by_minute(usage: UsageView) -> list[int]:
    """Return how many runs ended in each of the last minutes; the last one is not over yet."""
    counts = {step.at: step.succeeded + step.failed + step.cancelled for step in usage.steps}
    last = usage.until.replace(second=0, microsecond=0)
    return [counts.get(last - _MINUTE * ago, 0) for ago in reversed(range(_MINUTES + 1))]


def _spark(counts: Sequence[int], screen: Screen) -> str:
    bars = _BARS if screen.has_blocks else _PLAIN_BARS
    most = max(counts, default=0)
    return "".join(bars[count * (len(bars) - 1) // most if most else 0] for count in counts)


def _bar(part: int, whole: int, screen: Screen, width: int = 20) -> str:
    full, empty = ("█", "░") if screen.has_blocks else ("#", ".")
    share = min(width, width * part // whole) if whole else 0
    return full * share + empty * (width - share)


def _times(figures: UsageFigures, name: str) -> str:
    times = getattr(figures, name)
    if times is None:
        return "-"
    return f"p50 {_rough(times.p50)} p95 {_rough(times.p95)}"


def _rough(seconds: float) -> str:
    return show_rough(timedelta(seconds=seconds)) if seconds >= 0.001 else "<1ms"


def _tables(snapshot: Snapshot, screen: Screen, room: int | None) -> list[str]:
    is_wide = screen.columns >= WIDE
    width = (screen.columns - len(_GAP)) // 2 if is_wide else screen.columns
    half = None if room is None else max(room if is_wide else (room - 1) // 2, _LEAST_ROWS + 1)
    queues, workers = _queues(snapshot, screen, width, half), _workers(snapshot, screen, width, half)
    if not is_wide:
        return [*queues, "", *workers, ""]
    count = max(len(queues), len(workers))
    left, right = (table + [""] * (count - len(table)) for table in (queues, workers))
    joined = [f"{_pad(one, width)}{_GAP}{other}".rstrip() for one, other in zip(left, right, strict=True)]
    return [*joined, ""]


def _pad(line: str, width: int) -> str:
    return line + " " * max(width - len(click.unstyle(line)), 0)


def _queues(snapshot: Snapshot, screen: Screen, width: int, room: int | None) -> list[str]:
    now = snapshot.overview.now
    usage = {one.queue: one for one in snapshot.usage.queues}
    rows = [
        (
            plain_text(one.queue),
            f"{one.waiting:,}",
            f"{one.running:,}",
            _oldest(one, now),
            *_ended(usage.get(one.queue)),
        )
        for one in sort_queues(snapshot.overview.queues, screen.sort, now)
    ]
    heads = ("QUEUE", "WAITING", "RUNNING", "OLDEST", f"ENDED/{_MINUTES}M", f"FAILED/{_MINUTES}M")
    return _table(heads, rows, screen, width, room, empty="no queue has runs")


def sort_queues(queues: Sequence[QueueLoadView], by: str, now: datetime) -> list[QueueLoadView]:
    """Return queues with the most, or the oldest, first, or by name."""
    keys = {
        "waiting": lambda one: (-one.waiting, -one.running, one.queue),
        "running": lambda one: (-one.running, -one.waiting, one.queue),
        "oldest": lambda one: (one.oldest_ready_at or now + timedelta(days=36_500), one.queue),
        "name": lambda one: one.queue,
    }
    return sorted(queues, key=keys[by])


def _oldest(one: QueueLoadView, now: datetime) -> str:
    oldest = one.oldest_ready_at
    return "-" if oldest is None or oldest > now else show_age(oldest, now)


def _ended(usage: QueueUsageView | None) -> tuple[str, str]:
    """Return how many runs of a queue have ended, and how many of them have failed."""
    if usage is None:
        return "0", "0"
    return f"{usage.succeeded + usage.failed + usage.cancelled:,}", f"{usage.failed:,}"


def _workers(snapshot: Snapshot, screen: Screen, width: int, room: int | None) -> list[str]:
    now = snapshot.overview.now
    rows = [
        (
            plain_text(one.name),
            f"{one.held:,}/{one.slots:,}",
            show_age(one.last_beat_at, now),
            plain_text(" ".join(one.queues)) or "all",
        )
        for one in sorted(snapshot.workers, key=lambda one: (-one.held, one.name))
    ]
    return _table(("WORKER", "BUSY", "BEAT", "QUEUES"), rows, screen, width, room, empty="there is no worker")


def _failures(snapshot: Snapshot, screen: Screen) -> list[str]:
    if not snapshot.failures:
        return ["no run has failed for good"]
    now = snapshot.overview.now
    rows = [
        (
            "-" if one.finished_at is None else show_age(one.finished_at, now),
            plain_text(one.job or one.job_id),
            one.run_id,
            plain_text(one.error or one.reason or ""),
        )
        for one in snapshot.failures[:_MOST_FAILURES]
    ]
    return _table(("AGO", "FAILED", "RUN", "ERROR"), rows, screen, screen.columns, None, empty="")


def _table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    screen: Screen,
    width: int,
    room: int | None,
    *,
    empty: str,
) -> list[str]:
    """Return a table that fits: first the last column is cut, then the first."""
    shown = rows if room is None else rows[: max(room - 2, 1)]
    widths = [max(map(len, column)) for column in zip(heads, *shown, strict=True)]
    for place in (-1, 0, -1):
        over = sum(widths) + 2 * (len(widths) - 1) - width
        least = 0 if place == 0 else len(heads[place])
        widths[place] = max(widths[place] - max(over, 0), min(least, widths[place]), 1)
    lines = [_paint(_row(heads, widths, width), screen, bold=True)]
    lines += [_row(row, widths, width) for row in shown] or [cut(empty, width)]
    if len(rows) > len(shown):
        lines.append(cut(f"and {len(rows) - len(shown)} more", width))
    return lines


def _row(cells: Sequence[str], widths: Sequence[int], width: int) -> str:
    parts = [cut(cell, size).ljust(size) for cell, size in zip(cells, widths, strict=True)]
    return cut("  ".join(parts).rstrip(), width)
