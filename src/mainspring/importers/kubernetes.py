"""Reads Kubernetes' CronJobs from manifests in JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mainspring.errors import InvalidInput, MissingExtra
from mainspring.importers.found import (
    Imported,
    ImportedJob,
    ImportNote,
    ImportProblem,
    Place,
    check_body,
    refusal,
    refuse_same_names,
)
from mainspring.importers.kubernetes_pod import read_pod
from mainspring.importers.kubernetes_schedule import read_schedule
from mainspring.importers.yaml_text import read_documents

_ANY_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)
_OVERLAPS = {"Allow": "allow", "Forbid": "skip", "Replace": "cancel_running"}
_BACKOFF_LIMIT = 6
_BACKOFF = {"backoff": "exponential", "delay": "10s", "cap": "6m"}
_NO_YAML = (
    "is not JSON, and to read YAML PyYAML is needed: pip install 'mainspring[yaml]'. "
    "Or give JSON, which needs nothing: kubectl get cronjobs -o json"
)


def read_cron_jobs(texts: Sequence[tuple[str, str]], *, tz: str = "UTC", commands: bool = False) -> Imported:
    """Read the CronJobs in some files. Objects of other kinds are passed over.

    Args:
        texts: names of files, and what is in them.
        tz: the zone of CronJobs without `timeZone`.
        commands: import what a container runs as a command of the worker's machine, without the image. By default
            it stays a Job of Kubernetes.
    """
    reader = _Reader(tz=tz, commands=commands)
    for file, text in texts:
        try:
            for document in _documents(text):
                reader.read(file, document)
        except InvalidInput as error:
            reader.problems.append(refusal(file, error))
    entries, doubled = refuse_same_names(reader.entries)
    return Imported(tuple(entries), (*reader.problems, *doubled), tuple(reader.notes))


def _documents(text: str) -> Iterable[Any]:
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        pass
    try:
        return read_documents(text, "file")
    except MissingExtra:
        raise InvalidInput("file", _NO_YAML) from None


@dataclass(slots=True)
class _Reader:
    tz: str
    commands: bool
    entries: list[ImportedJob] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[ImportNote] = field(default_factory=list)

    def read(self, file: str, document: Any) -> None:
        """Read one document: a CronJob, or a list that may hold some."""
        if document is None:
            return
        if not isinstance(document, Mapping):
            raise InvalidInput("file", f"holds {type(document).__name__} where a Kubernetes object belongs")
        kind = document.get("kind")
        if isinstance(kind, str) and kind.endswith("List"):
            for item in _list(document, "items"):
                self.read(file, item)
        elif kind == "CronJob":
            metadata = _mapping(document, "metadata")
            name = str(metadata.get("name") or "")
            namespace = str(metadata.get("namespace") or "default")
            place = f"{file}, CronJob {namespace}/{name or '?'}"
            try:
                self._read_job(
                    place, name if namespace == "default" else f"{namespace}.{name}", name, document
                )
            except InvalidInput as error:
                self.problems.append(refusal(place, error))

    def _read_job(self, place: Place, full_name: str, name: str, document: Mapping[str, Any]) -> None:
        if not name:
            raise InvalidInput("metadata.name", "is missing")
        spec = _mapping(document, "spec")
        job = _mapping(spec, "jobTemplate.spec")
        if not isinstance(spec.get("suspend", False), bool | None):
            raise InvalidInput("spec.suspend", f"must be true or false, not {spec['suspend']!r}")
        zone = spec.get("timeZone") or self.tz
        body: dict[str, Any] = {
            "name": full_name,
            **_timing(spec, zone),
            "target": self._target(document, job),
        }
        body |= {
            "retry": {"max_retries": _whole(job, "backoffLimit", _BACKOFF_LIMIT), **_BACKOFF},
            **_policies(spec, job),
        }
        check_body(body, _ANY_INSTANT)
        self._note(place, spec, job)
        self.entries.append(ImportedJob(place, body, is_paused=spec.get("suspend") is True))

    def _note(self, place: Place, spec: Mapping[str, Any], job: Mapping[str, Any]) -> None:
        if not spec.get("timeZone"):
            words = f"no timeZone: its times are read in {self.tz}; if the cluster's controller is elsewhere, give --tz"
            self.notes.append(ImportNote(place, words))
        if spec.get("suspend") is True:
            self.notes.append(ImportNote(place, "is suspended, so the job is paused when it is created"))
        if "activeDeadlineSeconds" in job:
            words = "activeDeadlineSeconds bounds each attempt, not all attempts together"
            self.notes.append(ImportNote(place, words))
        for limit in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            if limit in spec:
                words = f"{limit} is not used: how long runs are kept is a setting of the server (retention)"
                self.notes.append(ImportNote(place, words))

    def _target(self, document: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
        for option in ("parallelism", "completions"):
            if _whole(job, option, 1) != 1:
                raise InvalidInput(
                    f"spec.jobTemplate.spec.{option}", "more than one pod for each run comes with workflows"
                )
        pod = _mapping(job, "template.spec")
        containers = _list(pod, "containers")
        if pod.get("initContainers") or len(containers) != 1:
            raise InvalidInput("containers", "several containers come with workflows; a job runs one command")
        container = containers[0]
        if not isinstance(container, Mapping):
            raise InvalidInput("containers", "must hold an object")
        environment = _environment(container)
        if self.commands:
            return _shell_target(container, environment)
        target = read_pod(pod, container, environment, lambda word: _expand(word, environment))
        namespace = _mapping(document, "metadata").get("namespace")
        return {**target, "namespace": namespace} if namespace else target


def _environment(container: Mapping[str, Any]) -> dict[str, str]:
    environment: dict[str, str] = {}
    for item in _list(container, "env"):
        if not isinstance(item, Mapping) or "valueFrom" in item:
            name = item.get("name") if isinstance(item, Mapping) else item
            raise InvalidInput(f"env.{name}", "comes from the cluster (valueFrom); give it a value here")
        environment[str(item.get("name"))] = str(item.get("value", ""))
    if container.get("envFrom"):
        raise InvalidInput("envFrom", "comes from the cluster; write the variables out as env")
    return environment


def _shell_target(container: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    command = [*_list(container, "command"), *_list(container, "args")]
    if not container.get("command"):
        raise InvalidInput(
            "command", "is missing: it is in the image, which Mainspring does not read; write it out"
        )
    target: dict[str, Any] = {
        "type": "shell",
        "command": [_expand(str(word), environment) for word in command],
    }
    if environment:
        target["env"] = dict(environment)
    if container.get("workingDir"):
        target["cwd"] = str(container["workingDir"])
    return target


def _expand(word: str, environment: Mapping[str, str]) -> str:
    """Put values of variables in the place of `$(NAME)`, as Kubernetes does; `$$` is one `$`."""
    out, at = "", 0
    while at < len(word):
        if word.startswith("$$", at):
            out, at = out + "$", at + 2
            continue
        end = word.find(")", at)
        name = word[at + 2 : end] if word.startswith("$(", at) and end > 0 else None
        if name is not None and name in environment:
            out, at = out + environment[name], end + 1
        else:
            out, at = out + word[at], at + 1
    return out


def _timing(spec: Mapping[str, Any], zone: Any) -> dict[str, Any]:
    schedule = spec.get("schedule")
    if not isinstance(schedule, str) or not schedule.strip():
        raise InvalidInput("spec.schedule", "is missing; give it like '30 2 * * *'")
    if not isinstance(zone, str):
        raise InvalidInput("spec.timeZone", "must be text, like Europe/Berlin")
    try:
        return read_schedule(schedule, zone)
    except InvalidInput as error:
        raise InvalidInput(f"spec.{error.field}", error.message) from None


def _policies(spec: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    policy = spec.get("concurrencyPolicy", "Allow")
    if policy not in _OVERLAPS:
        raise InvalidInput("spec.concurrencyPolicy", f"{policy!r} is none of {', '.join(_OVERLAPS)}")
    policies: dict[str, Any] = {"overlap": _OVERLAPS[policy]}
    if "startingDeadlineSeconds" in spec:
        policies["expires_after"] = _whole(spec, "startingDeadlineSeconds", 0)
    if "activeDeadlineSeconds" in job:
        policies["timeout"] = _whole(job, "activeDeadlineSeconds", 0)
    return policies


def _mapping(parent: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    found: Any = parent
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise InvalidInput(path, "is missing, or is not an object")
    return found


def _list(parent: Mapping[str, Any], name: str) -> list[Any]:
    found = parent.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise InvalidInput(name, "must be a list")
    return found


def _whole(parent: Mapping[str, Any], name: str, default: int) -> int:
    value = parent.get(name, default)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(name, f"must be a whole number, not {value!r}")
    return value
