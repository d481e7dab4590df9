"""A fake of the part of Vault's HTTP API that Mainspring uses, with what tests need to set it up.

`tests/integration/test_vault.py` runs the same tests against it and against a real server.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from aiohttp import web

ROOT = "root"
_DEFAULT = {f"auth/token/{verb}-self": ["read", "update"] for verb in ("lookup", "renew", "revoke")}


@dataclass
class _Token:
    policies: list[str]
    ttl: float
    ends: float | None
    last_end: float | None
    is_renewable: bool
    role: _Role | None = None


@dataclass
class _Role:
    policies: list[str]
    ttl: float
    max_ttl: float
    role_id: str = ""
    needs_secret: bool = True
    secrets: set[str] = field(default_factory=set)


class FakeVault:
    """Keeps mounts, secrets, policies, roles and tokens in memory.

    Args:
        monotonic: its clock, in seconds.

    Attributes:
        requests: method and path of each.
        upgrading: the mounts that are on their way to version 2, and answer nothing meanwhile.
        accounts: from the token of a pod to its role's name, for logins by Kubernetes.
        answer_all: answers each request instead, if it is set.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.mounts: dict[str, int] = {"secret/": 2}
        self.upgrading: set[str] = set()
        self.logins: dict[str, str] = {"token/": "token"}
        self.kept: dict[str, list[Any]] = {}
        self.policies: dict[str, dict[str, list[str]]] = {"default": _DEFAULT}
        self.roles: dict[str, _Role] = {}
        self.accounts: dict[str, str] = {}
        self.tokens: dict[str, _Token] = {ROOT: _Token(["root"], 0, None, None, is_renewable=False)}
        self.is_sealed = False
        self.requests: list[tuple[str, str]] = []
        self.answer_all: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        path = request.path.removeprefix("/v1/")
        self.requests.append((request.method, path))
        if self.answer_all is not None:
            return await self.answer_all(request)
        if self.is_sealed:
            return _refuse(503, "Vault is sealed")
        text = await request.text()
        body = json.loads(text) if text else {}
        if path.startswith("auth/") and path.endswith("/login"):
            return self._log_in(path.removeprefix("auth/").removesuffix("login"), body)
        name = request.headers.get("X-Vault-Token", "")
        token = self.tokens.get(name)
        if token is None or (token.ends is not None and self._monotonic() >= token.ends):
            return _refuse(403, "permission denied")
        if path.startswith("sys/internal/ui/mounts/"):
            return self._show_mount(path.removeprefix("sys/internal/ui/mounts/"), token)
        verb = {"GET": "read", "DELETE": "delete"}.get(request.method, "update")
        if not self._may(token, path, verb):
            return _refuse(403, "1 error occurred:\n\t* permission denied\n\n")
        return self._carry_out(path, verb, body, name)

    def _carry_out(self, path: str, verb: str, body: dict[str, Any], token: str) -> web.Response:
        if path == "sys/seal":
            self.is_sealed = True
            return web.Response(status=204)
        for prefix, act in (
            ("sys/mounts/", lambda rest, given: self._mount(rest, given, verb)),
            ("sys/auth/", self._enable),
            ("sys/policies/acl/", self._write_policy),
            ("auth/token/", lambda rest, given: self._use_token(rest, given, token)),
            ("auth/approle/role/", lambda rest, given: self._use_role(rest, given, verb)),
        ):
            if path.startswith(prefix):
                return act(path.removeprefix(prefix), body)
        return self._use_kv(path, verb, body)

    def _may(self, token: _Token, path: str, verb: str) -> bool:
        if "root" in token.policies:
            return True
        return any(verb in capabilities for rule, capabilities in self._rules(token) if _fits(rule, path))

    def _rules(self, token: _Token) -> list[tuple[str, list[str]]]:
        return [rule for name in token.policies for rule in self.policies.get(name, {}).items()]

    def _show_mount(self, path: str, token: _Token) -> web.Response:
        mount = next((mount for mount in self.mounts if f"{path}/".startswith(mount)), None)
        is_seen = mount is not None and (
            "root" in token.policies or any(rule.startswith(mount) for rule, _ in self._rules(token))
        )
        if not is_seen:
            why = "please ensure client's policies grant access to path"
            return _refuse(403, f'preflight capability check returned 403, {why} "{path}/"')
        version = str(self.mounts[str(mount)])
        return _say({"data": {"path": mount, "type": "kv", "options": {"version": version}}})

    def _mount(self, path: str, body: dict[str, Any], verb: str) -> web.Response:
        if path.endswith("/tune"):
            return self._upgrade(path.removesuffix("tune"))
        if verb == "delete":
            del self.mounts[f"{path}/"]
            self.kept = {key: kept for key, kept in self.kept.items() if not key.startswith(f"{path}/")}
            return web.Response(status=204)
        self.mounts[f"{path}/"] = int(body.get("options", {}).get("version", "1"))
        return web.Response(status=204)

    def _upgrade(self, mount: str) -> web.Response:
        self.mounts[mount] = 2
        self.upgrading.add(mount)
        for path in [path for path in self.kept if path.startswith(mount)]:
            self.kept[f"{mount}data/{path.removeprefix(mount)}"] = self.kept.pop(path)[-1:]
        return _say({"data": None, "warnings": ["Upgrading mount"]})

    def _enable(self, path: str, body: dict[str, Any]) -> web.Response:
        self.logins[f"{path}/"] = body["type"]
        return web.Response(status=204)

    def _write_policy(self, name: str, body: dict[str, Any]) -> web.Response:
        rules = json.loads(body["policy"])["path"]
        self.policies[name] = {path: rule["capabilities"] for path, rule in rules.items()}
        return web.Response(status=204)

    def _use_role(self, rest: str, body: dict[str, Any], verb: str) -> web.Response:
        name, _, part = rest.partition("/")
        if not part and verb == "delete":
            del self.roles[name]
            return web.Response(status=204)
        if not part:
            self.roles[name] = _Role(
                body["token_policies"],
                body["token_ttl"],
                body["token_max_ttl"],
                role_id=str(uuid4()),
                needs_secret=body.get("bind_secret_id", True),
            )
            return web.Response(status=204)
        role = self.roles[name]
        if part == "role-id" and verb == "read":
            return _say({"data": {"role_id": role.role_id}})
        secret_id = str(uuid4())
        role.secrets.add(secret_id)
        return _say({"data": {"secret_id": secret_id}})

    def _log_in(self, mount: str, body: dict[str, Any]) -> web.Response:
        kind = self.logins.get(mount)
        if kind == "approle":
            role = next((one for one in self.roles.values() if one.role_id == body.get("role_id")), None)
            if role is None or (role.needs_secret and body.get("secret_id") not in role.secrets):
                return _refuse(400, "invalid role or secret ID")
        elif kind == "kubernetes":
            if body.get("role") not in self.roles:
                return _refuse(400, "invalid role name")
            if self.accounts.get(body.get("jwt", "")) != body["role"]:
                return _refuse(403, "permission denied")
            role = self.roles[body["role"]]
        else:
            return _refuse(403, "permission denied")
        policies = ["default", *role.policies]
        return self._give(policies, role.ttl, role.max_ttl, is_renewable=True, role=role)

    def _give(
        self,
        policies: list[str],
        ttl: float,
        max_ttl: float,
        *,
        is_renewable: bool,
        role: _Role | None = None,
    ) -> web.Response:
        now, name = self._monotonic(), f"hvs.{uuid4().hex}"
        self.tokens[name] = _Token(
            policies, ttl, now + ttl if ttl else None, now + max_ttl if max_ttl else None, is_renewable, role
        )
        return _say({"auth": {"client_token": name, "lease_duration": int(ttl), "renewable": is_renewable}})

    def _use_token(self, verb: str, body: dict[str, Any], name: str) -> web.Response:
        token, now = self.tokens[name], self._monotonic()
        if verb == "create":
            policies = [*body["policies"], *([] if body.get("no_default_policy") else ["default"])]
            ttl = float(str(body.get("ttl", "0s")).removesuffix("s"))
            return self._give(policies, ttl, 0, is_renewable=body.get("renewable", True))
        if verb == "lookup-self":
            ttl = 0 if token.ends is None else int(token.ends - now)
            return _say({"data": {"ttl": ttl, "renewable": token.is_renewable}})
        if verb == "renew-self":
            if not token.is_renewable:
                return _refuse(400, "lease is not renewable")
            if token.role is not None and token.role not in self.roles.values():
                return _refuse(500, "failed to renew entry: the role does not exist during renewal")
            if token.last_end is not None and token.last_end - now < 0.5:
                return _refuse(500, "past the max TTL, cannot renew")
            end = now + token.ttl
            token.ends = end if token.last_end is None else min(end, token.last_end)
            auth = {"client_token": name, "lease_duration": int(token.ends - now), "renewable": True}
            return _say({"auth": auth})
        del self.tokens[name if verb == "revoke-self" else body["token"]]
        return web.Response(status=204)

    def _use_kv(self, path: str, verb: str, body: dict[str, Any]) -> web.Response:
        mount = next((mount for mount in self.mounts if path.startswith(mount)), None)
        if mount is None:
            return _refuse(404, f"no handler for route {path!r}")
        is_second = self.mounts[mount] == 2
        if mount in self.upgrading and path.startswith(f"{mount}data/"):
            return _refuse(400, "Upgrading from non-versioned to versioned data.")
        versions = self.kept.setdefault(path, [])
        if verb == "update":
            versions.append(body["data"] if is_second else body)
            metadata = {"version": len(versions)}
            return _say({"data": metadata}) if is_second else web.Response(status=204)
        if verb == "delete":
            versions[-1:] = [None]
            return web.Response(status=204)
        if not versions or (not is_second and versions[-1] is None):
            return _say({"errors": []}, status=404)
        if not is_second:
            return _say({"data": versions[-1]})
        said = {"data": {"data": versions[-1], "metadata": {"version": len(versions)}}}
        return _say(said, status=404 if versions[-1] is None else 200)


def _fits(rule: str, path: str) -> bool:
    return path.startswith(rule[:-1]) if rule.endswith("*") else path == rule


def _say(said: dict[str, Any], *, status: int = 200) -> web.Response:
    return web.json_response(said, status=status)


def _refuse(status: int, error: str) -> web.Response:
    return _say({"errors": [error]}, status=status)
