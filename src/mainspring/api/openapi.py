"""Completes the OpenAPI description with what handlers read by themselves: bodies, queries, problems."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.api.errors import MEDIA_TYPE, RETRY_AFTER_SECONDS, Problem
from mainspring.wire.bodies import BulkSubmitItem, JobBody, JobPatch, SubmitBody
from mainspring.wire.protocol import (
    BeatBody,
    BeatView,
    ClaimAnswerView,
    ClaimBody,
    RegisterBody,
    ReportBody,
    ReportView,
    SessionBody,
    SessionGranted,
)

_BODIES: dict[str, Any] = {
    "create_job": JobBody,
    "create_jobs": list[JobBody],
    "upsert_job": JobBody,
    "edit_job": JobPatch,
    "submit_run": SubmitBody,
    "run_job_now": SubmitBody,
    "submit_runs": list[BulkSubmitItem],
    "worker_register": RegisterBody,
    "worker_claim": ClaimBody,
    "worker_beat": BeatBody,
    "worker_report": ReportBody,
    "worker_leave": SessionBody,
}
_PROTOCOL_ANSWERS: list[Any] = [SessionGranted, ClaimAnswerView, BeatView, ReportView]
"""Described from their types like the bodies, since Litestar's description knows fewer words."""
_SUBMITTING = {"submit_run", "run_job_now"}
_OPTIONAL_BODIES = _SUBMITTING
_LIMIT = ("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}, "The page's size.")
_TEXT = {"type": "string"}
_QUERIES: dict[str, list[tuple[str, dict[str, Any], str]]] = {
    "list_jobs": [
        _LIMIT,
        ("after", _TEXT, "Those after this job: the `next` of the page before."),
        ("name", _TEXT, "The one of this name."),
    ],
    "list_job_fire_ranges": [_LIMIT],
    "list_job_runs": [
        _LIMIT,
        ("before", _TEXT, "Those before this run: the `next` of the page before."),
        ("state", _TEXT, "Those in this state."),
    ],
    "list_runs": [
        _LIMIT,
        ("before", _TEXT, "Those before this run: the `next` of the page before."),
        ("state", _TEXT, "Those in this state."),
        ("job_id", _TEXT, "Those of this job."),
    ],
    "preview_cron": [
        ("expression", _TEXT, "Five fields, or six with seconds first."),
        ("tz", {**_TEXT, "default": "UTC"}, "An IANA name."),
        ("dst", {**_TEXT, "default": "vixie"}, "`vixie` or GAP/OVERLAP."),
        ("count", {"type": "integer", "minimum": 1, "maximum": 100, "default": 5}, "How many fires."),
        ("after", _TEXT, "An instant, ISO 8601 with an offset; now by default."),
    ],
}
_REQUIRED_QUERIES = {("preview_cron", "expression")}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "The same key within 24 h gives the same run.",
}
_PROBLEMS = {
    400: "The body is not JSON in UTF-8.",
    403: "`Host` or `Origin` is not this machine.",
    404: "There is no such job or run.",
    409: "The name is taken, or the idempotency key stands for another request.",
    413: "The body, or a payload, is too large.",
    415: "The content type is not JSON.",
    422: "A field or parameter is wrong, `errors` names it; nothing was stored.",
    500: "A fault of the server; its log says what.",
    503: "The store does not answer, or the server is stopping; the same call may be repeated.",
}
_OF_ALL = {403, 422, 500, 503}
_OF_BODIES = {400, 413, 415}
_CONFLICTING = {"create_job", "edit_job", "upsert_job", "submit_run", "run_job_now"}
_RETRY_AFTER = {
    "description": "Seconds after which to try again.",
    "schema": {"type": "integer", "examples": [RETRY_AFTER_SECONDS]},
}


def known_parameters(operation: str) -> set[str]:
    """Return the names of the query parameters that an operation takes."""
    return {name for name, _, _ in _QUERIES.get(operation, [])}


def complete(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description with bodies, query parameters and problem answers added."""
    kinds = [*_distinct(_BODIES), *_PROTOCOL_ANSWERS, Problem]
    shapes, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    known = dict(zip((str(kind) for kind in kinds), shapes, strict=True))
    schema.setdefault("components", {}).setdefault("schemas", {}).update(components)
    for path, item in schema["paths"].items():
        for operation in item.values():
            if isinstance(operation, dict) and "operationId" in operation:
                _complete_operation(operation, known)
                _add_problems(operation, known[str(Problem)], is_about_one="{" in path)
    return schema


def _kinds(operation: str) -> list[str]:
    return (
        ["application/merge-patch+json", "application/json"]
        if operation == "edit_job"
        else ["application/json"]
    )


def _distinct(bodies: dict[str, Any]) -> list[Any]:
    kinds: list[Any] = []
    for kind in bodies.values():
        if kind not in kinds:
            kinds.append(kind)
    return kinds


def _complete_operation(operation: dict[str, Any], shapes: dict[str, Any]) -> None:
    name = operation["operationId"]
    parameters = operation.setdefault("parameters", [])
    for field, shape, description in _QUERIES.get(name, []):
        parameters.append(
            {
                "name": field,
                "in": "query",
                "required": (name, field) in _REQUIRED_QUERIES,
                "schema": shape,
                "description": description,
            }
        )
    if name in _SUBMITTING:
        parameters.append(_KEY)
    if name in _BODIES:
        operation["requestBody"] = {
            "required": name not in _OPTIONAL_BODIES,
            "content": {kind: {"schema": shapes[str(_BODIES[name])]} for kind in _kinds(name)},
        }
    answers = operation["responses"]
    answers.pop("400", None)
    if name == "upsert_job":
        answers["201"] = answers["200"]
    if name in _SUBMITTING:
        answers["200"] = answers["202"]


def _add_problems(operation: dict[str, Any], shape: dict[str, Any], *, is_about_one: bool) -> None:
    name = operation["operationId"]
    statuses = set(_OF_ALL)
    if name in _BODIES:
        statuses |= _OF_BODIES
    if is_about_one:
        statuses.add(404)
    if name in _CONFLICTING:
        statuses.add(409)
    content = {MEDIA_TYPE: {"schema": shape}}
    for status in sorted(statuses):
        answer: dict[str, Any] = {"description": _PROBLEMS[status], "content": content}
        if status == 503:
            answer["headers"] = {"Retry-After": _RETRY_AFTER}
        operation["responses"][str(status)] = answer
    # What stands between client and server may have words of its own, and a later version more.
    operation["responses"]["default"] = {
        "description": "What is wrong, as problem details (RFC 9457).",
        "content": content,
    }
