"""The exit codes of `mainspring`, in one place. They are listed in docs/reference/cli.md."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Why a process of `mainspring` ended. Scripts and service managers decide by it, so each cause has its own code.

    Attributes:
        DONE: it did what was asked, and all is well.
        FAILED: it could not: the server or the store is not available, or an unexpected error occurred.
        REFUSED: the input or a setting is wrong; trying again does not help. click uses the same code.
        NOT_WELL: it did what was asked, and found that something is wrong: a run that did not succeed, say.
        NOT_ENDED: what it waited for is still under way.
        INTERRUPTED: a signal ended it at once, as shells report SIGINT.
    """

    DONE = 0
    FAILED = 1
    REFUSED = 2
    NOT_WELL = 3
    NOT_ENDED = 4
    INTERRUPTED = 130
