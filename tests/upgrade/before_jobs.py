"""The functions that the release before and the code under test carry out: from public names alone, which both have."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mainspring import App, current_attempt
from mainspring.core.ids import format_run_id

app = App()
BEGUN = "begun"
MENDED = "mended"
"""While this file is missing, `fail` fails and `hang` does not end."""


@app.job(name="work")
async def work(**_: object) -> str:
    """Succeed."""
    return _begin()


@app.job(name="fail")
async def fail(**_: object) -> str:
    """Fail until it is mended."""
    run = _begin()
    if not _is_mended():
        raise RuntimeError("the job fails")
    return run


@app.job(name="hang")
async def hang(**_: object) -> str:
    """Take until it is mended."""
    run = _begin()
    while not _is_mended():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.05)
    return run


def _begin() -> str:
    run = format_run_id(current_attempt().run_id)
    with (_folder() / BEGUN).open("a") as file:
        file.write(f"{run}\n")
    return run


def _is_mended() -> bool:
    return (_folder() / MENDED).exists()


def _folder() -> Path:
    return Path(os.environ["MAINSPRING_CHAOS_EFFECTS"])
