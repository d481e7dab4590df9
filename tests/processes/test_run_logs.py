"""What runs print while they run, with real processes: of a killed worker, all but the last second is there (W13)."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.processes.processes import Running, await_that, command, environment, run, run_here, running

pytestmark = pytest.mark.timeout(300)

APP = """
import asyncio, pathlib, time
from mainspring import App, current_attempt

app = App()


@app.job(name="count", retries=0)
async def count(folder: str) -> None:
    number = 0
    while not pathlib.Path(folder, "go-on").exists():
        number += 1
        print("line", number, time.time(), flush=True)
        current_attempt().progress(number, 1000, f"at line {number}")
        await asyncio.sleep(0.02)
    print("the end")
"""


def lines_of(text: str) -> list[tuple[int, float]]:
    return [
        (int(found[1]), float(found[2]))
        for found in re.finditer(r"^line (\d+) ([0-9.]+)$", text, re.MULTILINE)
    ]


def logs(url: str, run_id: str) -> str:
    done = run_here("run", "logs", run_id, "--server", url)
    assert done.returncode == 0, done.stderr
    return done.stdout


def begin(folder: Path, url: str) -> str:
    done = run("job", "run", "count", "--payload", f'{{"folder": "{folder}"}}', "--server", url)
    assert done.returncode == 0, done.stderr
    return str(re.findall(r"run_[0-9a-z]{13}", done.stdout)[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def start_server(folder: Path) -> tuple[object, ...]:
    return ("server", "--data", folder / "data", "--port", 0, "--beat-period", "1s")


def start_worker(url: str, name: str) -> tuple[object, ...]:
    return ("worker", "shop:app", "--server", url, "--name", name)


def test_of_a_killed_worker_all_but_the_last_second_is_there(folder: Path) -> None:
    with running(*start_server(folder), cwd=folder) as server:
        url = server.wait_for("listening on ")
        with running(*start_worker(url, "first"), cwd=folder) as worker:
            worker.wait_for("ready")
            run_id = begin(folder, url)
            await_that("it is seen while it runs", lambda: len(lines_of(logs(url, run_id))) > 100)
            printed = read_terminal(worker, 250)
            worker.process.kill()
            killed_at = printed[-1][1]
            printed += [line for rest in worker.process.stdout or () for line in lines_of(rest)]
        seen = lines_of(logs(url, run_id))
        assert [number for number, _ in seen] == list(range(1, len(seen) + 1)), (
            "from the first, without a gap"
        )
        lost = [at for number, at in printed if number > len(seen)]
        assert all(killed_at - at < 1.6 for at in lost), "the last second, and the call that was under way"
        shown = run_here("run", "show", run_id, "--server", url).stdout
        assert re.search(r"^progress +\d+ of 1,000 \(\d+ %\): at line \d+$", shown, re.MULTILINE), shown
        with running(*start_worker(url, "second"), cwd=folder) as worker:
            worker.wait_for("ready")
            await_that("it is begun again", lambda: logs(url, run_id).count("line 1 ") == 2)
            (folder / "go-on").touch()
            await_that("its end is there", lambda: "the end\n" in logs(url, run_id))
            assert logs(url, run_id).startswith("line 1 "), "what the first had written stays"
            worker.stop()
        server.stop()
    assert "Traceback" not in (folder / "stderr.log").read_text()


def read_terminal(worker: Running, number: int) -> list[tuple[int, float]]:
    """Return what the worker has printed on its own stdout up to a line."""
    assert worker.process.stdout is not None
    found: list[tuple[int, float]] = []
    while not found or found[-1][0] < number:
        line = worker.process.stdout.readline()
        assert line, "it has ended"
        found += lines_of(line)
    return found


def test_a_follower_sees_all_of_it_and_ends_with_the_run(folder: Path) -> None:
    with running("up", "shop:app", "--data", folder / "data", "--port", 0, cwd=folder) as server:
        url = server.wait_for("listening on ")
        run_id = begin(folder, url)
        following = subprocess.Popen(
            command("run", "logs", "-f", run_id, "--server", url),
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert following.stdout is not None
            first = [following.stdout.readline() for _ in range(50)]
            assert [number for number, _ in lines_of("".join(first))] == list(range(1, 51))
            (folder / "go-on").touch()
            rest = following.stdout.read()
            assert following.wait(60) == 0
        finally:
            following.kill()
            following.wait()
            assert following.stdout is not None
            following.stdout.close()
        assert rest.endswith("the end\n")
        none = run_here("run", "logs", "-f", "--attempt", "7", run_id, "--server", url)
        assert (none.returncode, none.stdout) == (2, "")
        assert f"no attempt 7 of {run_id} has begun" in none.stderr
        numbers = [number for number, _ in lines_of("".join(first) + rest)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert server.stop(signal.SIGTERM) == 0
