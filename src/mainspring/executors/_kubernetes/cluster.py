"""The API server of a cluster: a connection, and the few calls that are needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import aiohttp
import msgspec

from mainspring.errors import InvalidInput
from mainspring.executors._text import clean

_PATIENCE = (10.0, 30.0)
"""Seconds to connect, and to wait for a part of an answer."""
_PAGE = 500
"""Objects in a part of a list."""
_RENEWAL_APART = 10.0
"""Seconds between two looks for new credentials, at least."""
_MOST_CLIENTS = 3
"""Clients with older credentials that are kept; a log whose client is closed is followed by the newest one."""
_AUTH = ["BearerToken"]
_BATCH = "/apis/batch/v1"
_CORE = "/api/v1"
_LEASES = "/apis/coordination.k8s.io/v1"
PATHS = {
    "jobs": f"{_BATCH}/namespaces/{{namespace}}/jobs",
    "pods": f"{_CORE}/namespaces/{{namespace}}/pods",
    "secrets": f"{_CORE}/namespaces/{{namespace}}/secrets",
    "leases": f"{_LEASES}/namespaces/{{namespace}}/leases",
}
"""By kind of object, where it is."""
Object = Mapping[str, Any]
Query = list[tuple[str, str]]


class CallRefused(Exception):
    """The API server refused a call.

    Attributes:
        status: that of HTTP.
        reason: one word of Kubernetes: `AlreadyExists`, `Forbidden`.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(clean(message, 1000))
        self.status = status
        self.reason = reason

    @property
    def is_passing(self) -> bool:
        """Whether the same call may be answered later."""
        return self.status in {401, 408, 429} or self.status >= 500


class ApiServerUnreachable(Exception):
    """The API server did not answer, or not to the end. What was asked may have been done."""


class Connector(Protocol):
    """Makes connections to the API server."""

    async def connect(self) -> Any:
        """Return a client of the library, with credentials as they are now.

        Raises:
            InvalidInput: there are none.
        """
        ...


class ClusterCalls:
    """Calls the API server. Answers are JSON as it comes, since only a few fields of it are read.

    Args:
        connector: knows where it is.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._client: Any = None
        self._old: list[Any] = []
        self._renewal = asyncio.Lock()
        self._renewed_at = 0.0

    async def open(self) -> None:
        """Make what calls share. It connects with the first call.

        Raises:
            InvalidInput: there are no credentials.
        """
        self._client = await self._connector.connect()
        self._renewed_at = asyncio.get_running_loop().time()

    async def close(self) -> None:
        """Close the connections."""
        for one in (*self._old, self._client):
            if one is not None:
                await one.close()

    async def create(self, kind: str, namespace: str, body: Object) -> Object:
        """Make an object, and return it as it is kept.

        Raises:
            CallRefused, ApiServerUnreachable: it was not made; perhaps it was, if unreachable.
        """
        return await self._call("POST", kind, namespace, body=body)

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return an object; None if there is none of that name.

        Raises:
            CallRefused, ApiServerUnreachable: it is not known.
        """
        try:
            return await self._call("GET", kind, namespace, name)
        except CallRefused as refusal:
            if refusal.status == 404:
                return None
            raise

    async def patch(self, kind: str, namespace: str, name: str, body: Object) -> Object:
        """Change fields of an object.

        Raises:
            CallRefused, ApiServerUnreachable: they are as they were; perhaps they are not, if unreachable.
        """
        return await self._call("PATCH", kind, namespace, name, body=body)

    async def delete(self, kind: str, namespace: str, name: str, **options: Any) -> bool:
        """Delete an object; False if there is none of that name, or not the one that `preconditions` tell of.

        Args:
            options: those of Kubernetes: `propagationPolicy`, `preconditions`, `gracePeriodSeconds`.

        Raises:
            CallRefused, ApiServerUnreachable: it is there; perhaps it is not, if unreachable.
        """
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        try:
            await self._call("DELETE", kind, namespace, name, body=body)
        except CallRefused as refusal:
            if refusal.status in {404, 409}:
                return False
            raise
        return True

    async def list_all(self, kind: str, namespace: str, selector: str) -> list[Object]:
        """Return all objects with certain labels, as they are now.

        Raises:
            CallRefused, ApiServerUnreachable: they are not known.
        """
        found: list[Object] = []
        query: Query = [("labelSelector", selector), ("limit", str(_PAGE))]
        while True:
            page = await self._call("GET", kind, namespace, query=query)
            found += page.get("items") or ()
            more = page.get("metadata", {}).get("continue")
            if not more:
                return found
            query = [("labelSelector", selector), ("limit", str(_PAGE)), ("continue", more)]

    @asynccontextmanager
    async def follow(self, namespace: str, pod: str, query: Query) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give what a pod prints, piece by piece, until it has ended.

        Raises:
            CallRefused, ApiServerUnreachable: there is no more of it.
        """
        path = f"{PATHS['pods']}/{{name}}/log"
        patience = aiohttp.ClientTimeout(total=None, sock_connect=_PATIENCE[0])
        async with self._answer("GET", path, namespace, pod, query=query, patience=patience) as answer:
            yield answer.content.iter_any()

    async def _call(
        self,
        method: str,
        kind: str,
        namespace: str,
        name: str = "",
        *,
        query: Query | None = None,
        body: Object | None = None,
    ) -> Object:
        path = f"{PATHS[kind]}/{{name}}" if name else PATHS[kind]
        async with self._answer(method, path, namespace, name, query=query, body=body) as answer:
            read = _decode(await answer.read())
            if read is None:
                raise ApiServerUnreachable("the API server's answer is no JSON; is this the address of one?")
            return read

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        namespace: str,
        name: str,
        *,
        query: Query | None = None,
        body: Object | None = None,
        patience: Any = _PATIENCE,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        try:
            answer = await self._client.call_api(
                path,
                method,
                path_params={"namespace": namespace, "name": name},
                query_params=query or [],
                header_params=headers,
                body=body,
                auth_settings=_AUTH,
                _preload_content=False,
                _request_timeout=patience,
            )
            async with answer:
                if not answer.ok:
                    raise _refusal(answer.status, await answer.read())
                yield answer
        except CallRefused as refusal:
            if refusal.status == 401:
                await self._renew()
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiServerUnreachable(f"the API server cannot be reached: {_name(error)}") from error

    async def _renew(self) -> None:
        """Get new credentials, as those of programs expire. The call that was refused comes again by itself."""
        async with self._renewal:
            loop = asyncio.get_running_loop()
            if loop.time() - self._renewed_at < _RENEWAL_APART:
                return
            self._renewed_at = loop.time()
            try:
                made = await self._connector.connect()
            except InvalidInput as error:
                raise ApiServerUnreachable(str(error)) from error
            self._old.append(self._client)  # followed logs still use it
            self._client = made
            while len(self._old) > _MOST_CLIENTS:
                await self._old.pop(0).close()


def _decode(data: bytes) -> Object | None:
    try:
        read = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    return read if isinstance(read, dict) else None


def _refusal(status: int, data: bytes) -> CallRefused:
    """Return what the API server said, or something else in its place, like a proxy."""
    read = _decode(data) or {}
    message = read.get("message") or data.decode("utf-8", "replace")[:300] or f"HTTP status {status}"
    return CallRefused(status, str(read.get("reason") or ""), str(message))


def _name(error: BaseException) -> str:
    return str(error) or type(error).__name__
