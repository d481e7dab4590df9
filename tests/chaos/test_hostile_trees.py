"""Commands that multiply, hide in sessions of their own and do not listen to SIGTERM: all of them are gone (F25)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.hostile import Mainspring, started, wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="commands are carried out on Linux only"),
    pytest.mark.slow,
    pytest.mark.timeout(150),
]
SIZE = 60
TREE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
marker, size = sys.argv[1], int(sys.argv[2])
for number in range(size):
    if os.fork() == 0:
        if number % 3:  # a session of its own
            os.setsid()
        if number % 3 == 2 and os.fork():  # a daemon: its parent is gone
            os._exit(0)
        if number % 10 == 0:  # deeper
            os.fork()
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""


def members(marker: str) -> list[int]:
    """Return the living processes that carry a marker in their command line, whoever is their parent."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                is_member = marker.encode() in (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if is_member:
                found.append(int(entry.name))
    return found


def add_tree(product: Mainspring, marker: str, **body: object) -> str:
    command = [sys.executable, "-I", "-S", "-c", TREE, marker, str(SIZE)]
    return product.add_job(marker, command=command, retry={"max_retries": 0}, **body)


def grown(marker: str) -> Callable[[], bool]:
    return lambda: len(members(marker)) >= SIZE


def assert_slot_is_free(product: Mainspring) -> None:
    """The product has one slot: whatever runs now runs in the one that the tree had."""
    run_id = product.submit(product.find_job("chaos-async"))
    assert product.await_end(run_id)["status"] == "SUCCEEDED"


def test_tree_that_is_cancelled_or_out_of_time_leaves_nothing(tmp_path: Path) -> None:
    with started(tmp_path, "--slots", "1") as product:
        cancelled = f"cancelled-{os.getpid()}"
        run_id = product.submit(add_tree(product, cancelled))
        wait_for(grown(cancelled), "a tree of processes")
        product.call("POST", f"/runs/{run_id}/cancel")
        assert product.await_end(run_id)["status"] == "CANCELLED"
        assert members(cancelled) == []
        assert_slot_is_free(product)

        late = f"late-{os.getpid()}"
        run_id = product.submit(add_tree(product, late, soft_timeout="2s", timeout="3s"))
        run = product.await_end(run_id)
        assert (run["status"], run["attempts"][0]["outcome"]) == ("FAILED", "timed_out")
        assert "not all" not in run["attempts"][0]["error"]
        assert members(late) == []
        assert_slot_is_free(product)


def test_tree_is_gone_when_its_worker_has_drained(tmp_path: Path) -> None:
    with started(tmp_path, "--slots", "1", "--drain", "0.5") as product:
        marker = f"drained-{os.getpid()}"
        run_id = product.submit(add_tree(product, marker))
        wait_for(grown(marker), "a tree of processes")
        product.stop()
        assert members(marker) == []
        product.start()  # handed back, it is carried out again
        wait_for(grown(marker), "the tree again")
        product.call("POST", f"/runs/{run_id}/cancel")
        assert product.await_end(run_id)["status"] == "CANCELLED"
        assert members(marker) == []
        assert_slot_is_free(product)


@pytest.mark.parametrize("with_all_helpers", [False, True])
def test_tree_of_a_killed_product_is_gone_and_its_run_explained(
    tmp_path: Path, with_all_helpers: bool
) -> None:
    """What docs/reference/executors.md promises: commands die with their worker; should all that watches over them
    be killed with it, the next worker to start on the machine kills what was left.
    """
    with started(tmp_path, "--slots", "2") as product:
        once, again = f"once-{os.getpid()}", f"again-{os.getpid()}"
        never = product.submit(add_tree(product, once, delivery="at_most_once"))
        repeated = product.submit(add_tree(product, again))
        wait_for(grown(once), "a tree of processes")
        wait_for(grown(again), "another one")
        before = {*members(once), *members(again)}
        if with_all_helpers:
            kill_with_helpers(product)
            assert members(once), "nobody was left to kill the tree: this is about what the next worker does"
            product.start()
        else:
            product.kill_alone()
            wait_for(lambda: not before & {*members(once), *members(again)}, "the end of both trees")
            product.start()
        wait_for(lambda: not before & {*members(once), *members(again)}, "the end of what was left")
        lost = product.await_end(never)
        assert (lost["status"], lost["reason"], lost["attempts"][0]["outcome"]) == ("FAILED", "lost", "lost")
        wait_for(grown(again), "the tree that is carried out again")
        assert members(once) == []
        product.call("POST", f"/runs/{repeated}/cancel")
        run = product.await_end(repeated)
        assert (run["status"], run["crashes"], run["attempts"][0]["outcome"]) == ("CANCELLED", 1, "lost")
        assert_slot_is_free(product)


def kill_with_helpers(product: Mainspring) -> None:
    """Kill the product, the spawner and the supervisors in one stroke: stopped first, none can react."""
    helpers = [pid for pid in children(product.pid) if b"_shell_supervisor" in command_of(pid)]
    supervisors = [pid for helper in helpers for pid in children(helper)]
    watchers = [product.pid, *helpers, *supervisors]
    assert len(supervisors) == 2
    for pid in watchers:
        os.kill(pid, signal.SIGSTOP)
    for pid in watchers[1:]:
        os.kill(pid, signal.SIGKILL)
    product.kill_alone()


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
