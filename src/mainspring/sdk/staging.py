"""What an app's calls go to instead of a server, and whether they may go to a server at all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mainspring.errors import MainspringError

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.views import RunView

T = TypeVar("T")
_refusal: str | None = None


class Stage(Protocol):
    """Carries out the calls of an app in place of a server, as `App.testing` does."""

    async def perform(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Make calls, from any event loop."""
        ...

    def perform_sync(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Make calls while the calling thread waits."""
        ...

    async def wait(self, run_id: str, timeout: float | timedelta | None) -> RunView:
        """Return a run that has ended.

        Raises:
            TimeoutError: it cannot end by itself.
        """
        ...

    def wait_sync(self, run_id: str, timeout: float | timedelta | None) -> RunView:
        """Like `wait`, for code without an event loop."""
        ...


def refuse_servers(reason: str | None) -> None:
    """Refuse all calls to servers in this process, with this reason. None allows them again."""
    global _refusal  # noqa: PLW0603 -- a test suite sets it for the process, whatever the code under test makes
    _refusal = reason


def check_allowed(server: str) -> None:
    """Refuse a call to a server if this process makes none.

    Raises:
        MainspringError: calls are refused.
    """
    if _refusal is not None:
        raise MainspringError(f"no call to {server}: {_refusal}")
