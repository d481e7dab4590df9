"""Reads off a Job and its pod how an attempt is. Pure: no connection, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mainspring.core.causes import Cause
from mainspring.core.outcomes import Failure
from mainspring.core.values import value
from mainspring.executors._text import ERROR_LIMIT, clean
from mainspring.ports.executor import Success

Object = Mapping[str, Any]
_NONE: Object = {}
_STARTING = {"ContainerCreating", "PodInitializing"}
_HOPELESS = {"InvalidImageName"}
"""Reasons for which no container will ever start."""
_DISRUPTED = {
    "Evicted",
    "Preempting",
    "NodeShutdown",
    "NodeAffinity",
    "Terminated",
    "UnexpectedAdmissionError",
}
"""Reasons of a pod's end for which its program can do nothing."""
_KILLED = 137


@value()
class JobState:
    """A Job and its pod at one moment.

    Attributes:
        pod: None if there is none, or none yet.
    """

    job: Object
    pod: Object | None

    @property
    def has_started(self) -> bool:
        """Whether the program has begun, so that there is something to read of it."""
        state = _container(self.pod).get("state") or _NONE
        return "running" in state or "terminated" in state

    @property
    def outcome(self) -> Success | Failure | None:
        """How the attempt ended, without its output; None while the Job has not ended."""
        conditions = _conditions(self.job)
        if "Complete" in conditions:
            return Success(result=b'{"exit_code":0}')
        if "Failed" not in conditions:
            return None
        return _failure(conditions["Failed"], self.pod)

    @property
    def problem(self) -> str | None:
        """Why its program does not run yet; None if there is nothing to tell."""
        if self.pod is None:
            return "no pod was made: a quota or a policy of the cluster may forbid it"
        waiting = _waiting(self.pod)
        if waiting.get("reason", "ContainerCreating") not in _STARTING:
            return _say(waiting)
        for condition in (self.pod.get("status") or _NONE).get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return _say(condition)
        return None

    @property
    def is_hopeless(self) -> bool:
        """Whether its program can never run."""
        return _waiting(self.pod).get("reason") in _HOPELESS


def newest(pods: Iterable[Object]) -> Object | None:
    """Return the pod that was made last."""
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None)


def _failure(condition: Object, pod: Object | None) -> Failure:
    if condition.get("reason") == "DeadlineExceeded":
        return Failure(error="Kubernetes ended it at its time limit", is_timeout=True)
    disruption = _disruption(pod)
    if disruption is not None:
        return Failure(error=clean(f"the pod was evicted: {disruption}", ERROR_LIMIT))
    ended = (_container(pod).get("state") or _NONE).get("terminated")
    if ended is None:
        if pod is None:
            message = "its pod is gone: somebody deleted it, or its node was lost"
        else:
            status = pod.get("status") or _NONE
            message = f"the pod failed: {_say(status) or _say(condition)}"
        return Failure(error=clean(message, ERROR_LIMIT))
    code = int(ended.get("exitCode", 0))
    reason = str(ended.get("reason") or "")
    if code == 0:  # its container did end well, so it is the Job that did not
        return Failure(error=clean(f"the Job failed: {_say(condition)}", ERROR_LIMIT))
    if reason in {"ContainerCannotRun", "StartError", "CreateContainerError"}:
        return Failure(error=clean(f"the program could not be started: {_say(ended)}", ERROR_LIMIT))
    error = f"exit status {code}"
    if pod is not None and "deletionTimestamp" in pod["metadata"]:
        return Failure(error=f"{error}; its pod was deleted")
    if reason == "OOMKilled":
        error += ": killed, because it needs more memory than it has"
    elif code == _KILLED:
        error += ": killed, perhaps because it needs more memory"
    return Failure(error=error, result=b'{"exit_code":%d}' % code, cause=Cause(exit_code=code))


def _disruption(pod: Object | None) -> str | None:
    """Say what took a pod away from its program; None if nothing did."""
    if pod is None:
        return None
    target = _conditions(pod).get("DisruptionTarget")
    if target is not None:
        return _say(target)
    status = pod.get("status") or _NONE
    return _say(status) if status.get("reason") in _DISRUPTED else None


def _conditions(thing: Object) -> dict[str, Object]:
    """Return the conditions that are true, by type."""
    found = (thing.get("status") or _NONE).get("conditions") or ()
    return {one.get("type", ""): one for one in found if one.get("status") == "True"}


def _container(pod: Object | None) -> Object:
    statuses = ((pod or _NONE).get("status") or _NONE).get("containerStatuses") or ()
    return statuses[0] if statuses else _NONE


def _waiting(pod: Object | None) -> Object:
    return (_container(pod).get("state") or _NONE).get("waiting") or _NONE


def _say(thing: Object) -> str:
    return ": ".join(str(thing[field]) for field in ("reason", "message") if thing.get(field))
