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
    """

    switch: ClassVar[str | None] = None

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
