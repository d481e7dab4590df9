"""What jobs write: one line per start and one per end, appended and fsynced, outside the scheduler's reach."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "MAINSPRING_CHAOS_EFFECTS"


@dataclass(frozen=True, slots=True)
class Effect:
    """One act of one attempt: `what` is `start` or `end`."""

    what: str
    run_id: str
    token: int


def write_effect(path: Path, what: str, run_id: str, token: int | str) -> None:
    """Append a line and make it durable before returning."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{what} {run_id} {token}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_effects(folder: Path) -> dict[str, list[Effect]]:
    """Return all effects by run, of all files in the folder."""
    effects: dict[str, list[Effect]] = defaultdict(list)
    for path in sorted(folder.glob("*.effects")):
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) == 3:  # a kill may have cut the last line of a file short
                effects[words[1]].append(Effect(words[0], words[1], int(words[2])))
    return effects
