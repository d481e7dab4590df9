"""Containers by a real podman."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mainspring.config.secret_settings import SecretPlace
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.core.causes import Cause
from mainspring.core.outcomes import Failure
from mainspring.executors import ContainerExecutor
from mainspring.ports.executor import AttemptContext, Outcome, Success
from tests.unit.executors.attempts import make_attempt

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/busybox:test"
RUN_OPTIONS = ("--ulimit", "nofile=1024", "--ulimit", "nproc=1000")
NAME = "ms-0000000000080-41"
SECRET = "hunter2-hunter2"
SECRETS = ConfiguredSecrets([SecretPlace("token", "env:TOKEN", ("default",))], {"TOKEN": SECRET})
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("podman")]


class Podman(NamedTuple):
    """A podman with a store of its own."""

    program: str
    options: tuple[str, ...]

    def do(self, *arguments: str) -> str:
        command = [self.program, *self.options, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def names(self, *filters: str) -> list[str]:
        return self.do("ps", "--all", "--format", "{{.Names}}", *filters).split()


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    found = subprocess.run([ROOT / "scripts" / "podman"], capture_output=True, text=True, check=False)
    if found.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(found.stderr)
        pytest.skip(found.stderr.strip().rpartition("\n")[2])
    folder = Path(
        tempfile.mkdtemp(prefix="ms-", dir="/tmp")
    )  # podman takes no path of more than 50 characters
    places = ("--root", str(folder / "root"), "--runroot", str(folder / "run"))
    drivers = ("--runtime", "runc", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs")
    made = Podman(found.stdout.strip(), (*places, *drivers))
    (folder / "image.tar").write_bytes(busybox())
    made.do("import", str(folder / "image.tar"), IMAGE)
    yield made
    made.do("rm", "--all", "--force", "--time", "0")
    shutil.rmtree(folder, ignore_errors=True)


def busybox() -> bytes:
    """Return the files of an image that has busybox alone, as a tar file."""
    data = BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add("/bin/busybox", "bin/busybox")
        for name in ("sh", "cat", "env", "id", "sleep", "echo", "ls", "wc"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, "busybox", 0o777
            tar.addfile(link)
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder)
    return data.getvalue()


def make(podman: Podman, **options: Any) -> ContainerExecutor:
    given = {
        "images": (IMAGE,),
        "program": podman.program,
        "options": podman.options,
        "run_options": RUN_OPTIONS,
        "grace": timedelta(seconds=1),
        "secrets": SECRETS,
    }
    return ContainerExecutor(**{**given, **options})


@pytest.fixture
async def executor(podman: Podman) -> AsyncIterator[ContainerExecutor]:
    executor = make(podman)
    await executor.start()
    yield executor
    await executor.stop()
    assert podman.names() == []


def attempt(script: str, *, token: int = 41, **more: Any) -> AttemptContext:
    given = {name: more.pop(name) for name in ("payload", "timeout", "soft_timeout") if name in more}
    params = {"image": IMAGE, "command": ["sh", "-c", script], **more}
    return replace(make_attempt(params, **given), token=token)


async def run(executor: ContainerExecutor, script: str, **more: Any) -> Outcome:
    return await executor.execute(attempt(script, **more))


async def fail(executor: ContainerExecutor, script: str, **more: Any) -> Failure:
    outcome = await run(executor, script, **more)
    assert isinstance(outcome, Failure), outcome
    return outcome


async def started(pipe: Path) -> None:
    """Wait until a container has said that it runs."""
    await asyncio.to_thread(pipe.read_text)


async def test_output_status_payload_and_environment_are_those_of_a_command(
    executor: ContainerExecutor,
) -> None:
    script = 'cat; echo; echo "$MAINSPRING_TOKEN $PATH_OF $TOKEN"; echo problem >&2'
    env = {"PATH_OF": "x", "TOKEN": "${secret:token}"}
    outcome = await run(executor, script, payload=b'{"a":1}', env=env)
    assert isinstance(outcome, Success), outcome
    assert outcome.result == b'{"exit_code":0}'
    assert outcome.output is not None
    assert sorted(outcome.output.split("\n")) == ["", "41 x ***", "problem", '{"a":1}']
    failure = await fail(executor, "exit 3")
    assert (failure.error, failure.cause) == ("exit status 3", Cause(exit_code=3))


async def test_container_has_no_privileges_and_none_of_the_hosts_files(executor: ContainerExecutor) -> None:
    outcome = await run(executor, "cat /proc/self/status; ls /; ls /sys/class/net")
    assert isinstance(outcome, Success)
    assert outcome.output is not None
    lines = outcome.output.split("\n")
    assert "CapEff:\t0000000000000000" in lines
    assert "CapBnd:\t0000000000000000" in lines
    assert "NoNewPrivs:\t1" in lines
    assert lines[-2:] == ["lo", ""]
    assert "home" not in lines


async def test_variable_that_podman_heeds_is_passed_and_holds_no_secret(executor: ContainerExecutor) -> None:
    outcome = await run(executor, 'echo "$HOME"', env={"HOME": "/nowhere"})
    assert isinstance(outcome, Success)
    assert outcome.output == "/nowhere\n"
    failure = await fail(executor, "true", env={"HOME": "${secret:token}"})
    assert failure.error.startswith("target.env.HOME: ")
    assert not failure.is_retryable


@pytest.mark.parametrize("image", ["localhost/busybox:other", "docker.io/library/busybox"])
async def test_image_that_is_not_listed_is_refused(executor: ContainerExecutor, image: str) -> None:
    failure = await fail(executor, "true", image=image)
    assert "is not on this worker's list of images" in failure.error
    assert not failure.is_retryable


async def test_more_than_the_worker_gives_is_refused(executor: ContainerExecutor) -> None:
    failure = await fail(executor, "true", memory=4096)
    assert failure.error == (
        "target.memory: asks for 4096; this worker gives at most 512, see executors.container.memory"
    )


async def test_program_that_is_not_in_the_image_is_told(executor: ContainerExecutor) -> None:
    failure = await executor.execute(make_attempt({"image": IMAGE, "command": ["absent"]}))
    assert isinstance(failure, Failure)
    assert failure.error == "exit status 127: command not found"


async def test_time_limit_ends_the_container(executor: ContainerExecutor, podman: Podman) -> None:
    failure = await fail(executor, "trap '' TERM; echo begun; sleep 600", timeout=3)
    assert failure.error.startswith("timed out after 3 s")
    assert (failure.is_timeout, failure.output) == (True, "begun\n")
    assert podman.names() == []


async def test_cancel_removes_the_container(executor: ContainerExecutor, podman: Podman) -> None:
    running = asyncio.ensure_future(run(executor, "sleep 600"))
    await until_there(podman, NAME)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert podman.names() == []


async def until_there(podman: Podman, name: str) -> None:
    """Wait until a container runs."""
    async with asyncio.timeout(60):
        while name not in await asyncio.to_thread(podman.names, "--filter", "status=running"):
            pass  # each look takes a tenth of a second


async def test_containers_of_earlier_attempts_are_removed_first(
    executor: ContainerExecutor, podman: Podman
) -> None:
    label = f"mainspring.run=run_{NAME.split('-')[1]}"
    left = ("run", "--detach", "--network", "none", *RUN_OPTIONS)
    podman.do(*left, "--name", "ms-old", "--label", label, IMAGE, "sleep", "600")
    podman.do(*left, "--name", "other", "--label", "mainspring.run=run_other", IMAGE, "sleep", "600")
    try:
        assert isinstance(await run(executor, "true"), Success)
        assert podman.names() == ["other"]
    finally:
        podman.do("rm", "--force", "--time", "0", "other")


async def test_container_dies_with_its_worker(podman: Podman, tmp_path: Path) -> None:
    worker = f"""
import asyncio
from datetime import timedelta
from mainspring.executors import ContainerExecutor
from tests.integration.test_containers import attempt

async def main() -> None:
    executor = ContainerExecutor(images={(IMAGE,)!r}, program={podman.program!r}, options={podman.options!r},
                                 run_options={RUN_OPTIONS!r})
    await executor.start()
    await executor.execute(attempt("trap '' TERM; sleep 600"))

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", worker, cwd=ROOT)
    await until_there(podman, NAME)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    async with asyncio.timeout(60):
        while NAME in await asyncio.to_thread(podman.names):
            pass  # each look takes a tenth of a second


def test_worker_without_the_program_says_so() -> None:
    with pytest.raises(Exception, match="there is no program 'no-podman'"):
        ContainerExecutor(program="no-podman")


def test_names_are_those_of_the_run(podman: Podman) -> None:
    request = make(podman)._request(attempt("true"), attempt("true").params, None)  # type: ignore[arg-type]
    assert request["argv"][request["argv"].index("--name") + 1] == NAME
    assert json.dumps(request).count(SECRET) == 0
