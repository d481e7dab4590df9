"""What a command can read of the processes above it, which have the same user, and what the operator is told of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mainspring.config.secret_settings import SecretPlace
from mainspring.config.settings import Settings
from mainspring.ports.telemetry import Telemetry
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_worker
from mainspring.sdk.http_gateway import HttpGateway

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are carried out on Linux only")

ROOT = Path(__file__).parents[2]
WORKER = r"""
import asyncio, os
from mainspring.executors import ShellExecutor
from tests.unit.executors.attempts import make_attempt

SCRIPT = '''
echo "own: $(cat /proc/$$/environ | tr '\\0' '\\n' | grep MAINSPRING_ATTEMPT)"
for pid in $WORKER $PPID $(ps -o ppid= -p $PPID); do
    { cat /proc/$pid/environ; head -c 1 /proc/$pid/mem; } 2>&1
done
'''

async def main():
    shell = ShellExecutor(enabled=True)
    await shell.start()
    params = {"command": SCRIPT, "shell": True, "env": {"WORKER": str(os.getpid())}}
    outcome = await shell.execute(make_attempt(params))
    await shell.stop()
    print(outcome.output)

asyncio.run(main())
"""
PARENT = """
import subprocess
from mainspring.config.settings import Settings
from mainspring.host.process import run_process

async def work(stop):
    import os
    for name in ("environ", "mem"):
        print(subprocess.run(["head", "-c", "1", f"/proc/{os.getpid()}/{name}"], capture_output=True, text=True).stderr)

run_process(work, Settings(allow_shell=True))
"""


def run_as_user(code: str) -> list[str]:
    """Run a program whose environment holds a secret. Root may read all; so it gets the rights of a user."""
    as_user = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_user, sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "MAINSPRING_TOKEN": "hunter2", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if line.strip()]


def test_commands_cannot_read_the_worker_the_spawner_and_their_supervisor() -> None:
    first, *answers = run_as_user(WORKER)
    assert first == "own: MAINSPRING_ATTEMPT=2"
    assert len(answers) == 6, answers
    assert all("denied" in line for line in answers), answers


def test_processes_beside_a_worker_cannot_be_read_either() -> None:
    answers = run_as_user(PARENT)
    assert len(answers) == 2, answers
    assert all("denied" in line for line in answers), answers


def warnings_of(**settings: object) -> list[tuple[str, ...]]:
    """Return the secrets of which the making of a worker warns."""
    gateway = HttpGateway("http://127.0.0.1:1")
    with capture_logs() as logs:
        make_worker(gateway, Settings(**settings), FunctionRegistry(), telemetry=Telemetry())  # type: ignore[arg-type]
    return [tuple(line["secrets"]) for line in logs if line["event"] == "secrets_beside_commands"]


async def test_worker_warns_of_secrets_beside_commands() -> None:
    bound = SecretPlace("token", "env:TOKEN", ("shop",))
    own = SecretPlace("own", "env:OWN", ())
    shared = SecretPlace("shared", "env:SHARED", ("*",))
    assert warnings_of(allow_shell=True, secrets=(bound, own, shared)) == [("token", "own")]
    assert warnings_of(allow_shell=True, secrets=(shared,)) == []
    assert warnings_of(secrets=(bound,)) == []
