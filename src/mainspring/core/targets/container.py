"""Container: a program in a container of its own. Carried out by `executors.container` with podman or docker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from mainspring.core.fields import kind, read_free_text, read_text
from mainspring.core.kinds import FreeText, Kind, Number, Schema, Text, Whole
from mainspring.core.options import Option, Options, Path
from mainspring.core.targets.base import TargetType
from mainspring.core.targets.shell import Environment
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_MAX_ARGUMENTS = 256
_MAX_ARGUMENT = 8192
MOST_MEMORY = 1 << 20
"""MiB of a container, at most."""
MOST_CPUS = 256
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*", re.ASCII)


@value()
class Image(Text):
    """The name of an image."""

    longest: int = 512
    metavar: ClassVar[str] = "IMAGE"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a name with its registry, tag or digest."""
        del old
        name = read_text(value, path, longest=self.longest)
        if not _IMAGE.fullmatch(name) or ".." in name or "//" in name:
            raise InvalidInput(
                path, f"is not the name of an image, like example.com/jobs/report:2, but {name[:80]!r}"
            )
        return name

    def limits(self) -> str:
        """Say how it is written."""
        return f"`[REGISTRY/]NAME[:TAG][@DIGEST]`, at most {self.longest} characters"


@value()
class Arguments(Kind):
    """Arguments of the image's program, or a program with its arguments."""

    def read(self, value: object, path: str, old: Any) -> list[str]:
        """Read a list of texts."""
        del old
        right = f"a list of at most {_MAX_ARGUMENTS} arguments"
        if not isinstance(value, list | tuple):
            raise InvalidInput(path, f"must be {right}, not {kind(value)}")
        if len(value) > _MAX_ARGUMENTS:
            raise InvalidInput(path, f"has {len(value)} arguments; give {right}")
        return [
            read_free_text(item, f"{path}[{index}]", longest=_MAX_ARGUMENT, shortest=0)
            for index, item in enumerate(value)
        ]

    def store(self, value: list[str]) -> list[str]:
        """Return a list of one's own."""
        return list(value)

    def schema(self) -> Schema:
        """Return the schema of a list of texts."""
        return {
            "type": "array",
            "maxItems": _MAX_ARGUMENTS,
            "items": {"type": "string", "maxLength": _MAX_ARGUMENT},
        }

    def limits(self) -> str:
        """Say how many there may be."""
        return f"at most {_MAX_ARGUMENTS} arguments of {_MAX_ARGUMENT} characters; no NUL"


IMAGE = Option(
    name="image",
    kind=Image(),
    summary="The image. Workers run those that their settings allow.",
    example="example.com/jobs/report:2",
)
COMMAND = Option(
    name="command",
    kind=Arguments(),
    summary="What the image is given to run; by default it runs its own command.",
    default=None,
    is_nullable=True,
    example=["report", "--day", "yesterday"],
)
ENV = Option(
    name="env",
    kind=Environment(),
    summary="Variables of its environment.",
    detail="`${secret:NAME}` in a value stands for a [secret](../howto/keep-secrets.md) of the worker.",
    default=None,
    is_nullable=True,
)
MEMORY = Option(
    name="memory",
    kind=Whole(8, MOST_MEMORY),
    summary="Its memory in MiB; by default, and at most, what the worker gives.",
    default=None,
    is_nullable=True,
    example=512,
)
CPUS = Option(
    name="cpus",
    kind=Number(0.01, MOST_CPUS),
    summary="Its share of processors; by default, and at most, what the worker gives.",
    default=None,
    is_nullable=True,
    example=1.5,
)


def make_params(values: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Return the parameters without those that are not given."""
    return {
        one.name: one.store(values[one.name]) for one in options if values[one.name] not in (None, {}, [])
    }


class ContainerType(TargetType):
    """`container`."""

    name = "container"
    summary = "Runs a program in a container. Server and worker need `executors.container.enabled`."
    switch: ClassVar[str | None] = "container_enabled"
    turned_on_by: ClassVar[str] = "executors.container.enabled"
    options: ClassVar[Options] = Options(
        IMAGE,
        COMMAND,
        ENV,
        MEMORY,
        CPUS,
        Option(
            name="stdin",
            kind=FreeText(_MAX_ARGUMENT),
            summary="Its standard input; by default the payload.",
            default=None,
            is_nullable=True,
        ),
    )

    def make(
        self, values: Mapping[str, Any], path: Path, *, functions: frozenset[str] | None
    ) -> dict[str, Any]:
        """Return the parameters that are given."""
        del path, functions
        return make_params(values, self.options)
