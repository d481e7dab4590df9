"""A financial report for each working day, in which a day without its report is a finding of the auditors.

    mainspring up financial_report:app

If all servers are away for a week, each missed report is made afterwards, the oldest first, and for its own day: the
function asks for which fire it runs, not what the clock shows. Another program may make a report again at any time; a
file is written whole, or not at all.
"""

from __future__ import annotations

import csv
import os
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

from mainspring import App, current_attempt

ZONE = "Europe/Berlin"
app = App(name="finance")


@app.job(
    cron="30 6 * * MON-FRI",
    tz=ZONE,
    misfire={"policy": "fire_all", "max_age": "30d"},  # each missed day, for a month
    catch_up={"rate": "1/s", "max_live": 5},  # without a flood on the database of the ledger
    overlap="queue_all",  # one day after the other
    retries=10,
    timeout="20m",
    priority="HIGH",
)
def daily_report() -> str:
    """Write the report of the day of this fire, and return the name of its file."""
    fire_at = current_attempt().fire_at
    assert fire_at is not None, "submit corrected_report for another day"
    return write_report(fire_at.astimezone(ZoneInfo(ZONE)).date())


@app.job(retries=10)
def corrected_report(day: date) -> str:
    """Write the report of any day again: `corrected_report.enqueue(day=date(2026, 3, 2))`."""
    return write_report(day)


def write_report(day: date) -> str:
    """Write a report whole, or not at all."""
    folder = Path(os.environ.get("REPORTS", "reports"))
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"report-{day.isoformat()}.csv"
    draft = target.with_suffix(f".{os.getpid()}.draft")
    with draft.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["account", "balance"])
        writer.writerows(balances(day))
    draft.replace(target)
    return target.name


def balances(day: date) -> list[tuple[str, int]]:
    """Return what stands in the ledger; here, figures that depend on the day."""
    return [("1200 bank", day.toordinal() * 100), ("1400 receivables", day.toordinal() * 7)]
