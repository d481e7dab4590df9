"""`App.client`: the methods of a client, for whatever event loop calls them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from mainspring.sdk.lists import AsyncLists

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient


class AsyncFacade(AsyncLists):
    """The client's methods, each run on the loop of the app's client."""

    def __init__(self, perform: Callable[[Callable[[AsyncClient], Coroutine[Any, Any, Any]]], Any]) -> None:
        self._perform = perform

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from mainspring.sdk.client import AsyncClient

        if name.startswith("_") or not callable(getattr(AsyncClient, name, None)):
            raise AttributeError(f"the client has no method {name!r}")
        return partial(self._call, name)

    def _call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return self._perform(lambda client: getattr(client, name)(*args, **kwargs))
