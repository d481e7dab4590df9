"""What a shell completes besides commands and options: files, words and the names of jobs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mainspring.config.table import DEFAULT_SERVER
from mainspring.core.kinds import Kind, Worded

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mainspring.sdk.client import AsyncClient

Command = TypeVar("Command", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
_PATIENCE = 1.0
"""Seconds for the names of jobs: whoever presses Tab does not wait for a server that is away."""
_PLAIN = re.compile(r"[\w.@%+][\w.@%+,/-]*")
"""Names that no shell has to quote. The scripts that complete would break up others."""


def complete_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete names of files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_words(kind: Kind) -> Complete | None:
    """Return what completes the words of a kind; None if it has none."""
    return _complete_among(kind.words) if isinstance(kind, Worded) else None


def _complete_among(read_words: Callable[[], Iterable[str]]) -> Complete:
    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        start = incomplete.lower()
        return [CompletionItem(word) for word in read_words() if word.lower().startswith(start)]

    return complete


def _states() -> Iterable[str]:
    from mainspring.core.states import RunState

    return RunState


def _run_kinds() -> Iterable[str]:
    from mainspring.core.model import RunKind

    return RunKind


complete_states: Complete = _complete_among(_states)
complete_run_kinds: Complete = _complete_among(_run_kinds)
complete_tiers: Complete = _complete_among(lambda: ("HIGH", "MEDIUM", "LOW"))


def complete_jobs(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of jobs that begin with a text; none if the server does not answer at once."""
    from click.shell_completion import CompletionItem

    from mainspring.cli.calling import call

    async def read(client: AsyncClient) -> list[str]:
        async with asyncio.timeout(_PATIENCE):
            page = await client.list_jobs(limit=1000)
        return [job.name for job in page.items]

    try:
        with context.scope(cleanup=False):  # it has the tenant
            names = call(context.params.get("server") or DEFAULT_SERVER, read)
    except Exception:  # noqa: BLE001 -- a shell has no use for errors
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def job_argument(command: Command) -> Command:
    """Give a command the argument JOB, whose names a shell completes."""
    return click.argument("job", shell_complete=complete_jobs)(command)
