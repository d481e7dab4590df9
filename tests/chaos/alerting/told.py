"""Reads what receivers were told, and judges it: what a fault owes is told once to each, and so is its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MOST_SECONDS = 30.0
"""How soon each receiver is told, once something is so by its rule; and that it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A message that a receiver took.

    Attributes:
        at: when, in seconds since 1970.
        by: the receiver.
        kind: firing, repeat, resolved or test; of a webhook also what was wrong with it.
        id: the same when a message comes twice.
        alerts: tenant, rule and subject of each, and what else tells them apart.
        more: how many it only counts.
    """

    at: float
    by: str
    kind: str
    id: str
    alerts: tuple[tuple[str, ...], ...]
    more: int = 0

    def names(self, tenant: str, rule: str, subject: str) -> bool:
        """Say whether it is about this alert."""
        return any(alert[:3] == (tenant, rule, subject) for alert in self.alerts)


def read_told(file: Path) -> list[Told]:
    """Return what was taken so far, in order."""
    if not file.exists():
        return []
    found = []
    for line in file.read_text().splitlines():
        one = json.loads(line)
        found.append(Told(**{**one, "alerts": tuple(map(tuple, one["alerts"]))}))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """An alert that a fault owes.

    Attributes:
        since: when it began, in seconds since 1970.
        after: how many seconds later it is so by its rule: the rule's period and hold.
    """

    rule: str
    subject: str
    since: float
    after: float = 0.0
    tenant: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the table: an alert, and one receiver.

    Attributes:
        told_after: seconds from when it was so by its rule; None: it was not told.
        ended_after: seconds from the mending; None: the end was not told.
        times_told, times_ended: how many messages told it.
    """

    fault: str
    owed: Owed
    by: str
    told_after: float | None
    ended_after: float | None
    times_told: int
    times_ended: int

    @property
    def wrong(self) -> Iterator[str]:
        """Yield what is not as it should be."""
        if self.told_after is None:
            yield "untold"
        elif self.told_after > MOST_SECONDS:
            yield "told late"
        if self.times_told > 1:
            yield "doubled"
        if self.ended_after is None:
            yield "unended"
        elif self.ended_after > MOST_SECONDS:
            yield "ended late"
        if self.times_ended > 1:
            yield "ended twice"


@dataclass(slots=True)
class Shown:
    """A fault that was made.

    Attributes:
        mended_at: in seconds since 1970.
    """

    name: str
    owed: tuple[Owed, ...]
    mended_at: float = 0.0


@dataclass(slots=True)
class Findings:
    """What came of all faults.

    Attributes:
        surplus: messages about what did not happen.
    """

    lines: list[Line] = field(default_factory=list)
    surplus: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether everything was told and ended, once and in time, and nothing else was told."""
        return bool(self.lines) and not self.surplus and not any(any(line.wrong) for line in self.lines)


def judge(shown: Sequence[Shown], told: Sequence[Told], receivers: Sequence[str]) -> Findings:
    """Compare what was owed with what was told."""
    findings = Findings()
    for fault in shown:
        for owed in fault.owed:
            about = [one for one in told if one.names(owed.tenant, owed.rule, owed.subject)]
            findings.lines += [_judge_one(fault, owed, by, about) for by in receivers]
    known = {(owed.tenant, owed.rule, owed.subject) for fault in shown for owed in fault.owed}
    for one in told:
        if one.kind not in {"firing", "resolved", "repeat", "test"} or one.more:
            findings.surplus.append(
                f"{one.by} took a message that it cannot tell: {one.kind}, {one.more} more"
            )
        if one.kind != "test":
            findings.surplus += [
                f"{one.by} was told ({one.kind}) of what no fault was made for: {' '.join(alert[:3])}"
                for alert in one.alerts
                if alert[:3] not in known
            ]
    return findings


def _judge_one(fault: Shown, owed: Owed, by: str, about: Sequence[Told]) -> Line:
    fired = [one.at for one in about if one.by == by and one.kind in {"firing", "repeat"}]
    ended = [one.at for one in about if one.by == by and one.kind == "resolved"]
    return Line(
        fault=fault.name,
        owed=owed,
        by=by,
        told_after=fired[0] - owed.since - owed.after if fired else None,
        ended_after=ended[0] - fault.mended_at if ended else None,
        times_told=len(fired),
        times_ended=len(ended),
    )


def are_told(owed: Sequence[Owed], told: Sequence[Told], receivers: Sequence[str], kind: str) -> bool:
    """Say whether each receiver was told all of it."""
    return all(
        any(
            one.by == by and one.kind == kind and one.names(each.tenant, each.rule, each.subject)
            for one in told
        )
        for each in owed
        for by in receivers
    )


HEADINGS = ("fault", "alert", "true after", "receiver", "told after", "times", "ended after", "times", "")


def table(lines: Sequence[Line]) -> str:
    """Return the lines as people read them: a fault and its alerts are named once."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    last: tuple[str, str] = ("", "")
    for line in lines:
        alert = f"{line.owed.rule} {line.owed.subject}"
        is_new = (line.fault, alert) != last
        rows.append(
            (
                line.fault if line.fault != last[0] else "",
                alert if is_new else "",
                f"{line.owed.after:.0f} s" if is_new else "",
                line.by,
                _show(line.told_after),
                str(line.times_told),
                _show(line.ended_after),
                str(line.times_ended),
                ", ".join(line.wrong).upper() or "ok",
            )
        )
        last = (line.fault, alert)
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _show(seconds: float | None) -> str:
    return "never" if seconds is None else f"{max(seconds, 0.0):.1f} s"
