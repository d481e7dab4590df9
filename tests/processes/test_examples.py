"""The examples do what they say: each is run, and harmed where that is what it is about."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mainspring import App
from mainspring.engine.usecases.submissions import Submission
from mainspring.objects import ObjectPlace, open_streams
from mainspring.testing.manual import ManualRuntime
from tests.processes.processes import environment, server

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where annotations are looked up
    spec.loader.exec_module(module)
    return module


async def test_each_day_of_an_outage_gets_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPORTS", str(tmp_path))
    report = load("financial_report")
    async with ManualRuntime(report.app.registry) as runtime:  # Monday noon
        (body,) = [body for body in report.app.definitions() if body["name"] == "daily_report"]
        await runtime.client.jobs.create("default", body)
        worker = await runtime.worker()
        await runtime.advance(timedelta(days=9).total_seconds(), step=timedelta(days=9).total_seconds())
        for _ in range(60):  # at the pace of one a second, one day after the other
            await runtime.advance(1, step=1)
            await worker.work()
    monday = runtime.clock.now().date() - timedelta(days=9)
    days = [monday + timedelta(days=number) for number in range(1, 10)]
    expected = sorted(f"report-{day}.csv" for day in days if day.weekday() < 5)
    assert sorted(path.name for path in await asyncio.to_thread(lambda: [*tmp_path.iterdir()])) == expected


async def test_a_statement_is_kept_as_a_file(tmp_path: Path) -> None:
    statement = load("monthly_statement")
    files = open_streams(ObjectPlace("folder", str(tmp_path)), feature="", extra="")
    async with ManualRuntime(statement.app.registry, files=files) as runtime:
        (body,) = statement.app.definitions()
        made = await runtime.client.jobs.create("default", body)
        submitted = await runtime.client.runs.submit(
            "default", Submission(job_id=made.id, payload=b'{"customer": "ACME"}')
        )
        await (await runtime.worker()).work()
        [kept] = await runtime.client.artifacts.list_page("default", submitted.run_id)
        pieces = [piece async for piece in runtime.client.artifacts.read(kept, 0, kept.size)]
    assert (kept.name, kept.content_type) == ("statement-ACME.csv", "text/csv")
    assert b"".join(pieces).startswith(b"day,amount\r\n2026-01-01,")


def test_a_report_is_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPORTS", str(tmp_path))
    report = load("financial_report")
    with report.app.testing():
        handle = report.corrected_report.enqueue_sync(day=date(2026, 3, 2))
        assert handle.result_sync() == "report-2026-03-02.csv"
    assert (tmp_path / "report-2026-03-02.csv").read_text().startswith("account,balance")


def test_mails_keep_to_the_rate_and_none_goes_twice() -> None:
    mails = load("marketing_mails")
    with mails.app.testing("held", now=datetime(2026, 3, 2, 12, tzinfo=UTC)) as t:  # a Monday
        t.jump("23h")  # past Tuesday, ten o'clock in Berlin, and the jitter
        assert sorted(to for to, _ in mails.outbox) == sorted(mails.customers())
        sent = [run for run in t.runs if run.job == "newsletter_mail"]
        ends = sorted(run.finished_at for run in sent if run.finished_at is not None)
        assert len(ends) == len(sent) == 200
        assert ends[-1] - ends[0] >= timedelta(seconds=(200 - 40) / 20)


@pytest.fixture(scope="module")
def payment_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ModuleType, str, Path]]:
    payments = load("payments")
    path = tmp_path_factory.mktemp("payments") / "bank.db"
    service = payments.service(str(path), 0)
    answer = payments.PaymentHandler.answer
    broken: list[str] = []

    def break_first(handler: Any, status: int, body: dict[str, object]) -> None:
        if not broken:
            broken.append("the connection breaks after the booking, and before its answer")
            handler.close_connection = True
            return
        answer(handler, status, body)

    service.RequestHandlerClass.answer = break_first
    thread = threading.Thread(target=service.serve_forever, daemon=True)
    thread.start()
    yield payments, f"127.0.0.1:{service.server_port}", path
    service.shutdown()
    service.server_close()


def test_a_payment_is_booked_once_and_a_backup_is_made(
    tmp_path: Path, payment_service: tuple[ModuleType, str, Path]
) -> None:
    _, address, bank = payment_service
    options = ("--store", "memory://", "--callback-allow", address, "--allow-shell")
    with server(*options, cwd=tmp_path) as (_, url):
        app = App(server=url)

        def state_of(job: str, payload: object = None) -> str:
            submitted = app.sync.submit_run(job, {"payload": payload})
            return app.wait_for_sync(submitted.run_id, 30).status

        retry = {"max_retries": 10, "delay": "100ms"}
        pay = app.sync.put_job(
            {"name": "pay", "callback_url": f"http://{address}/pay", "retry": retry}
        ).job_id
        assert state_of(pay, {"order": 17, "cents": 4200}) == "SUCCEEDED"
        assert state_of(pay, {"order": 17}) == "FAILED"  # at once: 410
        command = [str(EXAMPLES / "backup.sh"), str(bank), str(tmp_path / "copies")]
        rules = {"max_retries": 3, "rules": [{"on": "exit 64-78", "then": "fail"}]}
        backup = app.sync.put_job({"name": "backup", "command": command, "retry": rules}).job_id
        assert state_of(backup) == "SUCCEEDED"
        (copy,) = (tmp_path / "copies").iterdir()
        bank.rename(bank.with_suffix(".away"))
        assert state_of(backup) == "FAILED"  # at once: exit 66
        app.close()
    with sqlite3.connect(copy) as database:
        assert database.execute('SELECT "order", cents FROM booking').fetchall() == [(17, 4200)]
    database.close()


def test_an_import_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUSTOMERS", str(tmp_path / "customers.db"))
    importing = load("long_import")
    file = tmp_path / "customers.csv"
    file.write_text("".join(f"customer {number},Ulm\n" for number in range(3500)))
    real = importing.advance

    def fail_at_the_third(database: sqlite3.Connection, name: str, before: int, after: int) -> None:
        real(database, name, before, after)
        if after == 3000:
            monkeypatch.setattr(importing, "advance", real)
            raise ConnectionError("the power is gone")

    monkeypatch.setattr(importing, "advance", fail_at_the_third)
    with importing.app.testing("held") as t:
        handle = importing.import_customers.enqueue_sync(file=str(file))
        t.work()
        assert (t.run(handle).state, importing.progress(str(file))) == ("RETRYING", 2000)
        t.run_all()
        assert handle.result_sync() == importing.progress(str(file)) == 3500
        assert t.run(handle).attempt == 2
    database = importing.open_database()
    assert database.execute("SELECT count(*), count(DISTINCT name) FROM customer").fetchone() == (3500, 3500)
    database.close()


def test_an_attempt_that_was_given_up_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUSTOMERS", str(tmp_path / "customers.db"))
    importing = load("long_import")
    database = importing.open_database()
    importing.advance(database, "f", 0, 1000)
    with pytest.raises(RuntimeError, match="another attempt goes on"):
        importing.advance(database, "f", 0, 1000)
    database.close()


def test_the_shop_of_a_celery_user_passes_its_tests(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "celery_shop", tmp_path / "shop")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "mainspring.pytest_plugin"],
        cwd=tmp_path / "shop",
        env=environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout
