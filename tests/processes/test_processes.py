"""The command line as it is used: real processes on loopback."""

import json
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes.processes import Running, command, environment, run, running, server

EXAMPLES = Path(__file__).parents[2] / "examples"
APP = """
import os
from mainspring import App, current_attempt

app = App()


@app.job(name="add", retries=1)
def add(x: int, y: int = 1) -> int:
    return x + y


@app.job(name="mail", throttle={"key": "$.customer", "limit": 1, "per": "1h"})
def mail(customer: str) -> None: ...


@app.job(name="tick", every="1s")
async def tick() -> int:
    return os.getpid()


@app.job(name="chain")
async def chain(x: int) -> str:
    run = await add.options(priority="HIGH").enqueue(x, y=x)
    return run.id


@app.job(name="slow", queue="slow", retry={"max_retries": 0})
async def slow(folder: str) -> None:
    import asyncio, pathlib
    pathlib.Path(folder, "began").touch()
    await asyncio.sleep(1.5)
    pathlib.Path(folder, "ended").touch()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def answer(*arguments: object, url: str, code: int = 0) -> Any:
    done = run(*arguments, "--server", url, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def await_file(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.02)


def errors_of(folder: Path) -> str:
    return (folder / "stderr.log").read_text()


def test_up_with_an_app_runs_its_jobs(folder: Path) -> None:
    with server("shop:app", "--data", "data", cwd=folder) as (process, url):
        done = answer("job", "run", "add", "--payload", '{"x": 2, "y": 3}', "--wait", 20, url=url)
        assert (done["status"], done["result"]) == ("SUCCEEDED", 5)
        chained = answer("job", "run", "chain", "--payload", '{"x": 4}', "--wait", 20, url=url)
        assert chained["status"] == "SUCCEEDED", chained
        child = answer("run", "show", chained["result"], url=url)
        assert (child["payload"], child["priority"]) == ({"x": 4, "y": 4}, "HIGH")
        names = [job["name"] for job in answer("job", "list", url=url)["items"]]
        assert names == ["add", "mail", "tick", "chain", "slow"]
        assert process.stop() == 0
    assert "Traceback" not in errors_of(folder)
    with server("shop:app", "--data", "data", cwd=folder) as (
        process,
        url,
    ):  # nothing is doubled by a restart
        assert [job["name"] for job in answer("job", "list", url=url)["items"]] == names
        assert process.stop(signal.SIGINT) == 0


@pytest.mark.timeout(180)
def test_a_worker_of_its_own_and_the_ways_of_jobs_and_runs(folder: Path) -> None:
    with (
        server("--store", "memory://", "--slots", 0, cwd=folder) as (_, url),
        running("worker", "shop:app", "--server", url, "--name", "w1", cwd=folder) as worker,
    ):
        worker.wait_for("ready")
        done = answer("job", "run", "add", "--payload", '{"x": 1}', "--wait", 20, url=url)
        assert done["result"] == 2
        failed = answer("job", "run", "add", "--payload", '{"z": 1}', "--wait", 20, url=url, code=3)
        assert failed["status"] == "FAILED"
        assert failed["attempts"][0]["worker"] == "w1"

        first = answer("job", "run", "add", "--payload", "[1]", "--key", "k", url=url)
        again = answer("job", "run", "add", "--payload", "[1]", "--key", "k", url=url)
        assert (again["run_id"], first["is_new"], again["is_new"]) == (first["run_id"], True, False)

        later = answer("job", "run", "add", "--payload", "[1]", "--run-at", "2099-01-01T00:00:00Z", url=url)
        assert answer("run", "cancel", later["run_id"], url=url) == [
            {"run_id": later["run_id"], "result": "cancelled"}
        ]
        assert answer("run", "show", later["run_id"], url=url)["status"] == "CANCELLED"
        cancelled = answer("run", "list", "--state", "cancelled", "--job", "add", url=url)
        assert [each["run_id"] for each in cancelled["items"]] == [later["run_id"]]

        delayed = answer("job", "run", "add", "--payload", "[1]", "--delay", "1h", url=url)
        unknown = "run_00000000fffff"
        both = answer("run", "cancel", unknown, delayed["run_id"], unknown, url=url, code=2)
        assert both == [{"run_id": delayed["run_id"], "result": "cancelled"}]
        delayed = answer("job", "run", "add", "--payload", "[1]", "--delay", "1h", url=url)
        shown = answer("run", "show", delayed["run_id"], url=url)
        assert (shown["status"], shown["due_at"] > shown["created_at"]) == ("PENDING", True)
        waiting = run("job", "run", "add", "--payload", "[1]", "--delay", "1h", "--wait", 0, "--server", url)
        assert waiting.returncode == 4
        assert waiting.stderr.endswith(" has not ended after 0 s; it is PENDING\n")
        refused = run("job", "run", "add", "--delay", "soon", "--server", url)
        assert refused.returncode == 2
        assert "delay: must be seconds or text like '90s'" in refused.stderr

        assert answer("job", "pause", "tick", url=url)["is_paused"] is True
        assert answer("job", "resume", "tick", url=url)["is_paused"] is False
        added = answer("job", "add", "again", "--function", "add", "--every", "90s", "--retries", 7, url=url)
        assert (added["trigger"]["every_seconds"], added["retry"]["max_retries"]) == (90, 7)
        assert answer("job", "show", added["job_id"], url=url)["name"] == "again"
        ledger = run("ledger", "again", "--server", url)
        assert (ledger.returncode, ledger.stderr) == (0, "")
        # The page must not be read as a day's worth where the job was changed a moment ago.
        start = added["created_at"][:19].replace("T", " ")
        assert ledger.stdout.startswith(f"again, since {start}")
        assert ledger.stdout.endswith(" 0 missing, 0 surplus\n")
        assert answer("job", "rm", "again", url=url)["deleted"] is True
        assert run("job", "show", "again", "--server", url).returncode == 2

        for arguments in (
            ("job", "list"),
            ("job", "show", "add"),
            ("run", "list", "--limit", 1000),  # every second of a busy host adds one of another job
            ("run", "show", failed["run_id"]),
        ):
            shown = run(*arguments, "--server", url)
            assert (shown.returncode, shown.stderr) == (0, "")
            assert "add" in shown.stdout
        assert worker.stop() == 0
    assert "Traceback" not in errors_of(folder)


def test_a_submission_that_makes_no_run_says_so(folder: Path) -> None:
    with server("shop:app", "--store", "memory://", cwd=folder) as (_, url):
        mail = ("job", "run", "mail", "--payload", '{"customer": 1}', "--server", url)
        first, again = run(*mail), run(*mail, "--wait", 20)
        assert (first.returncode, again.returncode) == (0, 0)
        assert again.stdout == f"{first.stdout.strip()}  throttled\n"
        shown = answer("job", "run", "mail", "--payload", '{"customer": 2}', url=url)
        assert shown["status"] == "submitted"
        held = answer("job", "add", "sync", "--function", "add", "--unique", "$.order", url=url)
        assert held["unique"]["key"] == "$.order"
        refused = run("job", "run", "sync", "--payload", "{}", "--server", url)
        assert refused.returncode == 2
        assert "payload.order: is missing; unique.key needs it" in refused.stderr


def test_a_stop_waits_for_what_is_under_way(folder: Path) -> None:
    with (
        server("--data", "data", "--slots", 0, cwd=folder) as (up, url),
        running("worker", "shop:app", "--server", url, "--queue", "slow", cwd=folder) as worker,
    ):
        worker.wait_for("ready")
        submitted = answer("job", "run", "slow", "--payload", json.dumps([str(folder)]), url=url)
        await_file(folder / "began")
        assert worker.stop() == 0
        assert (folder / "ended").exists()
        assert answer("run", "show", submitted["run_id"], url=url)["status"] == "SUCCEEDED"
        assert up.stop() == 0


def test_a_second_signal_ends_at_once(folder: Path) -> None:
    with server("shop:app", "--data", "data", cwd=folder) as (up, url):
        answer("job", "run", "slow", "--payload", json.dumps([str(folder)]), url=url)
        await_file(folder / "began")
        up.process.send_signal(signal.SIGTERM)
        up.wait_for("stopping")
        assert up.stop(signal.SIGINT) == 130
        assert not (folder / "ended").exists()


def test_a_crontab_runs_for_real(folder: Path) -> None:
    effects = folder / "effects"
    effects.mkdir()
    text = (EXAMPLES / "crontab.seconds").read_text()
    for name, value in (("EXAMPLES", EXAMPLES), ("EFFECTS_DIR", effects)):
        text = "\n".join(
            f"{name}={value}" if line.startswith(f"{name}=") else line for line in text.split("\n")
        )
    (folder / "crontab").write_text(text)
    with server("--data", "data", "--allow-shell", cwd=folder) as (up, url):
        arguments = ("import", "crontab", folder / "crontab", "--seconds")
        preview = answer(*arguments, url=url)
        assert (len(preview["entries"]), preview["results"]) == (8, [])
        assert answer("job", "list", url=url) == {"items": [], "next": None}
        results = answer(*arguments, "--yes", url=url)["results"]
        assert {each["result"] for each in results} == {"created"}
        results = answer(*arguments, "--yes", url=url)["results"]
        assert {each["result"] for each in results} == {"unchanged"}
        await_file(effects / "shell-poll-orders.log")
        await_file(effects / "shell-push-metrics.log")
        assert up.stop() == 0
    fields = (effects / "shell-poll-orders.log").read_text().splitlines()[0].split()
    assert (fields[0], fields[1], fields[3]) == ("start", "poll-orders", "1")
    assert fields[2].startswith("run_")
    assert len(fields) == 8


def test_a_crontab_with_a_fault_changes_nothing(folder: Path) -> None:
    with server("--store", "memory://", "--allow-shell", cwd=folder) as (_, url):
        text = "0 1 * * * good\n61 * * * * bad\n"
        done = run("import", "crontab", "-", "--yes", "--server", url, text=text)
        assert done.returncode == 2
        assert "error: line 2: minute: " in done.stderr
        assert answer("job", "list", url=url) == {"items": [], "next": None}
        answer("job", "add", "good", "--callback-url", "https://example.com/", url=url)
        done = run("import", "crontab", "-", "--yes", "--server", url, text="0 1 * * * good\n")
        assert done.returncode == 2
        assert answer("job", "show", "good", url=url)["target"]["type"] == "http"


def test_a_server_stops_while_a_worker_waits_for_work(folder: Path) -> None:
    with (
        server("--data", "data", cwd=folder) as (up, url),
        running("worker", "shop:app", "--server", url, cwd=folder) as worker,
    ):
        worker.wait_for("ready")
        begin = time.monotonic()
        assert up.stop() == 0
        assert time.monotonic() - begin < 5
        assert worker.stop() == 0
    assert "Traceback" not in errors_of(folder)


def test_shell_is_off_unless_allowed(folder: Path) -> None:
    with server("--store", "memory://", cwd=folder) as (_, url):
        done = run("job", "add", "x", "--command", '["true"]', "--server", url)
        assert done.returncode == 2
        assert "--allow-shell" in done.stderr
        done = run("import", "crontab", "-", "--yes", "--server", url, text="0 1 * * * good\n")
        assert done.returncode == 2
        assert "line 1" in done.stderr


def test_two_processes_do_not_share_a_folder_or_port(folder: Path) -> None:
    with server("--data", "data", cwd=folder) as (_, url):
        second = run("up", "--data", "data", "--port", 0, cwd=folder)
        third = run("up", "--data", "other", "--port", url.rpartition(":")[2], cwd=folder)
    for done in (second, third):
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
    assert "in use" in second.stderr
    assert "in use" in third.stderr
    assert not (folder / "other").exists()


def test_up_makes_a_data_folder_for_its_own_user_alone(folder: Path) -> None:
    with server("--data", "new/data", cwd=folder):
        data = folder / "new" / "data"
        assert {path.stat().st_mode & 0o777 for path in data.iterdir() if path.is_file()} == {0o600}
        assert data.stat().st_mode & 0o777 == 0o700


WAY_ON = "mainspring up, which starts one, or --server with the address of yours"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("up", "--host", "0.0.0.0"), 2, "host: 0.0.0.0 is not a loopback address"),
        (("up", "--port", 70000), 2, "port: "),
        (("up", "--data", "a", "--store", "memory://"), 2, "store: "),
        (("up", "--store", "mysql://x"), 2, "store: "),
        (("up", "--port", 0, "--data", "shop.py"), 2, "data: shop.py is a file; give a folder"),
        (("up", "--port", 0, "--data", "shop.py/x"), 2, "data: shop.py is a file; give a folder"),
        (("up", "--port", 0, "--store", "sqlite://shop.py"), 2, "store: shop.py is a file; give a folder"),
        (("up", "--port", 0, "--data", "/proc/foo"), 2, "data: the folder /proc/foo cannot be made"),
        (("up", "absent:app"), 2, "MODULE:APP: "),
        (("worker", "--slots", 0), 2, "slots: "),
        (("worker", "--store", "sqlite:///x"), 2, "store: "),
        (("worker", "--queue", "a b"), 2, "queue: "),
        (("worker", "--server", "nonsense"), 2, "server: "),
        (("job", "list"), 1, "no answer from http://127.0.0.1:9"),
        (("job", "run", "x", "--wait", 1), 1, "no answer from http://127.0.0.1:9"),
        (("job", "add", "--body", "-"), 2, "body: is not JSON"),
        (("job", "add", "x", "--command", "[ls"), 2, "command: is not JSON"),
        (("job", "run", "x", "--payload", "{"), 2, "payload: is not JSON"),
        (("job", "run", "x", "--wait", -1), 2, "wait: must be 0 or more seconds, not '-1'"),
        (("job", "run", "x", "--wait", "nan"), 2, "wait: must be 0 or more seconds, not 'nan'"),
        (("job", "run", "x", "--wait"), 2, "Option '--wait' requires an argument"),
        (("run", "show", "../counts"), 2, "run: "),
        (("import", "crontab", "absent"), 2, "file: absent: "),
        (("next", "* * * *"), 2, "schedule: "),
        (("next", "* * * * *", "--tz", "Mars"), 2, "tz: "),
        (("next", "* * * * *", "--after", "now"), 2, "after: "),
        (("next", "0 0 30 2 *"), 2, "schedule: day of month: "),
        (("nonsense",), 2, "No such command"),
        (("next",), 2, "Missing argument"),
    ],
)
def test_what_is_refused_is_one_line(
    folder: Path, arguments: tuple[object, ...], code: int, said: str
) -> None:
    done = run(*arguments, cwd=folder, MAINSPRING_SERVER="http://127.0.0.1:9")
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    if not said[0].isupper() or said.startswith("MODULE"):
        assert done.stderr.startswith(f"error: {said}")
        further = done.stderr.splitlines()[1:]
        assert further in ([], [f"Try: {WAY_ON}"])


def test_a_crontab_that_is_not_utf8_is_refused(folder: Path) -> None:
    (folder / "crontab").write_bytes(b"0 1 * * * caf\xe9\n")
    done = run("import", "crontab", "crontab", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == "error: file: crontab is not UTF-8: byte 13 is 0xe9\n"


def test_a_reader_that_goes_away_gets_no_complaint(folder: Path) -> None:
    arguments = command("next", "* * * * * *", "--count", 10_000)
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(20) == 1


def test_a_worker_waits_for_its_server_and_can_be_stopped_meanwhile(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with running("worker", "shop:app", "--server", f"http://127.0.0.1:{port}", cwd=folder) as worker:
        deadline = time.monotonic() + 20
        while "register_failed" not in errors_of(folder):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert worker.stop() == 0
        assert_quiet(worker)


def assert_quiet(worker: Running) -> None:
    assert worker.process.stdout is not None
    assert worker.process.stdout.read() == ""


def test_help_is_quick(folder: Path) -> None:
    best = 9.0
    for _ in range(5):
        start = time.perf_counter()
        done = run("--help")
        best = min(best, time.perf_counter() - start)
        assert done.returncode == 0
    print(f"mainspring --help: {best * 1000:.0f} ms")
    assert best < 0.5


@pytest.mark.postgres
def test_a_worker_straight_on_postgresql(folder: Path, postgres_database: str) -> None:
    with (
        server("--store", postgres_database, "--slots", 0, cwd=folder) as (up, url),
        running("worker", "shop:app", "--store", postgres_database, cwd=folder) as worker,
    ):
        worker.wait_for("ready")
        done = answer("job", "run", "add", "--payload", "[1]", "--wait", 20, url=url)
        assert done["result"] == 2
        assert worker.stop() == 0
        assert up.stop() == 0
    assert "Traceback" not in errors_of(folder)


def test_a_database_that_is_not_there(folder: Path) -> None:
    done = run("up", "--store", "postgresql://nobody:secret@127.0.0.1:9/none", "--port", 0, cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "secret" not in done.stderr
