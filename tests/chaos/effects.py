"""What jobs write: one line per start and one per end, appended and fsynced, outside the scheduler's reach."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mainspring.core.ids import RunId, format_job_id, format_run_id, parse_job_id, parse_run_id
from mainspring.ports.executor import AttemptContext
from tests.chaos.lines import append_line
from tools.judge import Effect

FOLDER_VARIABLE = "MAINSPRING_CHAOS_EFFECTS"
SHELL = (
    'say() {{ echo "$1 $MAINSPRING_RUN_ID $MAINSPRING_JOB_ID $MAINSPRING_TOKEN $MAINSPRING_ATTEMPT'
    ' $(date +%s.%N) $$ $2" >> {file}; sync {file}; }}; '
    "say start -; {work}; say end done; echo $MAINSPRING_TOKEN"
)
"""A command that writes the same lines, and prints its token as its result."""
_WORDS = 8
_SEEN_WORDS = 3


@dataclass(frozen=True, slots=True)
class Pen:
    """Writes the lines of one attempt.

    Attributes:
        worker: what the lines say of where the attempt was carried out.
        is_durable: whether lines outlast a power cut, and not only their process.
    """

    path: Path
    run: str
    job: str
    token: int
    attempt: int
    worker: str
    is_durable: bool = True

    @classmethod
    def of(cls, context: AttemptContext, *, is_durable: bool = True) -> Pen:
        """Make the pen of an attempt that this process carries out."""
        path = Path(os.environ[FOLDER_VARIABLE]) / f"{os.getpid()}.effects"
        run, job = format_run_id(context.run_id), format_job_id(context.job_id)
        return cls(path, run, job, context.token, context.attempt, str(os.getpid()), is_durable)

    def start(self) -> None:
        """Write that the attempt begins."""
        self._write("start", "-")

    def end(self, ending: str) -> None:
        """Write how the attempt ended by its own word: done, failed or snoozed."""
        self._write("end", ending)

    def see(self, number: int) -> None:
        """Write which number the payload has that the attempt was given."""
        line = f"{self.run} {self.token} {number}"
        append_line(self.path.with_suffix(".seen"), line, is_durable=self.is_durable)

    def _write(self, what: str, word: str) -> None:
        words = (what, self.run, self.job, self.token, self.attempt, f"{time.time():.6f}", self.worker, word)
        append_line(self.path, " ".join(map(str, words)), is_durable=self.is_durable)


def read_effects(folder: Path) -> list[Effect]:
    """Return all effects of all files in the folder, in order of their starts."""
    effects: list[Effect] = []
    for path in folder.glob("*.effects"):
        effects += parse_effects(path.read_text())
    return sorted(effects, key=lambda effect: effect.started_at)


def read_seen(folder: Path) -> dict[tuple[RunId, int], int]:
    """Return the numbers of the payloads that attempts were given, by run and token."""
    seen: dict[tuple[RunId, int], int] = {}
    for path in folder.glob("*.seen"):
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) == _SEEN_WORDS:
                seen[parse_run_id(words[0]), int(words[1])] = int(words[2])
    return seen


def parse_effects(text: str) -> list[Effect]:
    """Return the effects of one file; an end belongs to the oldest start of its lease that has none yet.

    Raises:
        ValueError: an end has no start: the file is not what jobs write.
    """
    effects: list[Effect] = []
    begun: dict[tuple[str, str], list[Effect]] = defaultdict(list)
    for line in text.splitlines():
        words = line.split()
        if len(words) != _WORDS:
            continue  # a kill may have cut the last line of a file short
        what, run, job, token, attempt, instant, worker, ending = words
        at = datetime.fromtimestamp(float(instant), UTC)
        if what == "start":
            effect = Effect(
                run_id=parse_run_id(run),
                job_id=parse_job_id(job),
                token=int(token),
                attempt=int(attempt),
                worker=worker,
                started_at=at,
            )
            effects.append(effect)
            begun[run, token].append(effect)
        elif not begun[run, token]:
            raise ValueError(f"an end without a start: {line}")
        else:
            effect = begun[run, token].pop(0)
            effect.ended_at, effect.ending = at, ending
    return effects
