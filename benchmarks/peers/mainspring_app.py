"""The no-op job of `mainspring_jobs` as an app, for workers that are started as users start them."""

from __future__ import annotations

import os
from pathlib import Path

from mainspring.sdk.app import App

app = App()
_to_be_noted = ["the first job"]


@app.job()
async def noop() -> None:
    """Do nothing, and note the first time."""
    if _to_be_noted:
        _to_be_noted.clear()
        (Path(os.environ["BENCHMARK_FIRST_JOBS"]) / str(os.getpid())).touch()
