"""Reads the pod of a CronJob as a target of type `kubernetes`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from mainspring.errors import InvalidInput

Object = Mapping[str, Any]
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kMGT]|[KMGT]i)?", re.ASCII)
_FACTORS = {"m": 1e-3, "": 1.0}
_FACTORS |= {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGT", 1)}
_FACTORS |= {letter: 1000.0**power for power, letter in enumerate("kMGT", 1)}
_MIB = 1024 * 1024
_LEAST_MEMORY = 8
_OF_CONTAINER = ("image", "command", "args", "env", "resources")
_OF_POD = ("containers", "initContainers", "serviceAccountName", "nodeSelector", "tolerations")
_LEFT = {
    *("name", "imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"),
    *("restartPolicy", "dnsPolicy", "schedulerName", "terminationGracePeriodSeconds", "serviceAccount"),
    *("automountServiceAccountToken", "enableServiceLinks", "imagePullSecrets"),
}
"""Fields that mean nothing more here, or are settings of the worker."""


def read_pod(
    pod: Object, container: Object, environment: Mapping[str, str], expand: Callable[[str], str]
) -> dict[str, Any]:
    """Return the target.

    Args:
        environment: the container's variables.
        expand: puts variables in the place of `$(NAME)`.

    Raises:
        InvalidInput: there is no image, or a field that a target has not.
    """
    for given, known in ((container, _OF_CONTAINER), (pod, _OF_POD)):
        for name, each in given.items():
            if name not in known and name not in _LEFT and each not in (None, {}, [], "", False):
                raise InvalidInput(name, "is nothing that a job can have; see Run a job in Kubernetes")
    if not container.get("image"):
        raise InvalidInput("image", "is missing")
    target: dict[str, Any] = {"type": "kubernetes", "image": container["image"]}
    for field in ("command", "args"):
        words = container.get(field)
        if words is not None:
            if not isinstance(words, list):
                raise InvalidInput(field, "must be a list")
            target[field] = [expand(str(word)) for word in words]
    target |= _amounts(container.get("resources") or {})
    if pod.get("serviceAccountName") not in (None, "", "default"):
        target["service_account"] = pod["serviceAccountName"]
    if pod.get("nodeSelector"):
        target["node_selector"] = pod["nodeSelector"]
    if pod.get("tolerations"):
        target["tolerations"] = [_toleration(one) for one in pod["tolerations"]]
    if environment:
        target["env"] = dict(environment)
    return target


def _amounts(resources: Any) -> dict[str, Any]:
    """Return memory and processors: what it may have, or else what it asks for."""
    if not isinstance(resources, Mapping):
        raise InvalidInput("resources", "must be an object")
    both = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    for name in both:
        if name not in {"memory", "cpu"}:
            raise InvalidInput(f"resources.{name}", "is nothing that a job can have; only memory and cpu are")
    amounts: dict[str, Any] = {}
    if "memory" in both:
        amounts["memory"] = max(_LEAST_MEMORY, math.ceil(_read(both["memory"], "memory") / _MIB))
    if "cpu" in both:
        amounts["cpus"] = round(_read(both["cpu"], "cpu"), 3)
    return amounts


def _read(quantity: Any, name: str) -> float:
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        raise InvalidInput(f"resources.{name}", f"is no quantity like 512Mi or 500m, but {quantity!r}")
    return float(found[1]) * _FACTORS[found[2] or ""]


def _toleration(one: Any) -> Any:
    if not isinstance(one, Mapping):
        return one  # which the check of the job names
    return {("seconds" if name == "tolerationSeconds" else name): each for name, each in one.items()}
