"""Calls of an API server, for the parts of a test that are not under test."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Self

import aiohttp

PATHS = {
    "namespaces": "/api/v1/namespaces",
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/namespaces/{}/pods",
    "secrets": "/api/v1/namespaces/{}/secrets",
    "serviceaccounts": "/api/v1/namespaces/{}/serviceaccounts",
    "jobs": "/apis/batch/v1/namespaces/{}/jobs",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "roles": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}


class ApiError(Exception):
    """A call was refused."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    """A client of an API server, as an administrator."""

    def __init__(self, url: str, token: str, ca: str | None = None) -> None:
        self.url = url
        self.token = token
        self.ca = ca
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=self.ca) if self.ca else False
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context),
            headers={"Authorization": f"Bearer {self.token}"},
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Make a call, and return what it answers.

        Raises:
            ApiError: it is refused.
        """
        assert self._session is not None
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"Content-Type": f"application/{kind}"}
        async with self._session.request(method, self.url + path, json=body, headers=headers) as got:
            if not got.ok:
                raise ApiError(got.status, await got.text())
            read: dict[str, Any] = await got.json(content_type=None)
            return read

    async def all(self, kind: str, namespace: str = "default") -> list[dict[str, Any]]:
        """Return all objects of a kind."""
        found = await self.call("GET", PATHS[kind].format(namespace))
        return list(found["items"])

    async def names(self, kind: str, namespace: str = "default") -> list[str]:
        """Return the names of all objects of a kind."""
        return [one["metadata"]["name"] for one in await self.all(kind, namespace)]

    async def make(self, kind: str, body: Mapping[str, Any], namespace: str = "default") -> dict[str, Any]:
        """Make an object."""
        return await self.call("POST", PATHS[kind].format(namespace), body)

    async def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """Return an object; None if there is none."""
        try:
            return await self.call("GET", f"{PATHS[kind].format(namespace)}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def delete(self, kind: str, name: str, namespace: str = "default", **options: Any) -> None:
        """Delete an object, if it is there."""
        try:
            await self.call("DELETE", f"{PATHS[kind].format(namespace)}/{name}", options)
        except ApiError as error:
            if error.status not in {404, 409}:
                raise
