"""docs/howto/keep-the-file-that-a-run-made.md, done: with real servers and workers, a folder and a bucket."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import App
from mainspring.sdk.runs import RunHandle
from tests.processes.processes import Running, await_that, run, running
from tests.support.buckets import bucket_server

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "keep-the-file-that-a-run-made.md").read_text()
pytestmark = [pytest.mark.slow, pytest.mark.timeout(580)]
LARGE = 200_000_000
APP = """
import hashlib
import io
from pathlib import Path

from mainspring import App, current_attempt

app = App()
HERE = Path(__file__).parent


@app.job(retry={"max_retries": 1})
async def several():
    attempt = current_attempt()
    (HERE / "made.csv").write_text("a,b\\n1,2\\n")
    await attempt.artifact("table.csv", HERE / "made.csv")
    await attempt.artifact("plots/Größe.bin", b"\\x00\\x01")
    return await attempt.artifact("stream.txt", io.BytesIO(b"streamed"), content_type="text/plain")


@app.job(retry={"max_retries": 1})
def in_thread():
    return current_attempt().artifact_sync("thread.txt", b"from a thread")


@app.job(retry={"max_retries": 1})
def large_result():
    return {"rows": ["x" * 100] * 2000}


@app.job(retry={"max_retries": 1})
async def large_result_async():
    return ["y" * 100] * 2000


@app.job(retry={"max_retries": 1})
async def deadly():
    mark = HERE / "first"
    if mark.exists():
        return await current_attempt().artifact("out.bin", b"second")
    mark.write_text("")
    return await current_attempt().artifact("out.bin", HERE / "large.bin")


@app.job(retry={"max_retries": 1})
async def large():
    return await current_attempt().artifact("large.bin", HERE / "large.bin")


@app.job(retry={"max_retries": 1})
async def odd(name):
    return await current_attempt().artifact(name, b"x")
"""


class Site:
    """A server, and how to ask it."""

    def __init__(self, folder: Path, process: Running, url: str) -> None:
        self.folder, self.process, self.url = folder, process, url

    def ask(self, *arguments: object) -> Any:
        """Return the JSON that a command prints."""
        done = run(*arguments, "--server", self.url, "--json", cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def do(self, job: str, payload: object = None, *, wait: bool = True) -> dict[str, Any]:
        """Run a job, and return its run as it is afterwards."""
        given = () if payload is None else ("--payload", json.dumps(payload))
        waiting = ("--wait", 60) if wait else ()
        done = run("job", "run", job, *given, *waiting, "--server", self.url, "--json", cwd=self.folder)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def files(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Return the files of a run by name."""
        return {one["name"]: one for one in self.ask("artifact", "list", run_id)}

    def fetch(self, artifact_id: str, name: str = "fetched") -> bytes:
        """Fetch a file."""
        done = run("artifact", "get", artifact_id, "-o", name, "--server", self.url, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return (self.folder / name).read_bytes()


@contextlib.contextmanager
def site(folder: Path, place: object, **more: str) -> Iterator[Site]:
    """Start a server without slots."""
    (folder / "jobs.py").write_text(APP)
    started = (
        "up",
        "--port",
        0,
        "--slots",
        0,
        "--artifacts-url",
        place,
        "--beat-period",
        "1s",
        "--allow-shell",
    )
    with running(*started, cwd=folder, **more) as process:
        yield Site(folder, process, process.wait_for("listening on "))


@contextlib.contextmanager
def worker(of: Site, *options: object) -> Iterator[Running]:
    """Start a worker that has no keys of a bucket, and wait until it is there."""
    given = ("worker", "jobs:app", "--server", of.url, "--allow-shell", *options)
    with running(*given, cwd=of.folder) as process:
        process.wait_for("ready")
        yield process


def peak_of(process: Running) -> int:
    """Return the most memory that a process has had, in bytes."""
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    [found] = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found) * 1024


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    if request.param == "folder":
        (tmp_path / "files").mkdir()
        yield str(tmp_path / "files"), {}
    else:
        with bucket_server("files", log=tmp_path / "moto.log") as variables:
            yield "s3://files/of-runs", variables


