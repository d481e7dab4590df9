"""What the API server is sent: the Job of an attempt, and the Secret that it reads."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from mainspring.core.ids import format_run_id
from mainspring.core.values import value
from mainspring.executors._commands import describe
from mainspring.ports.executor import AttemptContext

MANAGED = "app.kubernetes.io/managed-by=mainspring"
RUN, TOKEN, WORKER = "mainspring.run", "mainspring.token", "mainspring.worker"
CONTAINER = "job"
PAYLOAD_FILE = "MAINSPRING_PAYLOAD_FILE"
_FOLDER = "/run/mainspring"
_PAYLOAD = "payload"
_LATER = 60
"""Seconds behind the time limit after which Kubernetes itself ends a Job: nobody else has."""
_KEPT = 3600
"""Seconds for which a Job is kept that has ended, and that nobody has removed."""
_NOT_IN_ANNOTATIONS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@value(kw_only=True)
class PodRules:
    """What the worker's settings say about all Jobs."""

    pull_secrets: tuple[str, ...]
    as_root: bool
    grace: timedelta


@value(kw_only=True)
class WantedJob:
    """An attempt as Kubernetes is to run it.

    Attributes:
        params: its checked target.
        memory: in MiB.
        env: the job's own variables, filled.
        secret_names: those of them that hold a secret.
        worker: the mark of the worker.
    """

    context: AttemptContext
    params: Mapping[str, Any]
    namespace: str
    memory: int
    cpus: float
    env: Mapping[str, str]
    secret_names: frozenset[str]
    worker: str

    @property
    def name(self) -> str:
        """Its Job's name, the same for all attempts of the run, so that no two of them are there at a time."""
        return job_name(self.context)

    @property
    def secret(self) -> str | None:
        """The name of its Secret, which differs from those of other attempts; None if it needs none."""
        return secret_name(self.name, self.context.token) if self._secret_data() else None

    def labels(self) -> dict[str, str]:
        """Return the labels of all that belongs to it."""
        manager, _, product = MANAGED.partition("=")
        return {
            manager: product,
            RUN: format_run_id(self.context.run_id),
            TOKEN: str(self.context.token),
            WORKER: self.worker,
        }

    def secret_body(self, owner: Mapping[str, Any]) -> dict[str, Any]:
        """Return its Secret, which goes with its owner."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.secret, "labels": self.labels(), "ownerReferences": [owner]},
            "type": "Opaque",
            "immutable": True,
            "data": self._secret_data(),
        }

    def job_body(self, owner: Mapping[str, Any], rules: PodRules) -> dict[str, Any]:
        """Return its Job, which goes with its owner."""
        context = self.context
        notes = {"mainspring.job": context.job_name, "mainspring.tenant": context.tenant}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": self.name,
                "labels": self.labels(),
                "annotations": {name: _NOT_IN_ANNOTATIONS.sub("?", text) for name, text in notes.items()},
                "ownerReferences": [owner],
            },
            "spec": {
                "backoffLimit": 0,
                "completions": 1,
                "parallelism": 1,
                "podReplacementPolicy": "Failed",
                "activeDeadlineSeconds": _whole(context.timeout) + _LATER,
                "ttlSecondsAfterFinished": _KEPT,
                "template": {"metadata": {"labels": self.labels()}, "spec": self._pod(rules)},
            },
        }

    def _pod(self, rules: PodRules) -> dict[str, Any]:
        params = self.params
        account = params.get("service_account")
        pod: dict[str, Any] = {
            "restartPolicy": "Never",
            "containers": [self._container()],
            "automountServiceAccountToken": account is not None,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": _whole(rules.grace),
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        }
        if not rules.as_root:
            pod["securityContext"]["runAsNonRoot"] = True
        if account is not None:
            pod["serviceAccountName"] = account
        if rules.pull_secrets:
            pod["imagePullSecrets"] = [{"name": name} for name in rules.pull_secrets]
        if "node_selector" in params:
            pod["nodeSelector"] = params["node_selector"]
        if "tolerations" in params:
            pod["tolerations"] = [_toleration(one) for one in params["tolerations"]]
        if self.context.payload is not None:
            items = [{"key": _PAYLOAD, "path": _PAYLOAD}]
            source = {"secretName": self.secret, "items": items, "defaultMode": 0o444}
            pod["volumes"] = [{"name": "mainspring", "secret": source}]
        return pod

    def _container(self) -> dict[str, Any]:
        most = {"memory": f"{self.memory}Mi", "cpu": f"{math.ceil(self.cpus * 1000)}m"}
        container: dict[str, Any] = {
            "name": CONTAINER,
            "image": self.params["image"],
            "env": self._variables(),
            "resources": {"requests": most, "limits": most},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        for field in ("command", "args"):
            if field in self.params:
                container[field] = _literal(self.params[field])
        if self.context.payload is not None:
            container["volumeMounts"] = [{"name": "mainspring", "mountPath": _FOLDER, "readOnly": True}]
        return container

    def _variables(self) -> list[dict[str, Any]]:
        own = describe(self.context)
        if self.context.payload is not None:
            own[PAYLOAD_FILE] = f"{_FOLDER}/{_PAYLOAD}"
        plain = {name: text for name, text in self.env.items() if name not in self.secret_names} | own
        variables: list[dict[str, Any]] = [
            {"name": name, "value": _literal([text])[0]} for name, text in plain.items()
        ]
        for name, key in self._keys().items():
            source = {"secretKeyRef": {"name": self.secret, "key": key}}
            variables.append({"name": name, "valueFrom": source})
        return variables

    def _keys(self) -> dict[str, str]:
        """Return the keys in the Secret by variable: names of variables may have letters that keys may not."""
        return {name: f"env-{index}" for index, name in enumerate(sorted(self.secret_names))}

    def _secret_data(self) -> dict[str, str]:
        plain = {key: self.env[name].encode() for name, key in self._keys().items()}
        if self.context.payload is not None:
            plain[_PAYLOAD] = self.context.payload
        return {key: base64.b64encode(data).decode() for key, data in plain.items()}


def job_name(context: AttemptContext) -> str:
    """Return the name of the Job of a run."""
    return f"ms-{format_run_id(context.run_id).removeprefix('run_')}"


def secret_name(job: str, token: int | str) -> str:
    """Return the name of the Secret of an attempt."""
    return f"{job}-{token}"


def _literal(texts: Sequence[str]) -> list[str]:
    """Return texts that Kubernetes passes on as they are: in its own, `$(NAME)` stands for a variable."""
    return [text.replace("$", "$$") for text in texts]


def _toleration(one: Mapping[str, Any]) -> dict[str, Any]:
    return {("tolerationSeconds" if name == "seconds" else name): each for name, each in one.items()}


def _whole(duration: timedelta) -> int:
    return math.ceil(duration.total_seconds())
