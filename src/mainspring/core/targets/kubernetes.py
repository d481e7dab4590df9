"""Kubernetes: a program in a pod, by a Job of Kubernetes. Carried out by `executors.kubernetes`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from mainspring.core.fields import (
    check_known,
    kind,
    read_entries,
    read_int,
    read_mapping,
    read_one_of,
    show_key,
)
from mainspring.core.kinds import Kind, Schema, Text
from mainspring.core.options import Option, Options, Path
from mainspring.core.targets.base import TargetType
from mainspring.core.targets.container import CPUS, ENV, IMAGE, MEMORY, Arguments, make_params
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_MOST = 32
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FIELDS = ("key", "operator", "value", "effect", "seconds")
_LONGEST_WAIT = 30 * 86_400


@value()
class ObjectName(Text):
    """The name of an object of Kubernetes."""

    longest: int = 63
    metavar: ClassVar[str] = "NAME"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a name."""
        name = Text.read(self, value, path, old)
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                path, f"is not a name in Kubernetes, of a-z, 0-9, - and dots inside, but {name!r}"
            )
        return name

    def limits(self) -> str:
        """Say how it is written."""
        return f"1 to {self.longest} of `a-z 0-9 - .`"


@value()
class NodeLabels(Kind):
    """Labels that a node must have."""

    def read(self, value: object, path: str, old: Any) -> dict[str, str]:
        """Read keys and values."""
        del old
        labels = {}
        for name, item in read_entries(value, path, most=_MOST):
            where = f"{path}.{show_key(name)}"
            _check_key(name, where)
            labels[name] = _read_value(item, where)
        return labels

    def schema(self) -> Schema:
        """Return the schema of an object of texts."""
        return {"type": "object", "maxProperties": _MOST, "additionalProperties": {"type": "string"}}

    def limits(self) -> str:
        """Say how many there may be."""
        return f"{_MOST} labels as Kubernetes has them"


@value()
class Tolerations(Kind):
    """Taints of nodes that do not keep a pod away."""

    def read(self, value: object, path: str, old: Any) -> list[dict[str, Any]]:
        """Read a list of objects."""
        del old
        if not isinstance(value, list | tuple) or len(value) > _MOST:
            raise InvalidInput(path, f"must be a list of at most {_MOST} objects, not {_amount(value)}")
        return [_read_toleration(item, f"{path}[{index}]") for index, item in enumerate(value)]

    def store(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a list of one's own."""
        return [dict(one) for one in value]

    def schema(self) -> Schema:
        """Return the schema of a list of objects."""
        properties = {
            "key": {"type": "string"},
            "operator": {"enum": list(_OPERATORS)},
            "value": {"type": "string"},
            "effect": {"enum": list(_EFFECTS)},
            "seconds": {"type": "integer", "minimum": 0, "maximum": _LONGEST_WAIT},
        }
        item = {"type": "object", "additionalProperties": False, "properties": properties}
        return {"type": "array", "maxItems": _MOST, "items": item}

    def limits(self) -> str:
        """Say what they are made of."""
        return f"{_MOST} objects of `key`, `operator` (Equal, Exists), `value`, `effect`, `seconds`"


def _amount(value: object) -> str:
    return f"{len(value)} of them" if isinstance(value, list | tuple) else kind(value)


def _check_key(name: str, where: str) -> None:
    prefix, slash, rest = name.rpartition("/")
    if not _LABEL.fullmatch(rest) or (slash and not _PREFIX.fullmatch(prefix)):
        raise InvalidInput(where, "is not a label's key, like disk or example.com/pool")


def _read_value(value: object, where: str) -> str:
    if value == "" or (isinstance(value, str) and _LABEL.fullmatch(value)):
        return str(value)
    raise InvalidInput(
        where, "must be a label's value: text of at most 63 letters, digits, - _ or . in quotes"
    )


def _read_toleration(item: object, path: str) -> dict[str, Any]:
    given = read_mapping(item, path)
    check_known(given, _FIELDS, prefix=f"{path}.")
    read: dict[str, Any] = {}
    if "key" in given:
        read["key"] = str(given["key"])
        _check_key(read["key"], f"{path}.key")
    if "operator" in given:
        read["operator"] = read_one_of(given["operator"], f"{path}.operator", _OPERATORS)
    if "value" in given:
        read["value"] = _read_value(given["value"], f"{path}.value")
    if "effect" in given:
        read["effect"] = read_one_of(given["effect"], f"{path}.effect", _EFFECTS)
    if "seconds" in given:
        read["seconds"] = read_int(given["seconds"], f"{path}.seconds", low=0, high=_LONGEST_WAIT)
    _check_together(read, path)
    return read


def _check_together(read: Mapping[str, Any], path: str) -> None:
    """Refuse what Kubernetes would refuse."""
    exists = read.get("operator") == "Exists"
    if "key" not in read and not exists:
        raise InvalidInput(f"{path}.key", 'is missing; without one, "operator" must be "Exists"')
    if exists and read.get("value"):
        raise InvalidInput(f"{path}.value", "goes with the operator Equal only")
    if "seconds" in read and read.get("effect") != "NoExecute":
        raise InvalidInput(f"{path}.seconds", "goes with the effect NoExecute only")


class KubernetesType(TargetType):
    """`kubernetes`."""

    name = "kubernetes"
    summary = "Runs a program as a Job of Kubernetes. Server and worker need `executors.kubernetes.enabled`."
    switch: ClassVar[str | None] = "kubernetes_enabled"
    turned_on_by: ClassVar[str] = "executors.kubernetes.enabled"
    options: ClassVar[Options] = Options(
        IMAGE,
        Option(
            name="command",
            kind=Arguments(),
            summary="The program with its first arguments, in place of the image's own (its ENTRYPOINT).",
            default=None,
            is_nullable=True,
            example=["python", "-m", "report"],
        ),
        Option(
            name="args",
            kind=Arguments(),
            summary="What the program is given, in place of the image's own arguments (its CMD).",
            default=None,
            is_nullable=True,
            example=["--day", "yesterday"],
        ),
        ENV,
        MEMORY,
        CPUS,
        Option(
            name="namespace",
            kind=ObjectName(),
            summary="Its namespace, one of those of the worker; by default the first of them.",
            default=None,
            is_nullable=True,
            example="reports",
        ),
        Option(
            name="service_account",
            kind=ObjectName(longest=253),
            summary="Its service account, one of those that the worker allows; by default it has no token.",
            default=None,
            is_nullable=True,
        ),
        Option(
            name="node_selector",
            kind=NodeLabels(),
            summary="Labels of the nodes on which it may run.",
            default=None,
            is_nullable=True,
            example={"kubernetes.io/arch": "arm64"},
        ),
        Option(
            name="tolerations",
            kind=Tolerations(),
            summary="Taints of nodes that do not keep it away.",
            default=None,
            is_nullable=True,
            example=[{"key": "pool", "value": "batch", "effect": "NoSchedule"}],
        ),
    )

    def make(
        self, values: Mapping[str, Any], path: Path, *, functions: frozenset[str] | None
    ) -> dict[str, Any]:
        """Return the parameters that are given."""
        del path, functions
        return make_params(values, self.options)
