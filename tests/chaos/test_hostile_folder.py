"""Two products on one data folder: one has it, by whatever path the other comes, and a dead one has nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.hostile import Mainspring, error_of, started, try_up, wait_for
from tests.chaos.processes import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc, mounts folders")


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Mainspring]:
    with started(tmp_path) as product:
        yield product


def assert_works(product: Mainspring) -> None:
    run_id = product.submit(product.find_job("chaos-async"))
    assert product.await_end(run_id)["status"] == "SUCCEEDED"
    assert product.endings()[run_id] == ["done"]


def test_whoever_comes_second_is_told_who_has_the_folder(product: Mainspring, tmp_path: Path) -> None:
    data, holder = product.data, product.holder
    link, bound = tmp_path / "link", tmp_path / "bound"
    link.symlink_to(data, target_is_directory=True)
    bound.mkdir()
    ways: list[tuple[Path, tuple[object, ...]]] = [
        (data, ("--data", data)),
        (Path("data"), ("--data", "data")),
        (link, ("--data", link)),
        (data, ("--store", f"sqlite://{data}")),
    ]
    is_bound = (
        subprocess.run(["mount", "--bind", data, bound], capture_output=True, check=False).returncode == 0
    )
    try:
        if is_bound:
            ways.append((bound, ("--data", bound)))
        files = sorted(path.name for path in data.iterdir())
        for folder, arguments in ways:
            said = error_of(try_up(*arguments, cwd=tmp_path))
            assert (
                said == f"error: {folder} is in use by process {holder}; stop it, or choose another folder\n"
            )
    finally:
        if is_bound:
            subprocess.run(["umount", bound], check=True)
    assert sorted(path.name for path in data.iterdir()) == files
    assert product.pid == holder
    assert_works(product)


def test_a_stopped_holder_still_holds(product: Mainspring) -> None:
    holder = product.pid
    product.kill_alone(signal.SIGSTOP)
    try:
        assert f"in use by process {holder};" in error_of(try_up("--data", product.data))
    finally:
        product.kill_alone(signal.SIGCONT)
    assert_works(product)


@pytest.mark.slow
def test_a_lock_of_the_dead_is_no_obstacle_and_one_of_many_takes_it(
    product: Mainspring, tmp_path: Path
) -> None:
    asleep = product.submit(product.add_job("asleep", command=["sleep", "1000"], delivery="at_most_once"))
    wait_for(lambda: product.call("GET", "/runs?state=RUNNING")["items"], "a command under way")
    dead = product.pid
    product.kill_alone()  # its commands may live on for a moment, and must not hold the folder for it
    product.start()
    assert product.pid != dead
    assert product.await_end(asleep)["status"] == "FAILED"
    assert_works(product)
    product.kill_alone()

    command = [sys.executable, "-m", "mainspring", "up", "--port", "0", "--data", str(product.data)]
    crowd = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    try:
        wait_for(lambda: sum(each.poll() is not None for each in crowd) == len(crowd) - 1, "all but one gone")
        (winner,) = [each for each in crowd if each.poll() is None]
        assert product.holder == winner.pid
        for each in crowd:
            if each is not winner:
                assert each.returncode == 1
                assert "is in use by process" in each.communicate()[1]
    finally:
        for each in crowd:
            each.kill()
            each.communicate()
    product.start()
    assert_works(product)
    product.stop()
    assert product.integrity() == "ok"
    product.start()
