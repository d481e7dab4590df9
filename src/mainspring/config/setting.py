"""The description of one setting."""

from __future__ import annotations

from typing import Any

from mainspring.config.kinds import SecretUrl, Several
from mainspring.core.kinds import Kind
from mainspring.core.values import value

PREFIX = "MAINSPRING_"
UP, SERVER, WORKER = "up", "server", "worker"
PROCESSES = (UP, SERVER, WORKER)


@value(kw_only=True)
class Setting:
    """One setting of a process.

    Attributes:
        name: its dotted name, which is its place in the file.
        default: the value if no source gives one; None means no value.
        words: what it is for, in a sentence or two, for the option's help and the reference page.
        used_by: the processes that use it. For others it has no effect, but may be in the file or the environment.
        field: the field of `Settings` that holds it; None if that is derived from several settings.
        flag: its option. One that begins with --no- turns it off.
        metavar: the word for a value in the option's help, where the word of its kind would say less.
    """

    name: str
    kind: Kind
    default: Any
    words: str
    used_by: tuple[str, ...] = PROCESSES
    field: str | None = None
    flag: str | None = None
    metavar: str = ""
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
    def is_url(self) -> bool:
        """Whether its value, or each of them, is a URL that may hold a password, which is never shown."""
        kind = self.kind.item if isinstance(self.kind, Several) else self.kind
        return isinstance(kind, SecretUrl)

    def read(self, value: object) -> Any:
        """Return the checked value of what a file gives, or a value itself.

        Raises:
            InvalidInput: it is wrong; the field is the setting's name.
        """
        return self.kind.read(value, self.name, None)

    def read_text(self, text: str) -> Any:
        """Return the checked value of what a variable or an option gives.

        Raises:
            InvalidInput: it is wrong; the field is the setting's name.
        """
        return self.read(self.kind.from_text(text, self.name))

    @property
    def is_negated(self) -> bool:
        """Whether the option turns it off."""
        return self.flag is not None and self.flag.startswith("--no-")
