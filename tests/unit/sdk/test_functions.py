"""What `@app.job` makes of functions, without a server."""

import asyncio
import inspect
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import App, Debounce, InvalidInput, Limit, Priority, Throttle, Unique
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.definitions import job_body
from mainspring.sdk.function import NO_PAYLOAD
from mainspring.sdk.portal import Portal
from mainspring.sdk.sync_client import SyncClient
from mainspring.sdk.transfers import Transfers


async def test_a_job_is_still_its_function() -> None:
    app = App()

    @app.job()
    async def double(x: int) -> int:
        """Doubles."""
        return 2 * x

    @app.job(name="other")
    def triple(x: int) -> int:
        return 3 * x

    assert await double(4) == 8
    assert triple(4) == 12
    assert double.__doc__ == "Doubles."
    assert app.registry.names() == ("double", "other")
    assert app.definitions() == [
        {"name": "double", "function": "double"},
        {"name": "other", "function": "other"},
    ]


def test_fields_of_a_definition() -> None:
    app = App()

    @app.job(
        name="report",
        every=timedelta(seconds=90),
        priority=Priority.HIGH,
        retry={"delay": timedelta(seconds=2)},
        retries=5,
        labels=("gpu",),
        timeout="10m",
    )
    def report() -> None: ...

    assert app.definitions() == [
        {
            "name": "report",
            "function": "report",
            "every": 90.0,
            "priority": "HIGH",
            "retry": {"delay": 2.0, "max_retries": 5},
            "labels": ["gpu"],
            "timeout": "10m",
        }
    ]


def test_an_instant_that_has_passed_is_for_the_server_to_judge() -> None:
    app = App()

    @app.job(run_at=datetime(2020, 1, 1, tzinfo=UTC))
    def once() -> None: ...

    assert app.definitions()[0]["run_at"] == "2020-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    "definition",
    [
        {"every": "1h"},
        {"schedule": "daily"},
        {"trigger": {"type": "once", "at": "2030-01-01T00:00:00Z"}},
        {"payload": {"order": 1}},
        {"payload": [1, 2]},
        {"every": "1h", "payload": []},
    ],
)
def test_what_each_fire_would_pass_has_to_fit_the_function(definition: dict[str, Any]) -> None:
    def charge(invoice: int) -> None: ...

    with pytest.raises(InvalidInput, match=r"^payload: .*; give payload=\{…\} with its arguments"):
        App().job(**definition)(charge)


@pytest.mark.parametrize(
    "definition",
    [{}, {"cron": None}, {"every": "1h", "payload": {"invoice": 1}}, {"every": "1h", "payload": 0}],
)
def test_a_payload_that_fits_and_a_job_that_does_not_fire_are_right(definition: dict[str, Any]) -> None:
    def charge(invoice: int) -> None: ...

    App().job(**definition)(charge)
    batched: Any = charge
    App().job(every="1h", batch={"size": 2})(batched)


@pytest.mark.parametrize("calls", [5, "ab", {"x": 1}, None])
def test_many_calls_are_a_list(calls: Any) -> None:
    def charge(invoice: int) -> None: ...

    with pytest.raises(InvalidInput, match=r"^calls: must be a list"):
        App().job()(charge).enqueue_many_sync(calls)


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"crom": "* * * * *"}, "crom"),
        ({"every": "90s", "cron": "* * * * *"}, "every"),
        ({"retries": -1}, "retry.max_retries"),
        ({"retries": 1, "retry": {"max_retries": 2}}, "retries"),
        ({"command": ["x"]}, "command"),
        ({"function": "x"}, "function"),
        ({"tz": "Europe/Berlin"}, "tz"),
        ({"name": "a+b"}, "name"),
        ({"name": ""}, "name"),
        ({"queue": "a b"}, "queue"),
        ({"payload": object()}, "payload"),
    ],
)
def test_a_wrong_field_is_refused_at_once(definition: dict[str, Any], field: str) -> None:
    app = App()

    def nothing() -> None: ...

    with pytest.raises(InvalidInput) as caught:
        app.job(**definition)(nothing)
    assert caught.value.field == field
    assert app.definitions() == []
    assert app.registry.names() == ()


