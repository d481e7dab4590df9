"""A disk that is full: what was answered is kept, what is not is refused, and with room it goes on by itself (F16)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.hostile import Mainspring, error_of, started, try_up, wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of a given size"),
    pytest.mark.slow,
    pytest.mark.timeout(150),
]
FAR = "2090-01-01T00:00:00Z"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """The product's data folder, on a file system of its own of 10 MB, 6 MB of which a file takes up."""
    folder = tmp_path / "data"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mount.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mount.stderr.strip()}")
    try:
        (folder / "filler").write_bytes(b"x" * 6_000_000)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> None:
    """Take every byte that is left."""
    with (disk / "more").open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


def make_room(disk: Path) -> None:
    for name in ("filler", "more"):
        (disk / name).unlink(missing_ok=True)


def fill_with_runs(product: Mainspring, job_id: str) -> list[str]:
    """Submit until the store takes no single run more; return the ids of those that were acknowledged."""
    acknowledged: list[str] = []
    for size in (100, 1):
        item = {"job_id": job_id, "run_at": FAR, "payload": "x" * 1000}
        while (answer := product.ask("POST", "/runs/bulk", json=[item] * size)).is_success:
            acknowledged += [each["run_id"] for each in answer.json()]
            assert len(acknowledged) < 20_000
        assert_refusal(answer)
    return acknowledged


def is_long(errors: str) -> bool:
    """Say whether heartbeats, one a second, have failed for so long that every grace has passed.

    Or that the reaper has lost its patience: its next look comes before the next heartbeat, which is the test's point.
    """
    return errors.count("beat_failed") >= (3 if "service=reaper" in errors else 5)


def assert_refusal(answer: httpx.Response) -> None:
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["detail"] == "the store does not answer; nothing is known to be lost, try again"


def taken(product: Mainspring, job_id: str, headers: dict[str, str]) -> httpx.Response | None:
    answer = product.ask("POST", f"/jobs/{job_id}/runs", headers=headers, json={})
    return answer if answer.is_success else None


