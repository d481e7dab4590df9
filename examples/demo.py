"""The main job, end to end, on SQLite: `make demo`.

Starts a server and two workers, imports two crontabs, creates and submits jobs over the REST API, kills a worker in
the middle of a run, and then judges what happened from the files that the jobs themselves wrote.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from examples.demo_checks import Effect, Verdict, expected_fires, judge, read_effects

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 40
INTRODUCTION = (
    "A server and two workers start on SQLite. Two crontabs are imported, jobs with callbacks and functions are "
    f"created, and for {SECONDS} s they run. Meanwhile one worker is killed in the middle of a run. demo-hopeless "
    "fails on purpose: it is to end as a dead letter. In the end the demo judges by what the jobs themselves wrote "
    "into files.\n"
)
QUIET_LIMIT = 30
console = Console()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="mainspring-demo-") as folder:
        return Demo(Path(folder)).run()


class Demo:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.effects = folder / "effects"
        self.effects.mkdir()
        self.server = ""
        self.allow = ""
        self.processes: list[subprocess.Popen[bytes]] = []
        self.accepted: dict[str, str] = {}
        self.dead_letters: set[str] = set()
        self.killed_pid = -1
        self.killed_run = ""
        self.events: list[str] = []
        self.log: IO[bytes] = (folder / "demo.log").open("wb")

    def run(self) -> int:
        try:
            console.print(INTRODUCTION, highlight=False)
            with receiver(self.effects) as hook:
                self.allow = hook.removeprefix("http://").partition("/")[
                    0
                ]  # loopback is closed to callbacks otherwise
                self.start_server()
                self.start_worker("worker-1")
                self.start_worker("worker-2")
                self.import_crontabs()
                self.create_jobs(hook)
                self.submit_runs()
                self.watch()
                verdict = self.finish()
            return self.tell(verdict)
        finally:
            for process in self.processes:
                process.terminate()
            for process in self.processes:
                process.wait(30)
                if process.stdout is not None:
                    process.stdout.close()
            self.log.close()

    # -- processes -------------------------------------------------------------------------------------------------

    def start(self, *arguments: str, ready: str) -> str:
        """Start a `mainspring` process; return what its first line that matches `ready` holds."""
        process = subprocess.Popen(
            [sys.executable, "-m", "mainspring", *arguments],
            cwd=ROOT,
            env={**os.environ, "EFFECTS_DIR": str(self.effects)},
            stdout=subprocess.PIPE,
            stderr=self.log,
        )
        self.processes.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            match = re.search(ready, line.decode())
            if match:
                return match.group(0)
        raise SystemExit(
            f"mainspring {arguments[0]} did not start:\n{(self.folder / 'demo.log').read_text()}"
        )

    def start_server(self) -> None:
        data = str(self.folder / "data")
        arguments = ["--data", data, "--port", "0", "--allow-shell", "--callback-allow", self.allow]
        arguments += ["--beat-period", "2"]
        self.server = self.start("up", *arguments, ready=r"http://\S+")
        self.note(f"mainspring up: {self.server}, SQLite in {data}")

    def start_worker(self, name: str) -> None:
        arguments = ["examples.demo_jobs:app", "--server", self.server, "--name", name]
        self.start("worker", *arguments, "--callback-allow", self.allow, ready="ready")
        self.note(f"{name} is ready (pid {self.processes[-1].pid})")

    # -- work ------------------------------------------------------------------------------------------------------

    def import_crontabs(self) -> None:
        for name, option in (("crontab.system", "--system"), ("crontab.seconds", "--seconds")):
            text = (ROOT / "examples" / name).read_text()
            text = re.sub(r"(?m)^EXAMPLES=.*$", f"EXAMPLES={ROOT / 'examples'}", text)
            text = re.sub(r"(?m)^EFFECTS_DIR=.*$", f"EFFECTS_DIR={self.effects}", text)
            path = self.folder / name
            path.write_text(text)
            command = [sys.executable, "-m", "mainspring", "import", "crontab", str(path), option]
            command += ["--yes", "--json", "--server", self.server]
            answer = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
            if answer.returncode:
                raise SystemExit(f"import of {name} failed: {answer.stderr.decode()}")
            self.note(f"imported {name}")

    def create_jobs(self, hook: str) -> None:
        bodies: list[dict[str, Any]] = [
            {
                "name": "daily-report",
                "cron": "*/2 * * * * *",
                "priority": "HIGH",
                "payload": {"format": "pdf"},
            },
            {
                "name": "sync-warehouse",
                "cron": "1-59/3 * * * * *",
                "priority": "MEDIUM",
                "payload": {"rows": 100},
            },
            {"name": "clean-up", "every": "5s", "priority": "LOW", "payload": {"days": 30}},
            {"name": "one-off", "run_at": (datetime.now(UTC) + timedelta(seconds=8)).isoformat()},
        ]
        for body in bodies:
            job = self.call("POST", "/jobs", {**body, "callback_url": f"{hook}/{body['name']}"})
            self.note(f"created {body['name']}: {job['job_id']}, next fire {job['next_fire_time']}")

    def submit_runs(self) -> None:
        jobs = {job["name"]: job["job_id"] for job in self.jobs()}
        at = (datetime.now(UTC) + timedelta(seconds=10)).isoformat()
        plan: list[tuple[str, dict[str, Any]]] = [
            ("demo-flaky", {}),
            ("demo-hopeless", {}),
            ("demo-once", {"run_at": at}),
            ("demo-long", {}),
        ]
        for name, body in plan:
            run = self.call("POST", f"/jobs/{jobs[name]}/runs", body)["run_id"]
            self.accepted[run] = name
            if name == "demo-hopeless":
                self.dead_letters.add(run)

    def watch(self) -> None:
        """Show progress, and kill the worker that carries out the long run once it is in the middle of it."""
        deadline = time.monotonic() + SECONDS
        with live() as show:
            while time.monotonic() < deadline:
                effects = read_effects(self.effects)
                if self.killed_pid < 0:
                    self.kill_if_in_the_middle(effects)
                elif self.killed_run and self.is_repeated(effects):
                    self.note(f"{self.killed_run} was carried out again, by another worker")
                    self.killed_run = ""
                show(self.picture(effects, deadline))
                time.sleep(0.25)

    def kill_if_in_the_middle(self, effects: list[Effect]) -> None:
        for effect in effects:
            if effect.job == "demo-long" and effect.what == "start" and time.time() - effect.at > 2:
                assert effect.pid is not None
                os.kill(effect.pid, signal.SIGKILL)
                self.killed_pid, self.killed_run = effect.pid, effect.run
                self.note(f"SIGKILL to worker {effect.pid} in the middle of {effect.run}")
                self.start_worker("worker-3")

    def is_repeated(self, effects: list[Effect]) -> bool:
        return any(e.run == self.killed_run and e.what == "end" and e.pid != self.killed_pid for e in effects)

    def finish(self) -> Verdict:
        """Stop the schedules, wait until all is quiet, and judge."""
        owed: dict[str, list[datetime]] = {}
        for job in self.jobs():
            until = datetime.now(UTC)
            self.call("POST", f"/jobs/{job['job_id']}/pause")
            since = datetime.fromisoformat(job["created_at"])
            owed[effect_name(job)] = list(expected_fires(job, since, until))
        deadline = time.monotonic() + QUIET_LIMIT
        while time.monotonic() < deadline:
            counts = self.call("GET", "/counts")
            if not any(counts.get(state) for state in ("PENDING", "RUNNING", "RETRYING")):
                break
            time.sleep(0.2)
        return judge(
            read_effects(self.effects),
            owed=owed,
            accepted=self.accepted,
            dead_letters=self.dead_letters,
            killed_pid=self.killed_pid,
        )

    # -- talking ---------------------------------------------------------------------------------------------------

    def jobs(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.call("GET", "/jobs?limit=1000")["items"]
        return items

    def call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.server}/api/v1{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def note(self, text: str) -> None:
        self.events.append(text)
        if not console.is_terminal:
            console.print(text, highlight=False)

    def picture(self, effects: list[Effect], deadline: float) -> Table:
        table = Table(title=f"Mainspring demo, {max(deadline - time.monotonic(), 0):.0f} s to go")
        table.add_column("job")
        table.add_column("started", justify="right")
        table.add_column("ended", justify="right")
        table.add_column("last start was late by", justify="right")
        for name in sorted({effect.job for effect in effects}):
            mine = [effect for effect in effects if effect.job == name]
            starts = [effect for effect in mine if effect.what == "start"]
            due = starts[-1].due if starts else None
            lag = f"{(starts[-1].at - due.timestamp()) * 1000:.0f} ms" if due is not None else ""
            table.add_row(name, str(len(starts)), str(len(mine) - len(starts)), lag)
        table.caption = "\n".join(self.events[-6:])
        return table

    def tell(self, verdict: Verdict) -> int:
        table = Table(title="What the jobs themselves wrote")
        table.add_column("what")
        table.add_column("how many", justify="right")
        table.add_column("should be")
        for story in [*verdict.lost, *verdict.missed, *verdict.duplicated][:20]:
            console.print(story, highlight=False)
        was_repeated = self.killed_pid > 0 and not self.killed_run
        figures = {
            "runs": verdict.runs,
            "succeeded": verdict.succeeded,
            "failed": verdict.failed,
            "lost": len(verdict.lost),
            "missed": len(verdict.missed),
            "duplicated": len(verdict.duplicated),
            "p50_lag_ms": verdict.lag(0.5),
            "p99_lag_ms": verdict.lag(0.99),
        }
        wanted = {
            "runs": "more than 0",
            "succeeded": "all but one",
            "failed": "1: demo-hopeless, the dead letter that the demo wants",
            "lost": "0: each run that was accepted has ended",
            "missed": "0: each fire that was owed has its run",
            "duplicated": "0: no fire has two runs",
            "p50_lag_ms": "half of the runs began within this many ms of their time",
            "p99_lag_ms": "99 of 100 did so within this many ms",
        }
        for name, value in figures.items():
            table.add_row(name.replace("_", " "), str(value), wanted[name])
        table.add_row("killed in the middle, carried out again", "yes" if was_repeated else "no", "yes")
        console.print(table)
        print(json.dumps(figures))
        is_good = not (verdict.lost or verdict.missed or verdict.duplicated)
        return 0 if is_good and was_repeated and verdict.failed == 1 and verdict.runs else 1


def effect_name(job: dict[str, Any]) -> str:
    """Return the name under which a job writes its effects: a crontab's command names it."""
    match = re.search(r'effect\.sh" (\S+)', str(job["target"].get("command", "")))
    return match.group(1) if match else str(job["name"])


@contextmanager
def live() -> Iterator[Any]:
    """Yield a function that shows a table in place, or does nothing where there is no terminal."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with Live(console=console, refresh_per_second=4) as display:
        yield display.update


@contextmanager
def receiver(folder: Path) -> Iterator[str]:
    """Run a real HTTP server that writes down each callback before it answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            name = self.path.rpartition("/")[2]
            nominal = self.headers.get("Mainspring-Fire-At") or "-"
            words = [name, self.headers["Mainspring-Run-Id"], self.headers["Mainspring-Attempt"]]
            words += [self.headers["Mainspring-Token"], nominal, nominal, f"{time.time():.6f}"]
            with lock, (folder / "callbacks.log").open("a") as file:
                file.write(" ".join(["start", *words]) + "\n" + " ".join(["end", *words]) + "\n")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Write no line per request."""

    lock = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hooks"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    sys.exit(main())
