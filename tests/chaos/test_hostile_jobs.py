"""Jobs that would harm their worker: output without end, memory, descriptors, programs that are none (F23, F24)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.chaos.hostile import Mainspring, started

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="commands are carried out on Linux only"),
    pytest.mark.slow,
    pytest.mark.timeout(150),
]
KEPT = 66_000
PEAK = 400_000
"""Kilobytes of memory that the product may have needed at most."""


def peak_memory(product: Mainspring) -> int:
    lines = Path(f"/proc/{product.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_hostile_jobs_fail_with_a_reason_and_the_worker_goes_on(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("not a program")
    closed = "import os; os.closerange(0, 1000); os._exit(5)"
    # There is no limit of memory to ask for yet: the command sets its own, as a user must today.
    greedy = "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 28, 1 << 28)); x = bytearray(1 << 30)"
    bodies: dict[str, tuple[dict[str, object], str]] = {
        "endless": ({"command": ["yes"], "timeout": "8s", "soft_timeout": "2s"}, "timed out after 2 s"),
        "binary": (
            {"command": ["cat", "/dev/urandom"], "timeout": "8s", "soft_timeout": "2s"},
            "timed out after 2 s",
        ),
        "greedy": ({"command": python(greedy)}, "exit status 1"),
        "killed": ({"command": "kill -KILL $$", "shell": True}, "killed by SIGKILL"),
        "closed": ({"command": python(closed)}, "exit status 5"),
        "closed-in-shell": ({"command": "exec 0<&- 1>&- 2>&-; exit 6", "shell": True}, "exit status 6"),
        "absent": ({"command": ["/no/such/program"]}, "command not found: '/no/such/program'"),
        "not-executable": (
            {"command": [str(program)]},
            f"the command '{program}' cannot be executed: Permission denied",
        ),
        "exec": (
            {"command": f"exec {program}", "shell": True},
            "exit status 126: command cannot be executed",
        ),
        "folder": ({"command": ["/tmp"]}, "the command '/tmp' cannot be executed: Permission denied"),
        "nowhere": (
            {"target": {"type": "shell", "command": ["true"], "cwd": "/no/such"}},
            "the folder '/no/such' cannot be entered",
        ),
    }
    with started(tmp_path, "--slots", "20") as product:
        holder = product.pid
        runs = {
            name: product.submit(product.add_job(name, retry={"max_retries": 0}, **body))
            for name, (body, _) in bodies.items()
        }
        for name, run_id in runs.items():
            run = product.await_end(run_id)
            error = run["attempts"][0]["error"]
            assert (run["status"], run["crashes"]) == ("FAILED", 0), (name, run)
            assert error.startswith(bodies[name][1]), (name, error)
            assert len(run["attempts"][0]["output"] or "") < KEPT
        assert "MemoryError" in product.run(runs["greedy"])["attempts"][0]["output"]

        program.chmod(0o755)  # a file that may be executed and is no program
        run = product.await_end(product.submit(product.find_job("not-executable")))
        assert run["attempts"][0]["error"] == f"the command '{program}' cannot be executed: Exec format error"

        next_run = product.submit(product.find_job("chaos-async"))
        assert product.await_end(next_run)["status"] == "SUCCEEDED"
        assert product.pid == holder
        assert peak_memory(product) < PEAK
        assert "Traceback" not in product.errors()