def runs_of(product: Mainspring, job_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    before = ""
    while True:
        page = product.call("GET", f"/jobs/{job_id}/runs?limit=1000{before}")
        items += page["items"]
        if page["next"] is None:
            return items
        before = f"&before={page['next']}"


def seconds_of(product: Mainspring, job_id: str) -> tuple[list[int], set[int]]:
    """Return the fire times of a job's runs, and those that are on record as left out, in whole seconds."""
    fired, left_out = [], set()
    for run in runs_of(product, job_id):
        if run["status"] == "SKIPPED":
            left_out.add(epoch(run["fire_time"]))
        else:
            fired.append(epoch(run["fire_time"]))
    for fire_range in product.call("GET", f"/jobs/{job_id}/fire-ranges")["items"]:
        if fire_range["reason"] == "misfire" and fire_range["kind"] == "gap":
            left_out |= set(range(epoch(fire_range["from_time"]), epoch(fire_range["to_time"]) + 1))
    return sorted(fired), left_out


def fires_after(product: Mainspring, job_id: str, instant: float) -> bool:
    """Say whether the job fired after an instant (it may have no run at all: each one skipped so far)."""
    return any(second > instant for second in seconds_of(product, job_id)[0])


def is_caught_up(product: Mainspring, job_id: str) -> bool:
    fire_ranges = product.call("GET", f"/jobs/{job_id}/fire-ranges")["items"]
    return not any(fire_range["kind"] == "catch_up" and fire_range["is_open"] for fire_range in fire_ranges)


def epoch(instant: str) -> int:
    return round(datetime.fromisoformat(instant).timestamp())


def test_full_disk_loses_and_doubles_nothing_and_passes(disk: Path, tmp_path: Path) -> None:
    room = tmp_path / "room"
    with started(tmp_path) as product:
        quick = product.find_job("chaos-async")
        done = [product.submit(quick) for _ in range(20)]
        every_second = {"cron": "* * * * * *", "function": "chaos-async"}
        ticking = {
            policy: product.add_job(policy, **every_second, misfire={"policy": policy, "grace": "1s"})
            for policy in ("skip", "fire_latest", "fire_all")
        }
        patient = product.add_job(
            "patient",
            command=f"echo began; while [ ! -e {room} ]; do sleep 0.05; done",
            shell=True,
            delivery="at_most_once",
        )
        through = product.submit(patient)
        wait_for(lambda: product.run(through)["status"] == "RUNNING", "a command under way")
        later = product.add_job("later", function="chaos-async")

        kept = fill_with_runs(product, later)
        full_at = time.time()
        keys = [{"Idempotency-Key": f"key-{number}"} for number in range(10)]
        for key in keys:
            assert_refusal(product.ask("POST", f"/jobs/{quick}/runs", headers=key, json={}))
        assert_refusal(product.ask("POST", "/jobs", json={"name": "x" * 200, "function": "chaos-async"}))
        assert {run["run_id"] for run in runs_of(product, later)} >= set(kept)  # reading goes on
        # It takes a whole second of missed fires at least, away from both edges.
        wait_for(lambda: is_long(product.errors()) and time.time() > full_at + 4, "a long outage")
        make_room(disk)
        room_at = time.time()
        for key in keys:  # nothing of them was stored, so nothing stands in the way of their repetition
            answer = wait_for(
                lambda key=key: taken(product, quick, key),  # type: ignore[misc]
                "a submission taken",
            )
            assert answer is not None
            assert answer.json()["is_new"]
            done.append(answer.json()["run_id"])
        assert time.time() - room_at < 5
        for run_id in done:
            assert product.await_end(run_id)["status"] == "SUCCEEDED"
        room.touch()
        held = product.await_end(through)
        # Nobody was declared dead for heartbeats that found no room (design 5), so nothing was lost or repeated.
        ends = [attempt["outcome"] for attempt in held["attempts"]]
        assert (held["status"], held["crashes"], ends) == ("SUCCEEDED", 0, ["succeeded"]), held

        since, until = int(full_at) + 1, int(room_at) - 1
        assert until > since
        for policy, job_id in ticking.items():
            wait_for(lambda job_id=job_id: fires_after(product, job_id, room_at + 1), "fires again")  # type: ignore[misc]
            # On-time fires go on at once; those that were missed are made up for beside them.
            wait_for(lambda job_id=job_id: is_caught_up(product, job_id), "the catch-up")  # type: ignore[misc]
            product.call("POST", f"/jobs/{job_id}/pause")
            fired, left_out = seconds_of(product, job_id)
            assert max(Counter(fired).values()) == 1
            assert set(range(fired[0], fired[-1] + 1)) <= {*fired, *left_out}
            assert not left_out & set(fired)
            missed = [second for second in fired if since <= second < until]
            assert len(missed) == {"skip": 0, "fire_latest": 0, "fire_all": until - since}[policy], (
                policy,
                missed,
            )

        assert sorted(run["run_id"] for run in runs_of(product, later)) == sorted(kept)
        wait_for(
            lambda: not product.call("GET", "/runs?state=RUNNING")["items"], "the end of everything under way"
        )
        endings = product.endings()
        assert set(done) <= set(endings)
        assert {tuple(each) for each in endings.values()} == {("done",)}
        assert "Traceback" not in product.errors()
        product.stop()
        assert product.integrity() == "ok"
        product.start()


def test_start_on_a_full_disk_is_refused_and_harms_nothing(disk: Path, tmp_path: Path) -> None:
    fill(disk)
    assert error_of(try_up("--data", disk)) == f"error: {disk} cannot be written: No space left on device\n"
    make_room(disk)
    with started(tmp_path) as product:
        later = product.add_job("later", function="chaos-async")
        kept = [product.submit(later, run_at=FAR) for _ in range(5)]
        product.kill()
        fill(disk)
        said = error_of(try_up("--data", disk))
        assert "full" in said or "No space left" in said
        make_room(disk)
        product.start()
        assert sorted(run["run_id"] for run in runs_of(product, later)) == sorted(kept)
        assert product.await_end(product.submit(later))["status"] == "SUCCEEDED"
        product.stop()
        assert product.integrity() == "ok"
        product.start()
