"""What a target type tells about its targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mainspring.core.options import Path
from mainspring.core.types import DefinedType


class TargetType(DefinedType):
    """A type of target. Subclass it, and give one instance to the entry point group `mainspring.targets`.

    A worker runs it with the executor of the same name, from the group `mainspring.executors`.

    Attributes:
        switch: the setting that must be on where such jobs are accepted and run; None is always on.
        turned_on_by: what a user gives to servers and workers to turn it on: an option, or the setting's name.
    """

    switch: ClassVar[str | None] = None
    turned_on_by: ClassVar[str] = ""

    def make(
        self, values: Mapping[str, Any], path: Path, *, functions: frozenset[str] | None
    ) -> dict[str, Any]:
        """Return the parameters, as JSON can carry them, of checked values; refuse what does not go together.

        Args:
            values: by option, defaults filled in.
            path: from an option's name to what the user wrote, for errors.
            functions: names of the Python functions that workers offer; None is not to be checked.

        Raises:
            InvalidInput: they do not go together.
        """
        del path, functions
        return {option.name: option.store(values[option.name]) for option in self.options}

    def read_kept(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of an attempt, held to the rules of a definition however they came to the worker.

        Raises:
            InvalidInput: they break one; the field begins with `target.`.
        """
        return self.make(self.options.read_all(params, _path_of_kept), _path_of_kept, functions=None)

    def needs(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the abilities (`core.abilities`) that a worker must have, beside the type, for a target.

        Args:
            params: as `make` returned them.
        """
        del params
        return ()

    def route(self, params: Mapping[str, Any]) -> str:
        """Return what a worker must offer to get the runs of a target, labels apart: the type's name.

        A session names the types that it carries out, and beside them its functions, nothing finer. So a route that
        begins otherwise than with the type's name, alone or with a colon behind it, would match no session (see
        `core.claiming.accepts_route`), and what follows the colon is compared for functions only.

        Args:
            params: as `make` returned them.
        """
        del params
        return self.name


def _path_of_kept(name: str) -> str:
    return f"target.{name}"
