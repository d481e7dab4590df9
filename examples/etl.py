"""A night's work of several steps: each starts once those before it have ended.

    mainspring up etl:app

After `extract`, `clean` and `check` run at once; then `load`, and then `report`. `page` calls somebody if the check or
the load has failed.
"""

from __future__ import annotations

from typing import Any

from mainspring import App

app = App(name="etl")


def extract(day: str = "today") -> dict[str, Any]:
    """Get the rows of a day."""
    return {"day": day, "rows": 3}


def clean(day: str = "today") -> None:
    """Mend what is half written."""


def check(day: str = "today") -> None:
    """Count the rows. A wrong count is worth a look, but no reason to stop."""
    if day == "odd":
        raise ValueError("2 rows are missing")


def load(day: str = "today") -> None:
    """Write the rows where reports read them."""
    if day == "broken":
        raise RuntimeError("the warehouse is full")


def report(day: str = "today") -> str:
    """Write the report."""
    return f"report of {day}"


def page(day: str = "today") -> None:
    """Call somebody."""


etl = app.workflow("etl", cron="0 3 * * *", tz="Europe/Berlin", overlap="skip")
first = etl.step("extract", extract, retries=5)
cleaned = etl.step("clean", clean, after=first, timeout="10m")
checked = etl.step("check", check, after=first, allow_failure=True, retries=0)
loaded = etl.step("load", load, after=cleaned, retries=0)
etl.step("report", report, after=loaded)
etl.step("page", page, after=[checked, loaded], rule="one_failed")
