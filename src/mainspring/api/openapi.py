"""Makes the OpenAPI 3.1 description of the API from the table of operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from mainspring.api.errors import MEDIA_TYPE, RETRY_AFTER_SECONDS, Problem
from mainspring.wire.operation import Operation, Parameter
from mainspring.wire.run_logs import EVENT_STREAM

_TITLE = {
    "title": "Mainspring",
    "description": "Schedules jobs, runs them, and accounts for every fire.",
}
_PROBLEMS = {
    400: "The body is not JSON in UTF-8, or the operation takes none, or a header is given twice.",
    403: "The caller may not do this, or `Host` or `Origin` is not this server.",
    404: "There is no such job or run.",
    409: "The name is taken, the tenant may have no further job, or the idempotency key was used for another request.",
    413: "The body, or a payload, is too large.",
    415: "The content type is not the one that is described.",
    422: "A field or parameter is wrong. `errors` names it. Nothing was stored.",
    429: "It comes too soon. `errors` names what is full or used up. Nothing was stored; wait for `Retry-After`.",
    500: "The server has failed. Its log says why.",
    503: "The store does not answer, or the server is stopping. The same call may be repeated.",
}
_OF_ALL = {400, 403, 413, 422, 500, 503}
_RETRY_AFTER = {
    "description": "Seconds after which to try again.",
    "schema": {"type": "integer", "examples": [RETRY_AFTER_SECONDS]},
}


def describe(operations: Iterable[Operation[Any]], version: str) -> dict[str, Any]:
    """Return the description of the API."""
    described = [operation for operation in operations if operation.is_described]
    shapes, components = _shapes(described)
    paths: dict[str, dict[str, Any]] = {}
    for operation in described:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, shapes)
    return {
        "openapi": "3.1.0",
        "info": {**_TITLE, "version": version},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _shapes(operations: list[Operation[Any]]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the schema of each type by the type's text, and the schemas that these refer to."""
    bodies = [operation.body.shape for operation in operations if operation.body is not None]
    answers = [operation.answer for operation in operations if operation.answer is not type(None)]
    answers += [answer for operation in operations for answer in operation.other_answers]
    kinds = list({str(kind): kind for kind in [*bodies, *answers, Problem]}.values())
    shapes, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return dict(zip(map(str, kinds), shapes, strict=True)), components


def _describe(operation: Operation[Any], shapes: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.description,
        "parameters": list(_parameters(operation)),
        "responses": _successes(operation, shapes) | _problems(operation, shapes[str(Problem)]),
    }
    if operation.body is not None:
        shape = {"schema": shapes[str(operation.body.shape)]}
        described["requestBody"] = {
            "required": not operation.body.is_optional,
            "content": dict.fromkeys(operation.body.media_types, shape),
        }
    return described


def _parameters(operation: Operation[Any]) -> Iterable[dict[str, Any]]:
    if operation.variable is not None:
        yield {"name": operation.variable, "in": "path", "required": True, "schema": {"type": "string"}}
    for place, parameters in (("query", operation.query), ("header", operation.all_headers)):
        for parameter in parameters:
            yield {
                "name": parameter.name,
                "in": place,
                "required": parameter.is_required,
                "schema": _schema(parameter),
                "description": parameter.description,
            }


def _schema(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if parameter.bounds is not None:
        lowest, highest = parameter.bounds
        schema = {"type": "integer", "minimum": lowest, "maximum": highest}
    elif parameter.lengths is not None:
        lowest, highest = parameter.lengths
        schema |= {"minLength": lowest, "maxLength": highest}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def _successes(operation: Operation[Any], shapes: Mapping[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.answer is not type(None):
        schema = shapes[str(operation.answer)]
        if operation.other_answers:
            schema = {"anyOf": [schema, *(shapes[str(answer)] for answer in operation.other_answers)]}
        content = {"content": {operation.media_type.partition(";")[0]: {"schema": schema}}}
        if operation.is_followed:
            content["content"][EVENT_STREAM] = {"schema": {"type": "string"}}
    return {
        str(status): {"description": HTTPStatus(status).description, **content}
        for status in operation.statuses
    }


def _problems(operation: Operation[Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    statuses = set(_OF_ALL)
    if operation.body is not None:
        statuses.add(415)
    if operation.variable is not None:
        statuses.add(404)
    if operation.is_conflicting:
        statuses.add(409)
    if operation.is_rationed:
        statuses.add(429)
    content = {MEDIA_TYPE: {"schema": shape}}
    problems: dict[str, Any] = {}
    for status in sorted(statuses):
        problems[str(status)] = {"description": _PROBLEMS[status], "content": content}
        if status in {429, 503}:
            problems[str(status)]["headers"] = {"Retry-After": _RETRY_AFTER}
    # Proxies between client and server may answer with other statuses, and so may later versions.
    problems["default"] = {
        "description": "What is wrong, as problem details (RFC 9457).",
        "content": content,
    }
    return problems
