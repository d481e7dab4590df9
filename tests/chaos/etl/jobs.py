"""The workflow: files that are found, cleaned each by itself, checked, approved of, loaded and published.

Copied into the folder of the trial, so that workers take it as they take a user's file. Each function notes what it has
done in a file there, with the key of its target: an attempt that comes again notes the same once more.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from mainspring import App, current_attempt

FILES = 200
BAD = ("f7", "f77")
"""Files that cannot be cleaned: as many as the map tolerates."""
CLEANING = 0.1
"""Seconds that it takes to clean one."""
_EFFECTS = Path(__file__).with_name("effects")

app = App(name="etl")


def note(what: str) -> None:
    """Note an effect: a line is written at once, or not at all."""
    line = f"{what} {current_attempt().idempotency_key}\n".encode()
    file = os.open(_EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def extract() -> list[str]:
    """Find the files."""
    note("extract")
    return [f"f{number}" for number in range(FILES)]


def clean(name: str) -> None:
    """Clean one of them."""
    time.sleep(CLEANING)
    note(f"clean:{name}")
    if name in BAD:
        raise ValueError(f"{name} is broken")


def count(rows: int) -> int:
    """Count."""
    note("count")
    return rows


def compare(rows: int) -> str:
    """Compare."""
    note("compare")
    return f"{rows} rows are right"


def act(what: str) -> str:
    """Do what only its effect tells of."""
    note(what)
    return what


def index(fails: bool) -> None:
    """Fail if it is told to."""
    note("index")
    if fails:
        raise ValueError("told to fail")


check = app.workflow("check")
counted = check.step("count", count)
compared = check.step("compare", compare, payload={"rows": counted.result})
check.returns(compared.result)

etl = app.workflow("etl")
extracted = etl.step("extract", extract, payload={})
cleaned = etl.map(
    "clean",
    clean,
    over=extracted.result,
    payload={"name": etl.item},
    max_parallel=50,
    tolerate=0.01,
    retries=0,
)
checked = etl.step("check", job="check", payload={"rows": cleaned.succeeded})
staged = etl.step("stage", act, payload={"what": "stage"}, after=cleaned)
etl.step("unstage", act, payload={"what": "unstage"}, undoes=staged)
signed = etl.wait("sign_off", approval=True, timeout="1h", after=[checked, staged])
loaded = etl.step("load", act, payload={"what": "load"}, after=signed)
etl.step("unload", act, payload={"what": "unload"}, undoes=loaded)
indexed = etl.step("index", index, payload={"fails": etl.input.fails}, after=loaded, retries=0)
etl.step("publish", act, payload={"what": "publish"}, after=indexed)
etl.step("tally", act, payload={"what": "tally"}, after=cleaned)
etl.step("page", act, payload={"what": "page"}, after=indexed, rule="one_failed")
tidied = etl.step("tidy", act, payload={"what": "tidy"}, at_end=True)
etl.step("tell", act, payload={"what": "tell"}, after=tidied, at_end=True, rule="all_done")
etl.returns(f"{{'cleaned': {cleaned.succeeded}, 'bad': {cleaned.failed}, 'checked': {checked.result}}}")
