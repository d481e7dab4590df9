"""What a request's body may hold, and that nothing is sent of what it may not."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from mainspring import App, InvalidInput
from mainspring.sdk.bodies import encode_body
from mainspring.sdk.client import AsyncClient

NOBODY = "http://127.0.0.1:9"
"""A call that gets as far as the network fails with `Unreachable`."""
NAN, INFINITY, SURROGATE = float("nan"), float("inf"), "\ud800"


@dataclass
class Rate:
    value: float


def nested(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize(
    "payload",
    [
        NAN,
        -INFINITY,
        {"a": [None, INFINITY]},
        Rate(NAN),
        (NAN,),
        object(),
        nested(100_000),
        {NAN: 1},
        [{INFINITY: 1}],
        {"a": {-INFINITY: "null"}},
        Rate({NAN: 1}),  # type: ignore[arg-type]
    ],
    ids=type,
)
def test_what_is_not_json_is_refused_by_the_name_of_its_field(payload: object) -> None:
    with pytest.raises(InvalidInput, match=r"^payload: is not JSON: ."):
        encode_body({"name": "a", "timeout": None, "payload": payload})


@pytest.mark.parametrize("payload", [SURROGATE, {SURROGATE: 1}, [{"a": SURROGATE}]])
def test_a_lone_surrogate_is_refused_by_the_name_of_its_field(payload: object) -> None:
    with pytest.raises(InvalidInput, match=r"^payload: holds a lone surrogate"):
        encode_body({"name": "a", "payload": payload})


@pytest.mark.parametrize("key", [1, 1.5, True, None, b"a", date(2026, 1, 5), UUID(int=1), (1, 2)], ids=type)
def test_a_key_that_is_no_text_is_refused_by_the_name_of_its_field(key: object) -> None:
    for payload in ({key: 1}, [None, ({"a": {key: 1}},)]):
        with pytest.raises(
            InvalidInput, match=r"^payload: (keys must be text, not .|is not JSON: Only dicts)"
        ):
            encode_body({"name": "a", "payload": payload})
    with pytest.raises(InvalidInput, match=r"^\[1\]\.payload: "):
        encode_body([{"payload": {"1": 1}}, {"payload": {key: 1}}])


def test_a_field_whose_name_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^body: keys must be text, not a number$"):
        encode_body({"name": "a", 1: 2})


def test_a_field_in_a_list_is_named_by_its_index() -> None:
    with pytest.raises(InvalidInput) as caught:
        encode_body([{"job": "a", "payload": None}, {"job": "a", "payload": NAN}])
    assert caught.value.field == "[1].payload"


def test_a_bad_name_of_a_field_can_be_shown() -> None:
    with pytest.raises(InvalidInput) as caught:
        encode_body({SURROGATE: 1})
    assert str(caught.value).encode().startswith(b"'\\ud800': holds a lone surrogate")


def test_what_has_json_is_sent_as_before() -> None:
    body = {
        "trigger": None,
        "run_at": datetime(2026, 1, 5, tzinfo=UTC),
        "payload": [Rate(1.5), {"1": None, "nan": "null"}, (1e308, 10**30)],
        "report": msgspec.Raw(b'{"a":null}'),
    }
    assert encode_body(body) == msgspec.json.encode(body)
    assert json.loads(encode_body(body))["payload"] == [
        {"value": 1.5},
        {"1": None, "nan": "null"},
        [1e308, 10**30],
    ]


Call = Callable[[AsyncClient], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda client: client.create_job({"name": "a", "payload": NAN}), "payload"),
        (lambda client: client.put_job({"name": "a", "payload": SURROGATE}), "payload"),
        (lambda client: client.edit_job("job_1", {"payload": INFINITY}), "payload"),
        (lambda client: client.get_job(SURROGATE), "job_id"),
        (lambda client: client.list_jobs(name=SURROGATE), "name"),
        (lambda client: client.submit_run("job_1", idempotency_key=SURROGATE), "Idempotency-Key"),
    ],
)
async def test_nothing_is_sent_of_a_request_with_a_bad_value(call: Call, field: str) -> None:
    async with AsyncClient(NOBODY) as client:
        with pytest.raises(InvalidInput) as caught:
            await call(client)
    assert caught.value.field == field


@pytest.mark.parametrize("key", ["", "..", None])
async def test_a_name_that_would_make_another_path_is_refused(key: Any) -> None:
    async with AsyncClient(NOBODY) as client:
        for field, call in (
            ("queue", client.pause_queue(key, {})),
            ("limit", client.delete_limit(key)),
            ("calendar", client.get_calendar(key)),
        ):
            with pytest.raises(InvalidInput, match=rf"^{field}: must be a name, not "):
                await call


@pytest.mark.parametrize("key", ["", ".", "..", None, 5, b"job_1"])
async def test_an_id_that_would_make_another_path_is_refused(key: Any) -> None:
    async with AsyncClient(NOBODY) as client:
        calls = [
            client.get_job(key),
            client.edit_job(key, {}),
            client.delete_job(key),
            client.get_status(key),
            client.pause_job(key),
            client.resume_job(key),
            client.list_fire_ranges(key),
            client.get_ledger(key),
            client.submit_run(key),
            client.get_run(key),
            client.cancel_run(key),
        ]
        for call in calls:
            with pytest.raises(InvalidInput, match=r"^(job|run)_id: must be an id like (job|run)_…, not "):
                await call


async def test_the_client_of_an_app_refuses_the_same() -> None:
    app = App(server=NOBODY)
    try:
        for payload in (NAN, SURROGATE):
            with pytest.raises(InvalidInput, match=r"^payload: "):
                await asyncio.to_thread(app.sync.create_job, {"name": "a", "every": "1m", "payload": payload})
    finally:
        app.close()
