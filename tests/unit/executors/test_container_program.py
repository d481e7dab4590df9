"""What a job gives to its container means nothing to the program that runs it, a script among them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mainspring.executors import ContainerExecutor
from mainspring.ports.executor import Success
from tests.unit.executors.attempts import make_attempt

WRAPPER = """#!/bin/bash
echo "$@"
"""
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


@pytest.mark.parametrize("name", ["BASH_FUNC_echo%%", "BASH_ENV", "PS4", "SHELLOPTS"])
async def test_variables_of_a_job_run_nothing_in_a_script_around_podman(tmp_path: Path, name: str) -> None:
    program, mark, hook = tmp_path / "docker", tmp_path / "mark", tmp_path / "hook"
    program.write_text(WRAPPER)
    program.chmod(0o755)
    hook.write_text(f"/bin/touch {mark}\n")
    texts = {
        "BASH_FUNC_echo%%": f"() {{ /bin/touch {mark}; }}",
        "BASH_ENV": str(hook),
        "PS4": f"$(touch {mark})",
    }
    env = {name: texts.get(name, "xtrace")} | ({"SHELLOPTS": "xtrace"} if name == "PS4" else {})
    executor = ContainerExecutor(images=["*"], program=str(program))
    await executor.start()
    outcome = await executor.execute(replace(make_attempt({"image": "a:1", "env": env}), token=1))
    await executor.stop()
    assert not mark.exists()
    assert isinstance(outcome, Success), outcome
    assert outcome.output is not None
    assert f"--env {name}={env[name]}" in outcome.output
    assert "+ echo" not in outcome.output
