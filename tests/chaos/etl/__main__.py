"""A workflow of twelve steps on a cluster of which something is killed each time it runs: `make chaos WORKFLOW=20`.

Two servers on PostgreSQL and two workers. Each round runs the workflow once: it finds 200 files, cleans each by itself,
has a workflow of its own check them, waits for an approval, loads and publishes. In every other round a late step
fails, and what was done is undone. At a random instant one of the four processes is killed, and started again. Somebody
follows the run in a terminal all the while (`mainspring workflow show --live`).

In the end, each run has come to the right end, with the right result, and each effect is there, of one run, in the
right order. Attempts that a kill cut off may have done the same again; these are counted.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.chaos.etl import jobs
from tests.chaos.etl.judging import judge, of_run, read_effects
from tests.chaos.processes import free_port
from tests.processes.processes import Running, await_that, command, environment, run, running
from tests.support.postgres import missing_reason, server_dsn, temporary_database

_SPAN = 3.0
"""Seconds within which something is killed: about what the work of a round takes on an idle host."""
_EARLY = 0.7
"""In which part of the rounds the approval is there before it is asked for, so that a kill may come behind it, too."""
_SLOTS = 10
_LATEST = 240.0
_EXIT_OF = {"SUCCEEDED": 0, "FAILED": 3}


class Member:
    """A process of the cluster that is started again when it was killed."""

    def __init__(self, name: str, arguments: tuple[object, ...], line: str, folder: Path) -> None:
        self.name = name
        self._arguments, self._line, self._folder = arguments, line, folder
        self._stack = ExitStack()

    def start(self) -> str:
        """Start it; return what its line says when it is ready."""
        process: Running = self._stack.enter_context(running(*self._arguments, cwd=self._folder))
        return process.wait_for(self._line)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._stack.close()


@contextmanager
def cluster(folder: Path, dsn: str) -> Iterator[tuple[list[Member], str]]:
    """Run two servers and two workers; provide them, and the addresses of the servers."""
    shutil.copy(jobs.__file__, folder / "jobs.py")
    with ExitStack() as stack:
        members: list[Member] = []
        ports: list[int] = []
        for number in range(2):
            ports.append(free_port(above=ports[-1] if ports else None))
            options: tuple[object, ...] = (
                "server",
                "--store",
                dsn,
                "--port",
                ports[-1],
                "--beat-period",
                "0.5s",
            )
            members.append(Member(f"server {number + 1}", options, "listening on ", folder))
            stack.callback(members[-1].kill)
            members[-1].start()
        urls = ",".join(f"http://127.0.0.1:{port}" for port in ports)
        for number in range(2):
            options = ("worker", "jobs:app", "--slots", _SLOTS, "--server", urls)
            members.append(Member(f"worker {number + 1}", options, "ready", folder))
            stack.callback(members[-1].kill)
            members[-1].start()
        yield members, urls


class Trial:
    """The rounds on one cluster.

    Attributes:
        wrong: what did not hold.
    """

    def __init__(self, folder: Path, members: list[Member], urls: str, seed: int) -> None:
        self._folder, self._members, self._urls = folder, members, urls
        self._random = random.Random(seed)
        self.wrong: list[str] = []

    def carry_out(self, number: int) -> None:
        """Run the workflow once, kill something meanwhile, and judge."""
        fails = number % 2 == 1
        run_id = json.loads(
            self._ask("job", "run", "etl", "--payload", json.dumps({"fails": fails}), "--json")
        )["run_id"]
        begun = time.monotonic()
        with self._follow(run_id) as follower:
            at, victim = self._random.uniform(0, _SPAN), self._random.choice(self._members)
            is_approved = self._random.random() < _EARLY
            if is_approved:
                self._approve(run_id)
            time.sleep(max(at - (time.monotonic() - begun), 0))
            victim.kill()
            status = self._status(run_id)
            victim.start()
            if not is_approved:
                self._approve(run_id)
            await_that(f"the end of {run_id}", lambda: self._show(run_id)["status"] in _EXIT_OF)
            exit_code = follower.wait(_LATEST)
        shown = self._show(run_id)
        await_that("the effects", lambda: bool(self._effects(run_id)))
        effects = self._effects(run_id)
        found = [*judge(shown["status"], shown["result"], effects, fails=fails)]
        if exit_code != _EXIT_OF[shown["status"]]:
            found.append(f"who followed it ended with {exit_code}")
        if not number and not self._was_drawn(run_id):
            found.append("it was not drawn")
        self.wrong += [f"round {number + 1}, {run_id}: {what}" for what in found]
        again = len(effects) - len({effect.what for effect in effects})
        print(
            f"round {number + 1}: {victim.name} killed after {at:.1f} s ({status}); {shown['status']} after "
            f"{time.monotonic() - begun:.1f} s, {len(effects)} effects, {again} of them again, {len(found)} wrong",
            flush=True,
        )

    def _ask(self, *arguments: object) -> str:
        """Carry out a command, again until a server takes it."""
        deadline = time.monotonic() + _LATEST
        while True:
            done = run(*arguments, "--server", self._urls, cwd=self._folder)
            if done.returncode == 0:
                return done.stdout
            if time.monotonic() > deadline:
                raise AssertionError(f"{arguments}: {done.stderr}")
            time.sleep(0.2)

    def _show(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ask("run", "show", run_id, "--json"))
        return found

    def _status(self, run_id: str) -> str:
        """Return how many steps are where, as it was found right after the kill."""
        steps = json.loads(self._ask("run", "steps", run_id, "--json"))["items"]
        live = [step["name"] for step in steps if step["status"] in {"live", "suspended"}]
        return ", ".join(live) or "between steps"

    def _approve(self, run_id: str) -> None:
        """Approve. If the step has not been reached yet, that is kept for it."""
        self._ask("run", "approve", run_id, "sign_off", "--comment", "as agreed")

    def _effects(self, run_id: str) -> list[Any]:
        file = self._folder / "effects"
        return of_run(read_effects(file.read_text()) if file.exists() else [], run_id)

    def _was_drawn(self, run_id: str) -> bool:
        shown = self._ask("workflow", "show", run_id)
        return all(step.name in shown for step in jobs.etl.steps)

    @contextmanager
    def _follow(self, run_id: str) -> Iterator[subprocess.Popen[bytes]]:
        """Follow a run in a terminal of its own."""
        with (self._folder / "followed.log").open("ab") as file:
            process = subprocess.Popen(
                command("workflow", "show", run_id, "--live", "--server", self._urls),
                cwd=self._folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()


def main() -> int:
    """Carry it out; the exit status is 1 if anything does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder to work in and keep")
    given = parser.parse_args()
    server = server_dsn()
    if server is None:
        print(missing_reason())
        return 1
    with tempfile.TemporaryDirectory() as name, temporary_database(server) as dsn:
        folder = given.keep or Path(name)
        folder.mkdir(exist_ok=True)
        with cluster(folder, dsn) as (members, urls):
            trial = Trial(folder, members, urls, given.seed)
            for number in range(given.kills):
                trial.carry_out(number)
    for what in trial.wrong:
        print(f"NOT SO: {what}")
    print(f"verdict: {len(trial.wrong)} wrong" if trial.wrong else "verdict: all of it holds")
    return 1 if trial.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
