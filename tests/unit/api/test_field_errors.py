"""Whatever is wrong in a body is told in our words: the field's path, and what would be right there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from httpx import AsyncClient

from mainspring.wire.operation import Operation
from mainspring.wire.operations import LOGIN, OPERATIONS, SET_PASSWORD, UPSERT_ACCOUNT, WORKER_REGISTER
from mainspring.wire.protocol import WORKER_PROTOCOL

Http = AsyncClient
JSON = {"content-type": "application/json"}
JOBS = "/api/v1/jobs"
BULK = "/api/v1/runs/bulk"
CLAIM = "/api/v1/worker/claim"
WORKER = "/api/v1/worker"
NOT_A_NUMBER_HERE = "is out of range; give a number between -1.7e308 and 1.7e308"

REFUSED: list[tuple[str, str, str, str]] = [
    # Fields that do not exist come with the nearest one that does.
    ("{job}/runs", '{"paylod": 1}', "paylod", "there is no such field; did you mean 'payload'?"),
    (
        "{job}/runs",
        '{"zzz": 1}',
        "zzz",
        "there is no such field; known are delay, payload, priority, run_at",
    ),
    ("{job}/runs", '{"a.b`c": 1}', "a.b`c", "there is no such field; known are"),
    ("{job}/runs", '{"": 1}', "''", "there is no such field; known are"),
    ("{job}/runs", '{"x - at `$.delay`": 1}', "x - at `$.delay`", "there is no such field; known are"),
    ("{job}/run", '{"dealy": 1}', "dealy", "there is no such field; did you mean 'delay'?"),
    (BULK, '[{}, {"jb": "x"}]', "[1].jb", "there is no such field; did you mean 'job'?"),
    (
        CLAIM,
        '{"session_id": "ses_1", "number": 1, "limit": 1, "function_limit": {"limt": 1}}',
        "function_limit.limt",
        "there is no such field; did you mean 'limit'?",
    ),
    (
        f"{WORKER}/report",
        '{"session_id": "ses_1", "reports": [{"run": "x"}]}',
        "reports[0].run",
        "there is no such field; did you mean 'run_id'?",
    ),
    (
        f"{WORKER}/register",
        f'{{"protocol": {WORKER_PROTOCOL}, "name": "w", "lables": []}}',
        "lables",
        "there is no such field; did you mean 'labels'?",
    ),
    # Fields that are missing.
    (f"{WORKER}/leave", "{}", "session_id", "is missing"),
    (f"{WORKER}/beat", '{"session_id": "ses_1", "held": [{"token": 1}]}', "held[0].run_id", "is missing"),
    # Values of another type, or out of bounds.
    ("{job}/runs", '{"delay": []}', "delay", "must be a number or text like '90s', not a list"),
    ("{job}/runs", '{"delay": true}', "delay", "must be a number or text like '90s', not true or false"),
    ("{job}/runs", '{"delay": 1e400}', "delay", "must be a number or text like '90s'"),
    ("{job}/runs", '{"priority": 3}', "priority", "must be text like 'HIGH', not a number"),
    (
        "{job}/runs",
        '{"run_at": 5}',
        "run_at",
        "is out of range as seconds since 1970; for so long from now, write it like 'in 10m'",
    ),
    (
        "{job}/runs",
        '{"run_at": "x"}',
        "run_at",
        (
            "'x' is not an instant; write it like 2026-11-21T09:00:00+01:00, or like "
            "'2026-12-01 09:00 Europe/Berlin' or 'in 10m'"
        ),
    ),
    (
        "{job}/runs",
        '{"run_at": []}',
        "run_at",
        "must be a number or text like '2026-12-01T09:00:00+01:00', not a list",
    ),
    ("{job}/runs", "[]", "body", "must be an object, not a list"),
    (BULK, "{}", "body", "must be a list, not an object"),
    (BULK, "[3]", "[0]", "must be an object, not a number"),
    (BULK, '[{"job": 3}]', "[0].job", "must be text, not a number"),
    (CLAIM, '{"session_id": "x"}', "session_id", "must be text like 'ses_17'"),
    (CLAIM, '{"limit": "1"}', "limit", "must be a whole number from 0 to 100000, not text"),
    (CLAIM, '{"limit": 1.5}', "limit", "must be a whole number from 0 to 100000"),
    (CLAIM, '{"limit": -1}', "limit", "must be a whole number from 0 to 100000"),
    (CLAIM, '{"wait_seconds": 31}', "wait_seconds", "must be a number from 0 to 30"),
    (CLAIM, '{"is_idle": 1}', "is_idle", "must be true or false, not a number"),
    (CLAIM, '{"function_limit": 3}', "function_limit", "must be an object, not a number"),
    (
        CLAIM,
        '{"function_limit": {"functions": [1]}}',
        "function_limit.functions[0]",
        "must be text of at most 200 characters, not a number",
    ),
    (f"{WORKER}/beat", '{"held": null}', "held", "must be a list, not null"),
    (
        f"{WORKER}/report",
        '{"reports": [{"delay_seconds": 1e400}]}',
        "reports[0].delay_seconds",
        "must be a number from 0 to 31536000",
    ),
    (
        f"{WORKER}/register",
        f'{{"protocol": {WORKER_PROTOCOL}, "name": ""}}',
        "name",
        "must be text of 1 to 200 characters",
    ),
    # Numbers that no float can hold, where any JSON may stand.
    (JOBS, '{"name": "x", "timeout": 1e400}', "timeout", NOT_A_NUMBER_HERE),
    (JOBS, '{"retry": {"delays": [1, -1e400]}}', "retry.delays[1]", NOT_A_NUMBER_HERE),
    (JOBS, '{"payload": {"a b": {"\\u0000": 1e400}}}', "payload.a b.'\\x00'", NOT_A_NUMBER_HERE),
    (JOBS, f'{{"timeout": {"9" * 5000}}}', "timeout", NOT_A_NUMBER_HERE),
    (JOBS, '{"timeout": 1e400, "timeout": 1}', "body", NOT_A_NUMBER_HERE),
    (JOBS, '{"timeout": 1e400', "body", NOT_A_NUMBER_HERE),
    (JOBS, "1e400", "body", NOT_A_NUMBER_HERE),
    (f"{JOBS}/bulk", '[{}, {"timeout": 1e400}]', "[1].timeout", NOT_A_NUMBER_HERE),
    ("{job}/runs", '{"payload": {"a": [1e400]}}', "payload.a[0]", NOT_A_NUMBER_HERE),
]


@pytest.mark.parametrize(
    ("path", "body", "field", "message"), REFUSED, ids=[f"{path} {body[:40]}" for path, body, *_ in REFUSED]
)
async def test_wrong_body_is_refused_by_its_field_and_in_our_words(
    http: Http, job: dict[str, Any], path: str, body: str, field: str, message: str
) -> None:
    answer = await http.post(path.format(job=f"{JOBS}/{job['job_id']}"), content=body, headers=JSON)
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert error["message"].startswith(message)
    assert len(error["message"]) == len(message) or message.endswith("known are")


async def test_wrong_patch_is_refused_in_our_words(http: Http, job: dict[str, Any]) -> None:
    answer = await http.patch(f"{JOBS}/{job['job_id']}", content='{"retry": {"cap": 1e400}}', headers=JSON)
    assert answer.json()["errors"] == [{"field": "retry.cap", "message": NOT_A_NUMBER_HERE}]


STRUCTS = [each for each in OPERATIONS if each.body is not None and each.body.decoded_as is each.body.shape]
VALUES = [
    "null",
    "true",
    "-1",
    "1.5",
    "1e400",
    "9" * 5000,
    '"?"',
    "[]",
    "[[]]",
    "{}",
    '{"?": 1}',
    '{"a": 1e400}',
]


@pytest.mark.parametrize("operation", [*STRUCTS, WORKER_REGISTER], ids=lambda each: each.id)
async def test_no_field_is_refused_in_the_words_of_the_decoder(
    http: Http, job: dict[str, Any], operation: Operation[Any]
) -> None:
    assert operation.body is not None
    schema = msgspec.json.schema(operation.body.shape)
    is_list = schema.get("type") == "array"
    (fields,) = (
        struct["properties"]
        for name, struct in schema["$defs"].items()
        if schema.get("$ref", schema.get("items", {}).get("$ref")).endswith(f"/{name}")
    )
    protocol = f'"protocol": {WORKER_PROTOCOL}, ' if operation is WORKER_REGISTER else ""
    seen = 0
    for field in fields.keys() - {"protocol"}:
        for value in VALUES:
            body = f'{{{protocol}"{field}": {value}}}'
            url = operation.url(job["job_id"] if operation.variable else None)
            content = f"[{body}]" if is_list else body
            answer = await http.request(operation.method, url, content=content, headers=JSON)
            good = {200, 201, 202, 204} if "/runs/" not in operation.path else {404}  # there is no such run
            if operation in {LOGIN, SET_PASSWORD}:
                good = {404}  # nobody signs in at this server
            if operation is UPSERT_ACCOUNT:
                good = {409}  # the first account comes with a token
            assert answer.status_code in {*good, 422}, (body[:80], answer.text[:200])
            if answer.status_code == 422:
                (error,) = answer.json()["errors"]
                seen += 1
                assert not {"`", "$"} & {*error["message"]}, (body[:80], error)
                assert "xpected" not in error["message"], (body[:80], error)
                assert "..." not in error["field"]
    assert seen >= len(VALUES)
