"""An API server that is not Kubernetes' own, with what it has controllers do for Jobs.

It keeps objects as they were sent, once the models that are made from Kubernetes' own description find no unknown field
in them. What it does with them is what the real one was seen to do: all tests that run on it run on the real one, too.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp import web
from kubernetes_asyncio import client

TOKENS = {"admin-token": "admin", "worker-token": "worker"}
_MODELS = {
    "jobs": "V1Job",
    "pods": "V1Pod",
    "secrets": "V1Secret",
    "leases": "V1Lease",
    "nodes": "V1Node",
    "roles": "V1Role",
    "rolebindings": "V1RoleBinding",
    "serviceaccounts": "V1ServiceAccount",
}
_KINDS = {name: model.removeprefix("V1") for name, model in _MODELS.items()}
_FOREGROUND = "foregroundDeletion"
Thing = dict[str, Any]


class FakeServer:
    """Keeps objects, and is the controllers of Jobs, of owners and of namespaces.

    Attributes:
        is_down: every connection is cut at once.
        tokens: users by their tokens.
        lost: how many answers to calls that make something are lost after it was made.
        refusals: answers to calls that make something, before anything else is tried.
    """

    def __init__(self) -> None:
        self.is_down = False
        self.tokens = dict(TOKENS)
        self.lost = 0
        self.refusals: list[tuple[int, str, str]] = []
        self.calls: list[tuple[str, str]] = []
        self._things: dict[tuple[str, str, str], Thing] = {}
        self._version = 100
        self._client: Any = client.ApiClient()
        self._timers: list[asyncio.TimerHandle] = []

    async def start(self) -> str:
        """Start it, and return its address."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Stop it."""
        for timer in self._timers:
            timer.cancel()
        await self._runner.cleanup()
        await self._client.close()

    # -- calls -------------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        user = self.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if self.is_down and user != "admin":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if user is None:
            return _status(401, "Unauthorized", "Unauthorized")
        namespace, kind, name, part = _divide(request.path)
        if user == "worker":
            self.calls.append((request.method, kind + (f"/{part}" if part else "")))
            if not self._may(request.method, kind, name, part, namespace):
                message = f'{kind} is forbidden: User "worker" cannot do this in the namespace "{namespace}"'
                return _status(403, "Forbidden", message)
        body = json.loads(await request.read() or b"null") or {}
        if part == "log":
            return await self._proxy_log(request, namespace, name)
        answer = self._act(request.method, (namespace, kind, name), part, body, request.query)
        self._control()
        if request.method == "POST" and user == "worker" and self.lost and kind == "jobs":
            self.lost -= 1
            assert request.transport is not None
            request.transport.close()
        return answer

    def _may(self, method: str, kind: str, name: str, part: str, namespace: str) -> bool:
        """Say whether the worker's Role lets it do this."""
        verbs = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "GET": "get" if name else "list"}
        resource = f"{kind}/{part}" if part else kind
        for (where, what, _), role in self._things.items():
            if what == "roles" and where == namespace:
                for rule in role["rules"]:
                    if resource in rule["resources"] and verbs[method] in rule["verbs"]:
                        return True
        return False

    def _act(
        self, method: str, place: tuple[str, str, str], part: str, body: Thing, query: Mapping[str, str]
    ) -> web.Response:
        namespace, kind, name = place
        if method == "GET" and not name:
            wanted = query.get("labelSelector", "")
            some = [
                one
                for (where, what, _), one in self._things.items()
                if (where, what) == (namespace, kind) and _has(one, wanted)
            ]
            return web.json_response({"kind": "List", "metadata": {}, "items": some})
        if method == "POST" and part != "binding":
            return self._create(namespace, kind, body)
        thing = self._things.get(place)
        if thing is None:
            return _status(404, "NotFound", f'{kind} "{name}" not found')
        if method == "POST":
            thing["spec"]["nodeName"] = body["target"]["name"]
        elif method == "PATCH":
            _merge(thing, body)
        elif method == "DELETE":
            wrong = [
                field
                for field, value in body.get("preconditions", {}).items()
                if thing["metadata"][field] != value
            ]
            if wrong:
                return _status(409, "Conflict", f"the {wrong[0]} in the precondition does not match")
            self._delete(place, body)
            return web.json_response(thing)
        if method in {"PATCH", "POST"}:
            self._version += 1
            thing["metadata"]["resourceVersion"] = str(self._version)
        return web.json_response(thing)

    def _create(self, namespace: str, kind: str, body: Thing) -> web.Response:
        if self.refusals and kind == "jobs":
            return _status(*self.refusals.pop(0))
        unknown = self._check(kind, body)
        if unknown is not None:
            return _status(422, "Invalid", f"{kind}: {unknown}")
        metadata = body["metadata"]
        if (namespace, kind, metadata["name"]) in self._things:
            return _status(409, "AlreadyExists", f'{kind} "{metadata["name"]}" already exists')
        return web.json_response(self._put(namespace, kind, body), status=201)

    def _check(self, kind: str, body: Thing) -> str | None:
        """Return which part of a body Kubernetes does not know; None if it knows all of it."""
        read = self._client.deserialize(SimpleNamespace(data=json.dumps(body)), _MODELS[kind])
        return _difference(body, self._client.sanitize_for_serialization(read), "")

    def _put(self, namespace: str, kind: str, body: Thing) -> Thing:
        self._version += 1
        body["metadata"] |= {
            "namespace": namespace,
            "uid": secrets.token_hex(8),
            "resourceVersion": str(self._version),
            "creationTimestamp": _now(),
        }
        self._things[namespace, kind, body["metadata"]["name"]] = body
        return {"kind": _KINDS[kind], **body}

    def _delete(self, place: tuple[str, str, str], options: Thing) -> None:
        _, kind, _ = place
        thing = self._things[place]
        metadata = thing["metadata"]
        if kind == "pods":
            grace = options.get("gracePeriodSeconds", thing["spec"]["terminationGracePeriodSeconds"])
            phase = (thing.get("status") or {}).get("phase")
            if grace and thing["spec"].get("nodeName") and phase not in {"Succeeded", "Failed"}:
                known = metadata.get("deletionGracePeriodSeconds", grace)
                metadata.setdefault("deletionTimestamp", _now())
                metadata["deletionGracePeriodSeconds"] = min(grace, known)
                return
        if kind == "jobs" and options.get("propagationPolicy") == "Foreground":
            metadata["deletionTimestamp"] = _now()
            metadata["finalizers"] = [_FOREGROUND]
            return
        del self._things[place]

    async def _proxy_log(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        pod = self._things.get((namespace, "pods", name))
        if pod is None:
            return _status(404, "NotFound", f'pods "{name}" not found')
        nodes = [one for (_, kind, _), one in self._things.items() if kind == "nodes"]
        port = nodes[0]["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        url = f"https://127.0.0.1:{port}/containerLogs/{namespace}/{name}/{request.query['container']}"
        async with aiohttp.ClientSession() as session:
            context = ssl._create_unverified_context()  # as an API server without its authority
            async with session.get(url, params=request.query, ssl=context) as log:
                if not log.ok:
                    return _status(log.status, "BadRequest", await log.text())
                response = web.StreamResponse()
                await response.prepare(request)
                async for data in log.content.iter_any():
                    await response.write(data)
                return response

    # -- controllers -------------------------------------------------------------------------------------------------

    def _control(self) -> None:
        """Do what controllers do, until there is nothing left to do."""
        while self._collect() or any(self._run_job(place) for place in list(self._things)):
            pass

    def _collect(self) -> bool:
        """Remove one object whose owner is gone, or one that waits for what it owns."""
        uids = {thing["metadata"]["uid"]: place for place, thing in self._things.items()}
        for place, thing in list(self._things.items()):
            metadata = thing["metadata"]
            owners = [one["uid"] for one in metadata.get("ownerReferences", ())]
            going = [
                uid
                for uid in owners
                if uid not in uids or _FOREGROUND in self._things[uids[uid]]["metadata"].get("finalizers", ())
            ]
            if going and "deletionTimestamp" not in metadata:
                self._delete(place, {})
                return True
            owned = [
                one
                for one in self._things.values()
                if metadata["uid"] in [each["uid"] for each in one["metadata"].get("ownerReferences", ())]
            ]
            if _FOREGROUND in metadata.get("finalizers", ()) and not owned:
                del self._things[place]
                return True
        return False

    def _run_job(self, place: tuple[str, str, str]) -> bool:
        """Make a Job's pod, or note how it ended; False if there is nothing to do."""
        namespace, kind, name = place
        job = self._things.get(place)
        if kind != "jobs" or job is None or "deletionTimestamp" in job["metadata"]:
            return False
        conditions = job.setdefault("status", {}).setdefault("conditions", [])
        if conditions:
            return False
        uid = job["metadata"]["uid"]
        if "startTime" not in job["status"]:
            job["status"]["startTime"] = _now()
            pod = {
                "apiVersion": "v1",
                "metadata": {
                    **json.loads(json.dumps(job["spec"]["template"]["metadata"])),
                    "name": f"{name}-{secrets.token_hex(3)}",
                    "ownerReferences": [{"kind": "Job", "name": name, "uid": uid, "controller": True}],
                },
                "spec": json.loads(json.dumps(job["spec"]["template"]["spec"])),
                "status": {"phase": "Pending"},
            }
            self._put(namespace, "pods", pod)
            self._limit(place, uid, job["spec"]["activeDeadlineSeconds"])
            return True
        pods = [
            one
            for (_, what, _), one in self._things.items()
            if what == "pods" and any(each["uid"] == uid for each in one["metadata"]["ownerReferences"])
        ]
        phases = [(one.get("status") or {}).get("phase") for one in pods]
        if phases == ["Succeeded"]:
            conditions.append({"type": "Complete", "status": "True", "reason": "CompletionsReached"})
        elif not pods or phases == ["Failed"]:
            told = job["status"].pop("late", None) or (
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            )
            conditions.append({"type": "Failed", "status": "True", "reason": told[0], "message": told[1]})
        return bool(conditions)

    def _limit(self, place: tuple[str, str, str], uid: str, seconds: int) -> None:
        def end() -> None:
            job = self._things.get(place)
            if job is None or job["metadata"]["uid"] != uid or job["status"].get("conditions"):
                return
            job["status"]["late"] = ("DeadlineExceeded", "Job was active longer than specified deadline")
            for where, pod in list(self._things.items()):
                if where[1] == "pods" and pod["metadata"]["ownerReferences"][0]["uid"] == uid:
                    self._delete(where, {})
            self._control()

        self._timers.append(asyncio.get_running_loop().call_later(seconds, end))


def _divide(path: str) -> tuple[str, str, str, str]:
    """Return the namespace, the kind, the name and the part that an address is of."""
    words = path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:]
    namespace = ""
    if words[0] == "namespaces" and len(words) > 2:
        namespace, words = words[1], words[2:]
    kind, name, part = (*words, "", "", "")[:3]
    return namespace, kind, name, part


def _has(thing: Thing, selector: str) -> bool:
    labels = thing["metadata"].get("labels") or {}
    for one in selector.split(",") if selector else ():
        name, is_equal, wanted = one.partition("=")
        if name not in labels or (is_equal and labels[name] != wanted):
            return False
    return True


def _merge(thing: Thing, change: Mapping[str, Any]) -> None:
    for name, value in change.items():
        if isinstance(value, Mapping) and isinstance(thing.get(name), dict):
            _merge(thing[name], value)
        else:
            thing[name] = value


def _difference(given: Any, known: Any, path: str) -> str | None:
    """Return the first field that was given and is not known."""
    if isinstance(given, dict):
        for name, each in given.items():
            if not isinstance(known, dict) or name not in known:
                return f'unknown field "{path}{name}"'
            found = _difference(each, known[name], f"{path}{name}.")
            if found is not None:
                return found
    elif isinstance(given, list):
        for index, each in enumerate(given):
            found = _difference(each, known[index], f"{path[:-1]}[{index}].")
            if found is not None:
                return found
    elif given != known and not path.startswith("spec.renewTime"):
        return f"{path[:-1]} is {given!r}"
    return None


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
