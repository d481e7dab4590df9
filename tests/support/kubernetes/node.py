"""A node: runs the program of each pod as a process of this machine, and tells the API server how it goes.

It stands for scheduler, kubelet and image, and does what these do as far as it is told: names of variables in the
program's arguments are filled in, Secrets are read, a pod that is deleted gets SIGTERM and later SIGKILL, and its log
can be read with times in front of the lines.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import signal
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.certificates import Pair
from tests.support.kubernetes.api import PATHS, Api, ApiError

NAME = "node-1"
_PERIOD = 0.05
_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")


class Program:
    """The container of one pod: its process, and what it has printed."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self.lines: list[tuple[datetime, int, bytes]] = []
        self.more = asyncio.Event()
        self.has_ended = False
        self.task: asyncio.Task[None] | None = None
        self.is_stopping = False
        self.is_evicted = False


class Node:
    """Runs pods.

    Attributes:
        breaks: how many lines of a log are sent before the connection is cut, for each of the next connections.
        images: names of images that exist.
        most: how many programs were at work at a time, at most.
    """

    def __init__(self, api: Api, images: set[str], labels: dict[str, str], certificate: Pair) -> None:
        self._api = api
        self.images = images
        self.labels = labels
        self.breaks: list[int] = []
        self.is_down = False
        self._certificate = certificate
        self.most = 0
        self._programs: dict[str, Program] = {}
        self._namespaces = ("default", "reports")
        self._folder = tempfile.TemporaryDirectory(prefix="node-")

    async def start(self) -> None:
        """Begin to take pods."""
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._send_log)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate.cert, self._certificate.key)
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = self._runner.addresses[0][1]
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        labels = {"labels": self.labels}
        await self._api.make("nodes", {"kind": "Node", "metadata": {"name": NAME, **labels}})
        await self._api.call("PATCH", f"{PATHS['nodes']}/{NAME}/status", {"status": status})
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End all of them."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for program in self._programs.values():
            self._signal(program, signal.SIGKILL)
            if program.task is not None:
                await asyncio.gather(program.task, return_exceptions=True)
            program.has_ended = True
            program.more.set()
        await self._runner.cleanup()
        await self._api.delete("nodes", NAME)
        self._folder.cleanup()

    def processes(self) -> int:
        """Return how many programs are at work."""
        return sum(1 for one in self._programs.values() if one.process is not None and not one.has_ended)

    async def _run(self) -> None:
        while True:
            if not self.is_down:
                for namespace in self._namespaces:
                    for pod in await self._api.all("pods", namespace):
                        with contextlib.suppress(ApiError):  # it changed meanwhile: the next look is soon
                            await self._look_at(pod)
            await asyncio.sleep(_PERIOD)

    async def _look_at(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        program = self._programs.get(uid)
        if "deletionTimestamp" in pod["metadata"]:
            await self._delete(pod, program)
        elif program is None and _is_new(pod) and await self._bind(pod):
            program = self._programs[uid] = Program()
            program.task = asyncio.create_task(self._carry_out(pod, program))

    async def _bind(self, pod: dict[str, Any]) -> bool:
        wanted = pod["spec"].get("nodeSelector") or {}
        if not wanted.items() <= self.labels.items():
            message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
            }
            await self._tell(pod, {"conditions": [condition]})
            return False
        if not pod["spec"].get("nodeName"):
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod["metadata"]["name"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NAME},
            }
            await self._api.call("POST", f"{_path(pod)}/binding", body)
        return True

    async def _delete(self, pod: dict[str, Any], program: Program | None) -> None:
        if program is not None and program.process is not None and not program.has_ended:
            if not program.is_stopping:
                program.is_stopping = True
                self._signal(program, signal.SIGTERM)
                grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
                asyncio.get_running_loop().call_later(grace, self._signal, program, signal.SIGKILL)
            return
        if program is not None and program.task is not None and not program.task.done():
            return
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._api.delete("pods", pod["metadata"]["name"], pod["metadata"]["namespace"], **options)

    def _signal(self, program: Program, number: signal.Signals) -> None:
        if program.process is not None and not program.has_ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.process.pid, number)

    async def _carry_out(self, pod: dict[str, Any], program: Program) -> None:
        container = pod["spec"]["containers"][0]
        image = container["image"]
        if image not in self.images:
            reason = "InvalidImageName" if image.endswith(":") else "ErrImagePull"
            waiting = {"reason": reason, "message": f"no image {image}"}
            await self._tell(pod, _status(pod, "Pending", {"waiting": waiting}))
            return
        env = await self._environment(pod, container)
        argv = [_fill(text, env) for text in (*container.get("command", ()), *container.get("args", ()))]
        try:
            program.process = await asyncio.create_subprocess_exec(
                *argv,
                env={"PATH": os.environ["PATH"], **env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            program.has_ended = True
            await self._end(pod, 128, "StartError", str(error))
            return
        self.most = max(self.most, self.processes())
        await self._tell(pod, _status(pod, "Running", {"running": {"startedAt": _now()}}))
        assert program.process.stdout is not None
        while line := await program.process.stdout.readline():
            now = datetime.now(UTC)
            nanoseconds = now.microsecond * 1000 + len(program.lines) % 2  # some lines have the same time
            program.lines.append((now, nanoseconds, line))
            program.more.set()
        code = await program.process.wait()
        program.has_ended = True
        program.more.set()
        if program.is_evicted:  # which was told in another way
            return
        code = 128 - code if code < 0 else code
        reason = "Completed" if code == 0 else "Error"
        await self._end(pod, code, "OOMKilled" if code == 137 and not program.is_stopping else reason)

    async def _end(self, pod: dict[str, Any], code: int, reason: str, message: str = "") -> None:
        ended = {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": _now(),
            "finishedAt": _now(),
        }
        phase = "Failed" if code else "Succeeded"
        await self._tell(pod, _status(pod, phase, {"terminated": ended}))

    async def evict(self, pod: dict[str, Any]) -> None:
        """Have a pod end as a node does that runs out of memory."""
        program = self._programs[pod["metadata"]["uid"]]
        program.is_evicted = True
        self._signal(program, signal.SIGKILL)
        assert program.task is not None
        await program.task
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        told = {"reason": "Evicted", "message": "The node was low on resource: memory."}
        status = {"phase": "Failed", **told, "conditions": [{**condition, "message": told["message"]}]}
        await self._tell(pod, {**status, "containerStatuses": []})

    async def _tell(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        await self._api.call("PATCH", f"{_path(pod)}/status", {"status": status})

    async def _environment(self, pod: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
        namespace = pod["metadata"]["namespace"]
        env: dict[str, str] = {}
        for variable in container.get("env", ()):
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference is None:
                env[variable["name"]] = _fill(variable.get("value", ""), env)
            else:
                data = await self._secret(namespace, reference["name"])
                env[variable["name"]] = data[reference["key"]].decode()
        mounts = {one["name"]: one["mountPath"] for one in container.get("volumeMounts", ())}
        for volume in pod["spec"].get("volumes") or ():
            if "secret" not in volume:  # a token of a service account
                continue
            folder = Path(self._folder.name) / pod["metadata"]["uid"]
            folder.mkdir()
            data = await self._secret(namespace, volume["secret"]["secretName"])
            for item in volume["secret"]["items"]:
                (folder / item["path"]).write_bytes(data[item["key"]])
            for name, text in env.items():  # a process of this machine has no mounts of its own
                env[name] = text.replace(mounts[volume["name"]], str(folder))
        return env

    async def _secret(self, namespace: str, name: str) -> dict[str, bytes]:
        found = await self._api.get("secrets", name, namespace)
        assert found is not None, f"there is no Secret {name}"
        return {key: base64.b64decode(text) for key, text in found["data"].items()}

    async def _send_log(self, request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        pod = await self._api.get("pods", name, namespace)
        program = self._programs.get(pod["metadata"]["uid"]) if pod is not None else None
        if program is None:
            return web.Response(status=400, text=f"container in pod {name} is waiting to start")
        since = request.query.get("sinceTime")
        since = None if since is None else since.replace("Z", "+00:00")
        most = self.breaks.pop(0) if self.breaks and not program.has_ended else None
        response = web.StreamResponse()
        await response.prepare(request)
        sent = at = 0
        while True:
            for time, nanoseconds, line in program.lines[at:]:
                at += 1
                if since is not None and time.replace(microsecond=0) < datetime.fromisoformat(since):
                    continue
                stamp = f"{time:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z ".encode()
                if most is not None and sent >= most:
                    await response.write(stamp + line[: len(line) // 2])
                    return response
                await response.write(stamp + line)
                sent += 1
            if program.has_ended and at == len(program.lines):
                return response
            program.more.clear()
            await program.more.wait()


def _fill(text: str, env: dict[str, str]) -> str:
    """Fill in variables as Kubernetes does: `$(NAME)`, and `$$` for `$`."""

    def one(found: re.Match[str]) -> str:
        return "$" if found[1] == "$" else env.get(found[2], found[0])

    return _REFERENCE.sub(one, text)


def _status(pod: dict[str, Any], phase: str, state: dict[str, Any]) -> dict[str, Any]:
    container = pod["spec"]["containers"][0]
    told = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": "running" in state,
        "restartCount": 0,
        "state": state,
    }
    scheduled = {"type": "PodScheduled", "status": "True"}
    return {"phase": phase, "conditions": [scheduled], "containerStatuses": [told]}


def _is_new(pod: dict[str, Any]) -> bool:
    return bool((pod.get("status") or {}).get("phase", "Pending") == "Pending")


def _path(pod: dict[str, Any]) -> str:
    return f"{PATHS['pods'].format(pod['metadata']['namespace'])}/{pod['metadata']['name']}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
