"""What is said of one setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainspring.config.kinds import SettingKind

PREFIX = "MAINSPRING_"
UP, SERVER, WORKER = "up", "server", "worker"
PROCESSES = (UP, SERVER, WORKER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a process can be told.

    Attributes:
        name: its place in the file.
        default: the value where nobody gives one; None is none.
        words: what it is for, in a sentence or two; the help of the option and the reference page say so.
        used_by: the processes that heed it; for others it may stand in the file or environment without effect.
        field: the field of `Settings` that holds it; None for what is read from several settings.
        flag: its option; one that begins with --no- turns it off.
        is_url: its value may hold a password, which is never shown.
    """

    name: str
    kind: SettingKind
    default: Any
    words: str
    used_by: tuple[str, ...] = PROCESSES
    field: str | None = None
    flag: str | None = None
    is_url: bool = False
    default_words: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that gives it."""
        return PREFIX + self.name.upper().replace(".", "_")

    @property
    def flag_word(self) -> str | None:
        """The option as errors name it: `--no-api` is `no_api`."""
        return self.flag.removeprefix("--").replace("-", "_") if self.flag is not None else None

    @property
    def is_negated(self) -> bool:
        """Whether the option turns it off."""
        return self.flag is not None and self.flag.startswith("--no-")
