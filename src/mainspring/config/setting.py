"""The description of one setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainspring.config.kinds import SettingKind

PREFIX = "MAINSPRING_"
UP, SERVER, WORKER = "up", "server", "worker"
PROCESSES = (UP, SERVER, WORKER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a process.

    Attributes:
        name: its dotted name, which is its place in the file.
        default: the value if no source gives one; None means no value.
        words: what it is for, in a sentence or two, for the option's help and the reference page.
        used_by: the processes that use it. For others it has no effect, but may be in the file or the environment.
        field: the field of `Settings` that holds it; None if that is derived from several settings.
        flag: its option. One that begins with --no- turns it off.
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
        """Its environment variable."""
        return PREFIX + self.name.upper().replace(".", "_")

    @property
    def flag_word(self) -> str | None:
        """The option as errors name it: `--no-api` is `no_api`."""
        return self.flag.removeprefix("--").replace("-", "_") if self.flag is not None else None

    @property
    def is_negated(self) -> bool:
        """Whether the option turns it off."""
        return self.flag is not None and self.flag.startswith("--no-")