def test_files_of_functions_and_commands_are_kept(place: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    with site(tmp_path, place[0], **place[1]) as of, worker(of):
        done = of.do("several")
        assert done["status"] == "SUCCEEDED", done
        files = of.files(done["run_id"])
        assert {name: (one["size"], one["content_type"]) for name, one in files.items()} == {
            "plots/Größe.bin": (2, "application/octet-stream"),
            "stream.txt": (8, "text/plain"),
            "table.csv": (8, "text/csv"),
        }
        assert done["result"] == files["stream.txt"]["artifact_id"]
        assert of.fetch(files["table.csv"]["artifact_id"]) == b"a,b\n1,2\n"
        assert of.fetch(files["plots/Größe.bin"]["artifact_id"]) == b"\x00\x01"
        done = of.do("in_thread")
        assert of.fetch(done["result"]) == b"from a thread"
        made = run(
            *("job", "add", "pack", "--server", of.url, "--shell", "--command"),
            'mkdir "$MAINSPRING_ARTIFACTS/logs" && echo 1 > "$MAINSPRING_ARTIFACTS/logs/a.log"'
            ' && echo 22 > "$MAINSPRING_ARTIFACTS/b.txt"',
            cwd=tmp_path,
        )
        assert made.returncode == 0, made.stderr
        done = of.do("pack")
        assert done["status"] == "SUCCEEDED", done
        assert sorted(of.files(done["run_id"])) == ["b.txt", "logs/a.log"]
        done = of.do("odd", {"name": "../../etc/passwd"})
        assert (done["status"], "begins with a dot" in done["error"]) == ("FAILED", True)


def test_large_results_are_fetched_from_where_they_are(
    place: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    with site(tmp_path, place[0], **place[1]) as of, worker(of):
        for function, expected in (
            ("large_result", {"rows": ["x" * 100] * 2000}),
            ("large_result_async", ["y" * 100] * 2000),
        ):
            done = of.do(function)
            text = json.dumps(expected, separators=(",", ":")).encode()
            assert done["result"] == {
                "$artifact": done["result"]["$artifact"],
                "size": len(text),
                "sha256": hashlib.sha256(text).hexdigest(),
            }
            app = App(server=of.url)
            try:
                assert RunHandle(app, done["run_id"]).result_sync(0) == expected
            finally:
                app.close()
            assert list(of.files(done["run_id"])) == [".result.json"]


def test_a_worker_that_is_killed_in_an_upload_shows_nothing(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    with (tmp_path / "large.bin").open("wb") as large:
        large.truncate(LARGE)
    with site(tmp_path, files) as of:
        with worker(of) as first:
            started = of.do("deadly", wait=False)
            await_that(
                "a part of the file is there",
                lambda: any(part.stat().st_size for part in files.rglob("*.part")),
            )
            of.process.process.send_signal(signal.SIGSTOP)
            first.stop(signal.SIGKILL)
        [part] = files.rglob("*.part")
        assert 0 < part.stat().st_size < LARGE
        of.process.process.send_signal(signal.SIGCONT)
        assert of.files(started["run_id"]) == {}
        with worker(of):
            await_that(
                "the run has ended",
                lambda: of.ask("run", "show", started["run_id"])["status"] == "SUCCEEDED",
            )
        kept = of.files(started["run_id"])
        assert list(kept) == ["out.bin"]
        assert of.fetch(kept["out.bin"]["artifact_id"]) == b"second"
        assert [one for one in files.rglob("*") if one.is_file() and one.name.endswith(".part")] == []


def test_a_large_file_takes_little_memory(place: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    block = bytes(range(256)) * 4096
    with (tmp_path / "large.bin").open("wb") as large:
        for _ in range(LARGE // len(block)):
            large.write(block)
    size = LARGE // len(block) * len(block)
    with site(tmp_path, place[0], **place[1]) as of, worker(of) as working:
        of.do("in_thread")  # what the first upload loads is not the large one's
        before = peak_of(of.process), peak_of(working)
        done = of.do("large")
        assert done["status"] == "SUCCEEDED", done
        grown = peak_of(of.process) - before[0], peak_of(working) - before[1]
        [kept] = of.files(done["run_id"]).values()
        assert kept["size"] == size
        assert hashlib.sha256(of.fetch(kept["artifact_id"])).hexdigest() == kept["sha256"]
        sent = peak_of(of.process) - before[0]
        print(f"grown by: server {grown[0]:,}, worker {grown[1]:,}; after the fetch {sent:,}")
        assert max(*grown, sent) < 40_000_000


def test_the_page_is_right_word_by_word(tmp_path: Path) -> None:
    files = tmp_path / "files"
    [made] = re.findall(r"^mkdir (.+)$", PAGE, re.MULTILINE)
    toml, code = (re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[0] for kind in ("toml", "python"))
    assert f'url = "{made}"' in toml
    files.mkdir()
    (tmp_path / "mainspring.toml").write_text(toml.replace(made, f"file://{files}"))
    (tmp_path / "app.py").write_text(code)
    with running("up", "app:app", "--port", 0, cwd=tmp_path) as process:
        of = Site(tmp_path, process, process.wait_for("listening on "))
        done = of.do("report")
        assert done["status"] == "SUCCEEDED", done
        [kept] = of.files(done["run_id"]).values()
        assert of.fetch(kept["artifact_id"]) == b"day,orders\nmonday,17\n"


def test_a_folder_that_is_not_there_is_told_everywhere(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(APP)
    missing = tmp_path / "missing"
    started = ("up", "jobs:app", "--port", 0, "--artifacts-url", missing)
    with running(*started, cwd=tmp_path) as process:
        of = Site(tmp_path, process, process.wait_for("listening on "))
        warned = (tmp_path / "stderr.log").read_text()
        assert f"event=artifacts_folder_missing folder={missing} " in warned
        done = of.do("large_result")
        assert done["status"] == "SUCCEEDED"
        assert f"there is no folder {missing}" in done["result_left_out"]["note"]
        started_run = of.do("in_thread", wait=False)["run_id"]
        await_that("it has failed", lambda: of.ask("run", "show", started_run)["error"])
        error = of.ask("run", "show", started_run)["error"]
        assert f"artifacts.url: there is no folder {missing}; make it" in error


def test_the_worker_of_up_keeps_files(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (tmp_path / "jobs.py").write_text(APP)
    with (tmp_path / "large.bin").open("wb") as large:
        large.truncate(LARGE)
    started = ("up", "jobs:app", "--port", 0, "--artifacts-url", files)
    with running(*started, cwd=tmp_path) as process:
        of = Site(tmp_path, process, process.wait_for("listening on "))
        assert of.fetch(of.do("in_thread")["result"]) == b"from a thread"
        before = peak_of(process)
        done = of.do("large")
        assert of.files(done["run_id"])["large.bin"]["size"] == LARGE
        grown = peak_of(process) - before
        print(f"grown by {grown:,}")
        assert grown < 40_000_000
