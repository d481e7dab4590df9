"""Target `append`: adds a line to a file."""

from typing import ClassVar

from mainspring.core.kinds import Text
from mainspring.core.options import Option, Options
from mainspring.core.targets import TargetType


class AppendType(TargetType):
    """`append_to`."""

    name = "append"
    summary = "Adds the payload to a file, as a line."
    options = Options(Option(name="path", kind=Text(1024), summary="Add a line to this file."))
    short: ClassVar = {"append_to": "path"}


append = AppendType()
