"""Carries out `append`."""

import asyncio
from pathlib import Path

from mainspring.core.outcomes import Failure
from mainspring.executors.context import ExecutorContext
from mainspring.ports.executor import AttemptContext, Outcome, Success


class AppendExecutor:
    """Writes in a thread, so that a slow disk does not hold up the worker."""

    type = "append"

    async def start(self) -> None:
        """Nothing is shared by attempts."""

    async def execute(self, context: AttemptContext) -> Outcome:
        """Add the line, or say why it could not be added."""
        line = (context.payload or b"null") + b"\n"
        try:
            async with asyncio.timeout(context.timeout.total_seconds()):
                await asyncio.to_thread(_append, Path(context.params["path"]), line)
        except TimeoutError:
            return Failure(error="the file took too long", is_timeout=True)
        except OSError as error:
            return Failure(error=f"cannot write: {error.strerror}")
        return Success()

    async def stop(self) -> None:
        """Nothing is held."""


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)


def make_executor(context: ExecutorContext) -> AppendExecutor:
    """Make the executor of a worker; its settings are in the context."""
    del context
    return AppendExecutor()