def test_a_name_is_taken_once() -> None:
    app = App()
    app.job(name="a")(len)
    with pytest.raises(InvalidInput, match="already taken"):
        app.job(name="a")(print)


def test_without_parentheses_says_so() -> None:
    with pytest.raises(InvalidInput, match="parentheses"):
        App().job(len)  # type: ignore[call-overload]


KEYED: list[dict[str, Any]] = [
    {"concurrency": Limit(key="$.x", limit=1)},
    {"concurrency": [{"limit": 2}, {"key": "$.x", "use": "crm"}]},
    {"unique": Unique("$.x")},
    {"unique": "$.x"},
    {"debounce": Debounce("$.x", wait="5s")},
    {"throttle": Throttle("$.x", limit=1, per="1h")},
]


@pytest.mark.parametrize("options", KEYED)
def test_arguments_go_by_name_if_a_key_names_one(options: dict[str, Any]) -> None:
    app = App()

    @app.job(**options)
    def f(x: str = "a", y: object = object(), z: int = 3) -> None: ...

    @app.job(payload={"x": "b"}, **options)
    def g(x: str = "a") -> None: ...

    assert f.payload(("c", 4), {}) == {"x": "c", "y": 4}
    assert f.payload((), {"z": 1}) == {"x": "a", "z": 1}
    assert f.payload((), {}) == {"x": "a"}
    assert g.payload((), {}) is NO_PAYLOAD
    assert g.payload(("c",), {}) == {"x": "c"}


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("concurrency.key", {"concurrency": {"key": "x", "limit": 1}}),
        ("concurrency[1].key", {"concurrency": [Limit(limit=2), Limit(key="x", use="crm")]}),
        ("unique.key", {"unique": Unique("x")}),
        ("unique.key", {"unique": "x"}),
        ("debounce.key", {"debounce": Debounce("x", wait="5s")}),
        ("throttle.key", {"throttle": Throttle("x", limit=1, per="1h")}),
    ],
)
def test_a_key_that_names_an_argument_without_a_path_is_refused(field: str, options: dict[str, Any]) -> None:
    app = App()

    def f(x: str) -> None: ...

    decorate: Any = app.job(**options)
    with pytest.raises(InvalidInput, match=r"write '\$\.x'") as raised:
        decorate(f)
    assert raised.value.field == field
    app.job(unique=Unique("y"))(f)  # the name is free, and other text is a key


def test_a_period_alone_says_the_scope() -> None:
    app = App()

    @app.job(unique=Unique(period="1d"))
    def f() -> None: ...

    assert app.definitions()[0]["unique"] == {"period": "1d", "on_conflict": "existing"}


def test_the_same_call_is_the_same_payload_where_all_of_it_is_the_key() -> None:
    app = App()

    @app.job(unique=Unique(period="1d"))
    def f(x: str, y: int = 0) -> None: ...

    @app.job(unique=Unique("everything"))
    def g(x: str) -> None: ...

    assert f.payload(("a",), {}) == f.payload((), {"x": "a"}) == {"x": "a"}
    assert g.payload(("a",), {}) == ["a"]


def test_arguments_become_a_payload() -> None:
    app = App()

    @app.job()
    def f(x: int, y: int = 2, *, z: int = 3) -> None: ...

    @app.job()
    def g(x: int, /, *more: int, **named: int) -> None: ...

    @app.job(payload={"x": 1})
    def h(x: int) -> None: ...

    @app.job()
    def nothing() -> None: ...

    assert f.payload((), {"x": 1, "z": 4}) == {"x": 1, "z": 4}
    assert f.payload((1, 5), {}) == [1, 5]
    assert f.payload((1,), {"z": 4}) == {"x": 1, "z": 4}
    assert g.payload((1, 2, 3), {}) == [1, 2, 3]
    assert h.payload((), {}) is NO_PAYLOAD
    assert nothing.payload((), {}) is NO_PAYLOAD
    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((), {"q": 1}), ((1,), {"x": 1})):
        with pytest.raises(InvalidInput, match="does not fit"):
            f.payload(args, kwargs)
    with pytest.raises(InvalidInput, match="positions or names"):
        g.payload((1,), {"a": 1})


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"run_at": datetime(2030, 1, 1)}, "run_at"),  # noqa: DTZ001 -- refused for that
        ({"run_at": "soon"}, "run_at"),
        ({"delay": -1}, "delay"),
        ({"delay": "1x"}, "delay"),
        ({"delay": 1, "run_at": datetime(2030, 1, 1, tzinfo=UTC)}, "delay"),
        ({"priority": "very urgent"}, "priority"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], field: str) -> None:
    function = App().job()(len)
    with pytest.raises(InvalidInput) as caught:
        function.options(**options)
    assert caught.value.field == field


