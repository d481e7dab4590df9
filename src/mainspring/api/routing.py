"""Finds the endpoint of a request by method and path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mainspring.api.call import Endpoint
from mainspring.api.reading import BodyReader, QueryReader
from mainspring.core.rights import Right
from mainspring.wire.operation import Operation


class Route(NamedTuple):
    """An endpoint, prepared for the admission step."""

    operation: Operation[Any]
    handle: Callable[..., Awaitable[Any]]
    right: Right
    status: int
    body: BodyReader | None
    query: QueryReader
    is_streamed: bool


class Found(NamedTuple):
    """The routes at a path.

    Attributes:
        methods: the routes by method.
        key: the value of the path's variable part; empty if it has none.
    """

    methods: Mapping[str, Route]
    key: str


class _Node:
    """One part of a path, with the parts that may follow it."""

    __slots__ = ("children", "methods", "variable")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.variable: _Node | None = None
        self.methods: dict[str, Route] = {}


class Routes:
    """All routes of the API. A trailing or doubled slash in a path changes nothing.

    Args:
        limits: the most bytes of the bodies of some operations, by their ids, where a setting tells.

    Raises:
        ValueError: an operation has two endpoints.
    """

    def __init__(
        self, endpoints: Iterable[Endpoint], limits: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self._root = _Node()
        self._limits = limits
        self._fixed: dict[str, Found] = {}
        for endpoint in endpoints:
            self._add(endpoint)

    def find(self, path: str) -> Found | None:
        """Return the routes at a path, or None if there are none."""
        found = self._fixed.get(path)
        if found is not None:
            return found
        node, key = self._root, ""
        for part in path.split("/"):
            if not part:
                continue
            child = node.children.get(part)
            if child is None:
                child, key = node.variable, part
                if child is None:
                    return None
            node = child
        # No name that is kept has characters that cannot be shown, and PostgreSQL takes no NUL.
        return Found(node.methods, key) if node.methods and key.isprintable() else None

    def _reader(self, operation: Operation[Any]) -> BodyReader | None:
        body = operation.body
        if body is None or body.is_streamed:
            return None
        return BodyReader(body, limit=self._limits.get(operation.id, body.limit))

    def _add(self, endpoint: Endpoint) -> None:
        operation = endpoint.operation
        node = self._root
        for part in operation.path.split("/")[1:]:
            if part.startswith("{"):
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.children.setdefault(part, _Node())
        if operation.method in node.methods:
            raise ValueError(f"{operation.method} {operation.path} has two endpoints")
        node.methods[operation.method] = Route(
            operation=operation,
            handle=endpoint.handle,
            right=operation.right,
            status=operation.statuses[0],
            body=self._reader(operation),
            query=QueryReader(operation.query, ignores_others=operation.ignores_queries),
            is_streamed=operation.body is not None and operation.body.is_streamed,
        )
        if operation.variable is None:
            self._fixed[operation.path] = Found(node.methods, "")
