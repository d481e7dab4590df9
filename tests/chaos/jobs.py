"""The jobs of the campaign; the process that runs them knows the effects' folder from its environment."""

from __future__ import annotations

import os
from pathlib import Path

from mainspring import App, current_attempt
from mainspring.core.ids import format_run_id
from tests.chaos.effects import FOLDER_VARIABLE, write_effect

app = App()


@app.job(name="chaos-async")
async def act(**_: object) -> None:
    """Write a start and an end."""
    _act("async")


@app.job(name="chaos-sync")
def act_in_thread(**_: object) -> None:
    """The same in a thread."""
    _act("sync")


def _act(kind: str) -> None:
    attempt = current_attempt()
    path = Path(os.environ[FOLDER_VARIABLE]) / f"{kind}-{os.getpid()}.effects"
    write_effect(path, "start", format_run_id(attempt.run_id), attempt.token)
    write_effect(path, "end", format_run_id(attempt.run_id), attempt.token)
