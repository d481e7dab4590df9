"""A job of Kubernetes from its definition to its output, by the command line, the HTTP API and the SDK."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mainspring import App
from tests.processes.processes import run, server
from tests.support.certificates import make_authority, make_certificate
from tests.support.kubernetes.api import Api
from tests.support.kubernetes.fake import FakeServer
from tests.support.kubernetes.node import Node
from tests.support.kubernetes.real import make_kubeconfig

IMAGE = "registry.test/hello:1"
SETTINGS = f"""
[executors.kubernetes]
enabled = true
images = ["{IMAGE}"]
kubeconfig = "config"
"""
EVERYTHING = {"apiGroups": ["*"], "resources": ["jobs", "pods", "pods/log", "secrets", "leases"]}
VERBS = ["create", "get", "list", "patch", "delete"]


@pytest.mark.timeout(120)
async def test_from_a_definition_to_output(tmp_path: Path) -> None:
    fake = FakeServer()
    url = await fake.start()
    make_kubeconfig(tmp_path / "config", url, "worker-token", None)
    (tmp_path / "mainspring.toml").write_text(SETTINGS)
    certificate = make_certificate(tmp_path, make_authority(tmp_path))
    async with Api(url, "admin-token") as api:
        await api.make("roles", {"metadata": {"name": "all"}, "rules": [{**EVERYTHING, "verbs": VERBS}]})
        node = Node(api, {IMAGE}, {}, certificate)
        await node.start()
        try:
            await asyncio.to_thread(use_it, tmp_path)
        finally:
            await node.stop()
            await fake.stop()


def use_it(folder: Path) -> None:
    script = 'echo "hello $(cat $MAINSPRING_PAYLOAD_FILE)"'
    target = {"type": "kubernetes", "image": IMAGE, "command": ["sh", "-c", script]}
    (folder / "job.json").write_text(json.dumps({"jobs": [{"name": "hello", "target": target}]}))
    options = ("--store", "memory://", "--config", "mainspring.toml")
    with server(*options, cwd=folder) as (process, url):
        at = ("--server", url)
        applied = run("apply", "job.json", "--owner", "test", *at, cwd=folder)
        assert applied.returncode == 0, applied.stderr
        ran = run("job", "run", "hello", "--payload", '"you"', "--wait", "60", "--json", *at)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        (listed,) = json.loads(run("run", "list", "--json", *at).stdout)["items"]
        assert run("run", "logs", listed["run_id"], *at).stdout == 'hello "you"\n'
        assert asyncio.run(read_result(url, listed["run_id"])) == {"exit_code": 0}
        assert process.stop() == 0


async def read_result(url: str, run_id: str) -> object:
    return (await App(server=url).client.get_run(run_id)).result
