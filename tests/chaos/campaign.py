"""Kill, restart, and judge: see README.md."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from tests.chaos.checker import RecordedRun, Verdict, judge
from tests.chaos.effects import read_effects
from tests.chaos.load import Load, Receiver
from tests.chaos.processes import Product

QUIET_LIMIT = 120.0
SHELL = (
    'for what in start end; do echo "$what $MAINSPRING_RUN_ID $MAINSPRING_TOKEN" >> {file}; sync {file}; done'
)
EVERY_SECOND = "* * * * * *"


async def run_campaign(*, kills: int, rate: float, seed: int, folder: Path) -> tuple[Verdict, dict[str, Any]]:
    """Run one campaign; return the verdict and the figures."""
    chance = random.Random(seed)
    receiver = Receiver(folder / "effects")
    await receiver.start()
    product = Product(folder, receiver=receiver.address)
    await asyncio.to_thread(product.start)
    api = Api(product)
    submitted, scheduled = await api.add_jobs(receiver.address, folder / "effects" / "shell.effects")
    load = Load(product, submitted, rate)
    loading = asyncio.create_task(load.run())
    restarts = []
    try:
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.3, 3.0))
            product.kill()
            before = time.monotonic()
            await asyncio.to_thread(product.start)
            restarts.append(time.monotonic() - before)
        await asyncio.sleep(2)
        load.is_stopping = True
        await loading
        windows = await api.pause_all(scheduled)
        await api.wait_until_quiet()
        verdict = await api.judge(load, windows, folder / "effects")
    finally:
        load.is_stopping = True
        loading.cancel()
        await asyncio.to_thread(product.stop)
        await receiver.stop()
        product.close()
    figures = {
        "kills": kills,
        "seed": seed,
        "runs": verdict.runs,
        "acknowledged": len(load.acknowledged),
        "submissions_repeated": load.retries,
        "lost": len(verdict.lost),
        "missed": len(verdict.missed),
        "doubled_fires": len(verdict.doubled_fires),
        "unexplained_repeats": len(verdict.unexplained_repeats),
        "unfinished": len(verdict.unfinished),
        "explained_repeats": verdict.explained_repeats,
        "slowest_restart_s": round(max(restarts, default=0.0), 2),
        "integrity": check_integrity(folder / "data" / "mainspring.db"),
    }
    return verdict, figures


def check_integrity(path: Path) -> str:
    """Return what SQLite says of the file."""
    with sqlite3.connect(path) as connection:
        answer = str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    connection.close()
    return answer


class Api:
    """The few calls that the campaign needs, over plain HTTP."""

    def __init__(self, product: Product) -> None:
        self._product = product

    async def call(self, method: str, path: str, body: object = None) -> Any:
        async with aiohttp.ClientSession() as session:
            url = f"{self._product.address}/api/v1{path}"
            async with session.request(method, url, json=body) as answer:
                content = await answer.json(content_type=None)
                if answer.status >= 400:
                    raise RuntimeError(f"{method} {path} answered {answer.status}: {content}")
                return content

    async def add_jobs(self, receiver: str, shell_file: Path) -> tuple[list[str], dict[str, str]]:
        """Add one submitted and one scheduled job for each executor; return their ids (the latter by name)."""
        targets: dict[str, dict[str, object]] = {
            "shell": {"command": SHELL.format(file=shell_file), "shell": True},
            "http": {"callback_url": f"http://{receiver}/hook"},
        }
        submitted = [job["job_id"] for job in (await self.call("GET", "/jobs"))["items"]]
        for name, target in targets.items():
            submitted.append(
                (await self.call("POST", "/jobs", {"name": f"chaos-{name}", **target}))["job_id"]
            )
        scheduled: dict[str, str] = {}
        targets |= {"async": {"function": "chaos-async"}, "sync": {"function": "chaos-sync"}}
        for name, target in targets.items():
            title = f"every-second-{name}"
            body = {"name": title, "cron": EVERY_SECOND, **target}
            scheduled[title] = (await self.call("POST", "/jobs", body))["job_id"]
        return submitted, scheduled

    async def pause_all(self, scheduled: dict[str, str]) -> dict[str, tuple[str, datetime, datetime]]:
        """Pause the scheduled jobs; return for each its id and the span of time in which every second was due."""
        windows = {}
        for name, job_id in scheduled.items():
            job = await self.call("GET", f"/jobs/{job_id}")
            until = datetime.now(UTC)
            await self.call("POST", f"/jobs/{job_id}/pause")
            windows[name] = (job_id, datetime.fromisoformat(job["created_at"]), until)
        return windows

    async def wait_until_quiet(self) -> None:
        """Return when no run waits or runs.

        Raises:
            TimeoutError: that did not happen within the limit.
        """
        deadline = time.monotonic() + QUIET_LIMIT
        while time.monotonic() < deadline:
            counts = await self.call("GET", "/counts")
            if not any(counts.get(state) for state in ("PENDING", "RUNNING", "RETRYING", "BLOCKED")):
                return
            await asyncio.sleep(0.3)
        raise TimeoutError("runs were still unfinished after the quiet period")

    async def judge(
        self, load: Load, windows: dict[str, tuple[str, datetime, datetime]], folder: Path
    ) -> Verdict:
        """Read everything back and compare."""
        effects = read_effects(folder)
        listed = await self._all("/runs")
        runs = {}
        for item in listed:
            tokens = {effect.token for effect in effects.get(item["run_id"], ())}
            losses = 0
            if len(tokens) > 1:
                detail = await self.call("GET", f"/runs/{item['run_id']}")
                losses = sum(attempt["outcome"] != "succeeded" for attempt in detail["attempts"])
            runs[item["run_id"]] = RecordedRun(
                id=item["run_id"], state=item["status"], fire_time=item["fire_time"], losses=losses
            )
        by_job: dict[str, list[str]] = {}
        for item in listed:
            if item["fire_time"]:
                by_job.setdefault(item["job_id"], []).append(second(item["fire_time"]))
        expected, fires = {}, {}
        for name, (job_id, since, until) in windows.items():
            expected[name] = list(seconds_between(since, until))
            fires[name] = by_job.get(job_id, []) + await self._gaps(job_id, until)
        return judge(
            acknowledged=list(load.acknowledged.values()),
            runs=runs,
            expected_fires=expected,
            fires=fires,
            effects=effects,
        )

    async def _gaps(self, job_id: str, until: datetime) -> list[str]:
        spans = (await self.call("GET", f"/jobs/{job_id}/spans"))["items"]
        gaps: list[str] = []
        for span in spans:
            if span["kind"] == "gap":
                start = datetime.fromisoformat(span["from_time"]) - timedelta(microseconds=1)
                end = datetime.fromisoformat(span["to_time"]) if span["to_time"] else until
                gaps += seconds_between(start, end)
        return gaps

    async def _all(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = await self.call("GET", f"{path}?limit=1000{cursor}")
            items += page["items"]
            if page["next"] is None:
                return items
            cursor = f"&before={page['next']}"


def seconds_between(since: datetime, until: datetime) -> list[str]:
    """Return every whole second t with since < t <= until: what `* * * * * *` owes, by plain arithmetic."""
    first = int(since.timestamp()) + 1
    return [second_of(epoch) for epoch in range(first, int(until.timestamp()) + 1)]


def second_of(epoch: int) -> str:
    """Return an instant in the form in which fires are compared."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def second(text: str) -> str:
    """Return an API instant in that form."""
    return second_of(round(datetime.fromisoformat(text).timestamp()))


def main() -> None:
    """Run a campaign from the command line; exit status 0 only if nothing was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rate", type=float, default=50.0, help="submissions a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder to work in and keep")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mainspring-chaos-") as temporary:
        folder = options.keep or Path(temporary)
        campaign = run_campaign(kills=options.kills, rate=options.rate, seed=options.seed, folder=folder)
        verdict, figures = asyncio.run(campaign)
        for story in [
            *verdict.lost,
            *verdict.missed,
            *verdict.doubled_fires,
            *verdict.unexplained_repeats,
            *verdict.unfinished,
        ][:50]:
            print(story)
        print(json.dumps(figures))
    sys.exit(0 if verdict.is_clean and figures["integrity"] == "ok" else 1)


if __name__ == "__main__":
    main()
