"""`App.testing`: calls are carried out in the process, in order, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import socket
import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from mainspring import (
    App,
    Batch,
    Conflict,
    Debounce,
    Done,
    Failed,
    FailRun,
    InvalidInput,
    Limit,
    MainspringError,
    NotFound,
    Outcome,
    Priority,
    RetryRun,
    SnoozeRun,
    Throttle,
    Unique,
    current_attempt,
)
from mainspring.signals import Call
from mainspring.testing import START, JobFailed, OutsideCall


@pytest.fixture
def log() -> list[Any]:
    return []


@pytest.fixture
def app(log: list[Any]) -> App:
    app = App("http://127.0.0.1:1")

    @app.job()
    def note(what: object, more: int = 0) -> object:
        log.append(what)
        return what

    @app.job()
    async def note_later(what: object) -> object:
        await asyncio.sleep(0)
        log.append(what)
        return what

    @app.job(retries=2, retry={"delay": "10s", "jitter": 0})
    def fail_until(attempt: int) -> int:
        log.append(current_attempt().attempt)
        if current_attempt().attempt < attempt:
            raise ValueError(f"attempt {current_attempt().attempt}")
        return attempt

    return app


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a connection is opened. Pairs of sockets that wake event loops are none."""

    def refuse(*_: object) -> None:
        raise AssertionError("a socket was connected")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)


def job(app: App, name: str) -> Any:
    return app._functions[name]