def test_the_server_is_found_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAINSPRING_SERVER", raising=False)
    assert App().server == "http://127.0.0.1:8620"
    monkeypatch.setenv("MAINSPRING_SERVER", "http://127.0.0.1:1")
    app, own = App(), App("http://127.0.0.1:3")
    assert app.server == "http://127.0.0.1:1"
    for each in (app, own):
        each.serve_by("http://127.0.0.1:2")
    assert (app.server, own.server) == ("http://127.0.0.1:2", "http://127.0.0.1:3")


class TestPortal:
    async def test_carries_out_in_one_thread_for_everybody(self) -> None:
        closed = []

        async def on_close() -> None:
            closed.append(threading.get_ident())

        async def where() -> int:
            return threading.get_ident()

        portal = Portal(on_close)
        here = await portal.call_async(where)
        assert here != threading.get_ident()
        assert await asyncio.to_thread(portal.call, where) == here
        portal.close()
        assert closed == [here]
        assert await portal.call_async(where)
        portal.close()
        portal.close()

    async def test_errors_and_cancels_pass_through(self) -> None:
        cancelled = threading.Event()

        async def nothing() -> None: ...

        async def fail() -> None:
            raise KeyError("x")

        async def hang() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        portal = Portal(nothing)
        with pytest.raises(KeyError):
            await portal.call_async(fail)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await portal.call_async(hang)
        assert await asyncio.to_thread(cancelled.wait, 5)
        portal.close()


def test_what_may_surprise_is_logged_when_a_job_is_defined(caplog: pytest.LogCaptureFixture) -> None:
    @App().job(cron="*/7 * * * *")
    def often() -> None: ...

    (record,) = caplog.records
    assert record.name == "mainspring.jobs"
    assert "job 'often': */7 in the minute field does not come out even" in record.getMessage()


@pytest.mark.parametrize("definition", [{"run_at": "in 10m"}, {"schedule": "in 2 hours"}])
def test_a_job_is_not_defined_relative_to_each_start(definition: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="from each start of the app"):
        job_body("a", definition)


def test_a_run_is_submitted_for_an_instant_as_people_write_it() -> None:
    @App().job()
    def work() -> None: ...

    assert work.options(run_at="in 10m") is not None
    assert work.options(run_at="2026-12-01 09:00 Europe/Berlin") is not None
    with pytest.raises(InvalidInput, match="run_at"):
        work.options(run_at="soon")


def test_a_number_is_no_delay_as_it_could_be_an_argument() -> None:
    function = App().job()(print)
    with pytest.raises(InvalidInput, match=r"^delay: must be a timedelta or text like '5m', not a number"):
        function.delay(7)  # type: ignore[arg-type] # as a user of another library writes it
    with pytest.raises(InvalidInput, match=r"^delay: "):
        function.delay("ann@example.com")
    with pytest.raises(InvalidInput, match=r"^run_at: "):
        function.at("tomorrow-ish")


def test_a_client_without_a_loop_has_every_method() -> None:
    called = {name for name in dir(AsyncClient) if inspect.iscoroutinefunction(getattr(AsyncClient, name))}
    methods = {name for name in called if not hasattr(Transfers, name)}
    assert methods == {name for name in vars(SyncClient) if not name.startswith("_")}
    for name in methods:
        assert inspect.signature(getattr(AsyncClient, name)).parameters.keys() == (
            inspect.signature(getattr(SyncClient, name)).parameters.keys()
        )