class TestEager:
    def test_a_submission_is_carried_out_before_it_returns(self, app: App, log: list[Any]) -> None:
        with app.testing() as t:
            run = job(app, "note").enqueue_sync("a")
            assert log == ["a"]
            assert (run.get_sync().status, run.wait_sync().result) == ("SUCCEEDED", "a")
            job(app, "note_later").enqueue_sync("b")
            job(app, "note").enqueue_many_sync([["c"], {"what": "d"}])
            assert log == ["a", "b", "c", "d"]
            assert {run.state for run in t.runs} == {"SUCCEEDED"}
            assert t.now == START

    async def test_it_is_so_on_an_event_loop_in_the_same_thread(self, app: App, log: list[Any]) -> None:
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        @app.job()
        async def where() -> None:
            log.append((asyncio.get_running_loop(), threading.get_ident()))

        async with app.testing() as t:
            run = await where.enqueue()
            assert log == [(loop, thread)]
            assert (await run.wait()).status == "SUCCEEDED"
            handles = await asyncio.gather(*(job(app, "note_later").enqueue(each) for each in range(5)))
            assert sorted(log[1:]) == [0, 1, 2, 3, 4]
            assert {t.run(handle).state for handle in handles} == {"SUCCEEDED"}

    async def test_a_blocking_call_within_a_loop_works_too(self, app: App, log: list[Any]) -> None:
        with app.testing():
            job(app, "note").enqueue_sync("sync")
            job(app, "note_later").enqueue_sync("async")
        assert log == ["sync", "async"]

    async def test_a_sync_function_has_no_loop_as_in_a_worker(self, app: App, log: list[Any]) -> None:
        @app.job()
        def runs_its_own() -> None:
            async def inner() -> None:
                await job(app, "note_later").enqueue("inner")

            asyncio.run(inner())

        async with app.testing():
            await runs_its_own.enqueue()
        assert log == ["inner"]

    def test_what_a_job_submits_is_carried_out_within_it(self, app: App, log: list[Any]) -> None:
        @app.job()
        async def outer() -> None:
            log.append("begin")
            await job(app, "note").enqueue("first")
            job(app, "note_later").enqueue_sync("second")
            log.append("end")

        with app.testing() as t:
            outer.enqueue_sync()
            assert log == ["begin", "first", "second", "end"]
            assert [run.job for run in t.runs] == ["outer", "note", "note_later"]

    def test_retries_follow_the_policy_on_the_clock(self, app: App, log: list[Any]) -> None:
        with app.testing() as t:
            run = job(app, "fail_until").enqueue_sync(3)
            assert log == [1, 2, 3]
            assert t.run(run).result == 3
            assert t.now > START + timedelta(seconds=19)

    def test_the_error_of_the_last_attempt_is_raised(self, app: App, log: list[Any]) -> None:
        with app.testing() as t:
            with pytest.raises(ValueError, match="attempt 3") as raised:
                job(app, "fail_until").enqueue_sync(9)
            assert raised.value.__notes__ == [f"fail_until, {t.runs[0].id}, failed for good at attempt 3"]
            assert raised.traceback[-1].name == "fail_until"
            assert t.runs[0].state == "FAILED"

    def test_errors_are_kept_if_the_test_says_so(self, app: App) -> None:
        with app.testing(raise_errors=False) as t:
            run = job(app, "fail_until").enqueue_sync(9)
            assert (t.run(run).state, t.run(run).error) == ("FAILED", "ValueError: attempt 3")

    def test_the_job_that_submits_does_not_see_the_error(self, app: App, log: list[Any]) -> None:
        @app.job()
        def outer() -> None:
            job(app, "fail_until").enqueue_sync(9)
            log.append("unhurt")

        with app.testing() as t:
            with pytest.raises(ValueError, match="attempt 3"):
                outer.enqueue_sync()
            assert log[-1] == "unhurt"
            assert [run.state for run in t.runs] == ["SUCCEEDED", "FAILED"]

    def test_signals_mean_what_they_mean(self, app: App, log: list[Any]) -> None:
        @app.job(retries=3)
        def snooze() -> None:
            log.append(current_attempt().attempt)
            if len(log) < 4:
                raise SnoozeRun(60)

        @app.job(retries=3)
        def give_up() -> None:
            raise FailRun("no use")

        @app.job(retries=1, retry={"delay": "1s"})
        def again() -> None:
            if current_attempt().attempt == 1:
                raise RetryRun(timedelta(hours=1))

        with app.testing() as t:
            snooze.enqueue_sync()
            assert log == [1, 1, 1, 1]
            assert t.now == START + timedelta(minutes=3)
            with pytest.raises(FailRun, match="no use"):
                give_up.enqueue_sync()
            assert t.runs[-1].attempt == 1
            again.enqueue_sync()
            assert t.now >= START + timedelta(hours=1, minutes=3)

    async def test_time_limits_hold(self, app: App) -> None:
        @app.job(timeout="100ms", retries=0)
        async def hang() -> None:
            await asyncio.Event().wait()

        @app.job(timeout="100ms", retries=0)
        def block() -> None:
            threading.Event().wait(0.3)

        async with app.testing() as t:
            for function in (hang, block):
                with pytest.raises(JobFailed, match=r"timed out after 0\.1 s"):
                    await function.enqueue()
            with pytest.raises(JobFailed, match="timed out"):
                block.enqueue_sync()
            assert [run.state for run in t.runs] == ["FAILED"] * 3

    def test_what_is_for_later_waits(self, app: App, log: list[Any]) -> None:
        with app.testing() as t:
            job(app, "note").options(delay="1h").enqueue_sync("in an hour")
            job(app, "note").options(run_at=START + timedelta(minutes=1)).enqueue_sync("in a minute")
            assert log == []
            assert t.jump("59s") == 0
            assert t.jump(1) == 1
            assert log == ["in a minute"]
            assert t.jump("1d") == 1
            assert t.runs[0].finished_at == START + timedelta(hours=1)
            assert t.now == START + timedelta(days=1, minutes=1)

    def test_waiting_for_what_cannot_come_says_so(self, app: App) -> None:
        with app.testing():
            run = job(app, "note").options(delay="1h").enqueue_sync("x")
            with pytest.raises(TimeoutError, match=r"has not ended; it is PENDING. In a test .* t\.jump"):
                run.wait_sync()

    def test_a_test_that_fails_within_a_job_fails(self, app: App, log: list[Any]) -> None:
        @app.job(retries=5)
        def interrupted() -> None:
            log.append("once")
            raise KeyboardInterrupt

        with app.testing(), pytest.raises(KeyboardInterrupt):
            interrupted.enqueue_sync()
        assert log == ["once"]

    def test_a_job_that_submits_itself_for_ever_is_stopped(
        self, app: App, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("mainspring.testing.rehearsal.MOST_ATTEMPTS", 100)

        @app.job()
        def endless() -> None:
            endless.enqueue_sync()

        with app.testing() as t, pytest.raises(MainspringError, match="'endless'; does a job submit itself"):
            endless.enqueue_sync()
        assert t.mode == "eager"

    def test_calls_of_the_client_are_carried_out_too(self, app: App, log: list[Any]) -> None:
        with app.testing() as t:
            app.sync.put_job({"name": "by hand", "function": "note", "payload": ["x"], "cron": "0 13 * * *"})
            (view,) = [each for each in app.sync.jobs() if each.name == "by hand"]
            app.sync.submit_run(view.job_id)
            assert log == ["x"]
            app.sync.pause_queue("default")
            job(app, "note").enqueue_sync("paused")
            t.jump("2h")
            assert log == ["x"]
            app.sync.resume_queue("default")
            assert "paused" in log


class TestHeld:
    def test_runs_wait_until_they_are_carried_out(self, app: App, log: list[Any]) -> None:
        with app.testing("held") as t:
            job(app, "note").enqueue_sync("low")
            job(app, "note").options(priority=Priority.HIGH).enqueue_sync("high")
            run = job(app, "fail_until").enqueue_sync(2)
            assert (log, run.get_sync().status) == ([], "PENDING")
            assert t.work() == 3
            assert (log[0], run.get_sync().status, t.now) == ("high", "RETRYING", START)
            assert t.work() == 0
            assert t.run_all() == 1
            assert run.get_sync().status == "SUCCEEDED"

    def test_the_code_under_test_may_wait_for_a_run(self, app: App) -> None:
        with app.testing("held"):
            assert job(app, "fail_until").enqueue_sync(2).wait_sync(timeout=60).result == 2

    def test_all_includes_what_is_for_later(self, app: App, log: list[Any]) -> None:
        with app.testing("held") as t:
            job(app, "note").options(delay="30d").enqueue_sync("late")
            t.run_all()
            assert (log, t.now) == (["late"], START + timedelta(days=30))


class TestTime:
    def test_schedules_fire_in_order_at_their_instants(self, app: App, log: list[Any]) -> None:
        @app.job(cron="0 9 * * *", tz="Europe/Berlin")
        def daily() -> None:
            log.append(("daily", current_attempt().fire_at))

        @app.job(every="8h")
        def thrice() -> None:
            log.append(("thrice", current_attempt().fire_at))

        with app.testing(now=datetime(2026, 3, 28, 12, tzinfo=UTC)) as t:
            assert t.jump("1d") == 4
            assert [name for name, _ in log].count("thrice") == 3
            assert log == sorted(log, key=lambda entry: entry[1])
            assert ("daily", datetime(2026, 3, 29, 7, tzinfo=UTC)) in log, "the clocks have changed"
            assert t.enqueued() == []

    def test_a_year_passes_quickly(self, app: App) -> None:
        @app.job(cron="0 9 1 * *")
        def monthly() -> None: ...

        with app.testing() as t:
            assert t.jump("365d") == 12

    def test_keys_and_runs_outlast_a_jump(self, app: App) -> None:
        with app.testing() as t:
            job(app, "note").enqueue_sync("old")
            t.jump("3000d")
            assert t.enqueued("note")

    @pytest.mark.parametrize(
        ("jump", "field"), [("1x", "jump"), (-1, "jump"), (timedelta(days=-1), "jump"), (None, "jump")]
    )
    def test_a_wrong_jump_is_refused(self, app: App, jump: Any, field: str) -> None:
        with app.testing() as t, pytest.raises(InvalidInput) as refused:
            t.jump(jump)
        assert refused.value.field == field

    async def test_instants_are_jumped_to(self, app: App) -> None:
        async with app.testing() as t:
            await t.jump_to("2026-01-06T09:00:00+01:00")
            assert t.now == datetime(2026, 1, 6, 8, tzinfo=UTC)
            with pytest.raises(InvalidInput, match="backwards"):
                await t.jump_to(START)

    def test_a_job_does_not_move_the_clock(self, app: App) -> None:
        with app.testing() as t:

            @app.job(retries=0)
            def jump() -> None:
                t.jump("1d")

            with pytest.raises(MainspringError, match=r"jump\(\) was called within a job"):
                jump.enqueue_sync()


class TestPolicies:
    def test_what_runs_once(self, app: App, log: list[Any]) -> None:
        @app.job(unique=Unique("$.x", on_conflict="reject"))
        def only(x: int) -> None:
            log.append(x)

        @app.job(debounce=Debounce(wait="5s"))
        def settled(x: int) -> None:
            log.append(x)

        @app.job(throttle=Throttle(limit=1, per="1h"))
        def rarely(x: int) -> None:
            log.append(x)

        with app.testing("held") as t:
            only.enqueue_sync(1)
            with pytest.raises(Conflict):
                only.enqueue_sync(1)
            for each in (2, 3):
                settled.enqueue_sync(each)
                rarely.enqueue_sync(each + 10)
            t.jump("5s")
        assert log == [1, 12, 3]

    def test_a_key_makes_one_run_of_two_submissions(self, app: App, log: list[Any]) -> None:
        with app.testing() as t:
            submit = job(app, "note").options(idempotency_key="k")
            assert submit.enqueue_sync("a") == submit.enqueue_sync("a")
            with pytest.raises(Conflict):
                submit.enqueue_sync("b")
            t.jump("2d")
            submit.enqueue_sync("b")
        assert log == ["a", "b"]

    def test_batches_wait_for_each_other(self, app: App, log: list[Any]) -> None:
        @app.job(batch=Batch(size=3, wait="2s"))
        def many(calls: list[Call]) -> list[Outcome]:
            log.append([call.payload for call in calls])
            return [Failed("no", retry=False) if call.payload == 9 else Done() for call in calls]

        with app.testing(raise_errors=False) as t:
            many.enqueue_many_sync([[1], [2], [3], [9]])
            assert log == [[1, 2, 3]]
            t.assert_enqueued(many, 9, times=1)
            assert t.now == START
            t.jump("2s")
            assert log == [[1, 2, 3], [9]]
            assert [run.state for run in t.enqueued(many)] == ["SUCCEEDED"] * 3 + ["FAILED"]

    def test_limits_hold(self, app: App, log: list[Any]) -> None:
        @app.job(concurrency=Limit(limit=1))
        def alone(depth: int) -> None:
            if depth:
                alone.enqueue_sync(depth - 1)
            log.append(depth)

        @app.job(rate="1/m")
        def slow(x: int) -> None:
            log.append(x)

        with app.testing() as t:
            alone.enqueue_sync(2)
            assert log == [2, 1, 0], "the place is free only after each"
            slow.enqueue_many_sync([[7], [8], [9]])
            assert log[3:] == [7]
            t.jump("125s")
            assert log[3:] == [7, 8, 9]

    def test_jobs_get_the_labels_that_they_ask_for(self, app: App, log: list[Any]) -> None:
        @app.job(labels=("gpu",))
        def paint() -> None:
            log.append("painted")

        with app.testing():
            paint.enqueue_sync()
        assert log == ["painted"]


class TestOutside:
    BODY: ClassVar = {"name": "hook", "callback_url": "https://example.com/hook", "retry": {"max_retries": 1}}

    def test_callbacks_are_recorded_and_answered(self, app: App) -> None:
        answers: list[Any] = [503, (200, "fine")]

        def answer(call: OutsideCall) -> Any:
            return answers.pop(0)

        with app.testing(http=answer) as t:
            view = app.sync.put_job({**self.BODY, "payload": {"a": 1}})
            app.sync.submit_run(view.job_id)
            assert [(call.params["url"], call.attempt, call.payload) for call in t.calls] == [
                ("https://example.com/hook", 1, {"a": 1}),
                ("https://example.com/hook", 2, {"a": 1}),
            ]
            assert (t.runs[0].state, t.runs[0].output) == ("SUCCEEDED", "fine")

    def test_without_an_answer_they_are_refused(self, app: App) -> None:
        with app.testing() as t:
            for body in (self.BODY, {"name": "command", "command": ["true"]}):
                view = app.sync.put_job(body)
                with pytest.raises(JobFailed, match=r"give an answer: app\.testing\("):
                    app.sync.submit_run(view.job_id)
            assert [call.type for call in t.calls] == ["http", "shell"]

    def test_what_an_answer_raises_is_raised(self, app: App) -> None:
        def answer(call: OutsideCall) -> int:
            raise ConnectionError("gone")

        with app.testing(shell=answer, http=lambda call: 410):
            view = app.sync.put_job({"name": "command", "command": ["true"], "retry": {"max_retries": 0}})
            with pytest.raises(ConnectionError):
                app.sync.submit_run(view.job_id)
            view = app.sync.put_job(self.BODY)
            with pytest.raises(JobFailed, match="response status 410"):
                app.sync.submit_run(view.job_id)


class TestAssertions:
    def test_arguments_that_are_not_named_do_not_matter(self, app: App) -> None:
        with app.testing() as t:
            job(app, "note").enqueue_sync("a", more=1)
            job(app, "note").enqueue_sync(what="a", more=2)
            t.assert_enqueued("note", what="a", times=2)
            t.assert_enqueued(job(app, "note"), "a", more=2, times=1)
            t.assert_enqueued("note")
            t.assert_not_enqueued("note", "b")
            t.assert_not_enqueued("note_later")
            assert [run.payload for run in t.enqueued("note", more=2)] == [{"what": "a", "more": 2}]

    def test_arguments_and_results_are_as_the_annotations_say(self, app: App) -> None:
        @app.job()
        def pay(when: date, amount: Decimal = Decimal(1)) -> Decimal:
            return amount * when.day

        @app.job(batch=Batch(size=2, wait="0s"))
        def many(calls: list[Call[date]]) -> list[Outcome]:
            return [Done(call.payload.day) for call in calls]

        with app.testing() as t:
            run = pay.enqueue_sync(date(2026, 2, 3), amount=Decimal("1.50"))
            assert run.result_sync() == Decimal("4.50")
            t.assert_enqueued(pay, date(2026, 2, 3), times=1)
            t.assert_enqueued("pay", amount=Decimal("1.50"))
            t.assert_not_enqueued(pay, when=date(2026, 2, 4))
            with pytest.raises(InvalidInput, match="amount"):
                t.assert_enqueued(pay, amount=[])
            many.enqueue_sync(date(2026, 2, 5))
            t.assert_enqueued(many, date(2026, 2, 5))
            t.assert_not_enqueued(many, date(2026, 2, 6))

    def test_messages_say_what_was_enqueued(self, app: App) -> None:
        with app.testing("held") as t:
            with pytest.raises(
                AssertionError, match=r"^note\('b'\) was not enqueued\. Nothing was enqueued\.$"
            ):
                t.assert_enqueued("note", "b")
            job(app, "note").enqueue_sync("a")
            job(app, "note_later").options(delay="1h").enqueue_sync(what=1)
            with pytest.raises(AssertionError) as raised:
                t.assert_enqueued("note_later", what=1, times=2)
            assert str(raised.value).splitlines() == [
                "note_later(what=1) was enqueued once, not 2 times.",
                "Enqueued were:",
                "  note_later(what=1)  PENDING, due 2026-01-05 13:00:00 UTC",
                "  note('a')  PENDING",
            ]
            with pytest.raises(
                AssertionError, match=r"^note\(\) was enqueued once, but should not have been\."
            ):
                t.assert_not_enqueued("note")

    def test_what_is_misspelled_is_refused(self, app: App) -> None:
        with app.testing() as t:
            with pytest.raises(InvalidInput, match="no job 'nothing'; it has fail_until, note, note_later"):
                t.assert_not_enqueued("nothing")
            with pytest.raises(TypeError, match="note: got an unexpected keyword argument 'wath'"):
                t.assert_not_enqueued("note", wath=1)
            with pytest.raises(TypeError, match="give a job's function or its name, not int"):
                t.assert_enqueued(3)  # type: ignore[arg-type]
            with pytest.raises(InvalidInput, match="no run 'run_1'"):
                t.run("run_1")


class TestBlock:
    def test_leaving_restores_the_app(self, app: App) -> None:
        with pytest.raises(KeyError), app.testing():
            raise KeyError
        assert app.stage is None
        with app.testing() as t:
            assert t.runs == []

    async def test_one_block_at_a_time(self, app: App) -> None:
        with app.testing():
            with pytest.raises(InvalidInput, match="being tested already"):
                app.testing().__enter__()
            with pytest.raises(InvalidInput, match="being tested already"):
                async with app.testing():
                    pass
            assert app.stage is not None
        async with app.testing():
            pass

    @pytest.mark.parametrize(
        ("options", "field"),
        [({"mode": "lazy"}, "mode"), ({"raises": True}, "raises"), ({"now": datetime(2026, 1, 1)}, "now")],  # noqa: DTZ001 -- refused for that
    )
    def test_wrong_options_are_refused(self, app: App, options: dict[str, Any], field: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            app.testing(**options)
        assert refused.value.field == field

    def test_jobs_of_the_block_and_wrong_arguments(self, app: App, log: list[Any]) -> None:
        with app.testing():

            @app.job()
            def new(x: int) -> None:
                log.append(x)

            new.enqueue_sync(1)
            with pytest.raises(InvalidInput, match="does not fit 'new'"):
                new.enqueue_sync(y=1)  # type: ignore[call-arg]
            with pytest.raises(NotFound):
                app.submit_sync("absent", [None])
        assert log == [1]

    async def test_transactions_are_refused(self, app: App) -> None:
        connection: Any = object()
        options = job(app, "note").options(connection=connection)
        async with app.testing():
            for submit in (options.enqueue_sync, app.complete_sync):
                with pytest.raises(InvalidInput, match=r"connection: app\.testing.* keeps runs in memory"):
                    submit(connection)
            for begin in (options.enqueue, app.complete):
                with pytest.raises(InvalidInput, match=r"connection: app\.testing.* keeps runs in memory"):
                    await begin(connection)

    def test_nothing_is_printed(self, app: App, capfd: pytest.CaptureFixture[str]) -> None:
        with app.testing() as t:
            job(app, "note").enqueue_sync("x")
            with pytest.raises(ValueError, match="attempt 3"):
                job(app, "fail_until").enqueue_sync(9)
            t.jump("1h")
        assert capfd.readouterr() == ("", "")
