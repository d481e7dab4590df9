"""The settings of the files that runs leave behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from mainspring.config.archive_settings import MemorySize
from mainspring.config.kinds import OneLine
from mainspring.config.setting import Setting
from mainspring.core.artifacts import MAX_SIZE
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.objects import ObjectPlace, read_place

_NAME = "artifacts.url"
_DAY = timedelta(days=1)
_GB = 10**9


@value()
class ArtifactUrl(OneLine):
    """The address of the place for files."""

    metavar: ClassVar[str] = "URL"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read an address; it is kept as it was written."""
        text = OneLine.read(self, value, path, old)
        read_artifact_place(text, path)
        return text

    def limits(self) -> str:
        """Say which forms it has."""
        return "folder, `file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://…`, or `az://CONTAINER/PREFIX`"


def read_artifact_place(text: str, path: str = _NAME) -> ObjectPlace:
    """Read the address of the place for files.

    Raises:
        InvalidInput: it is no address of a place that there can be.
    """
    return read_place(text, path, what="files of runs", in_clouds=True)


ARTIFACT_SETTINGS = (
    Setting(
        name=_NAME,
        kind=ArtifactUrl(),
        default=None,
        default_words="none: runs leave no files behind",
        field="artifacts_url",
        flag="--artifacts-url",
        words="Where the files lie that runs leave behind: a folder that is there, or a bucket. The same on all "
        "servers, and on workers that use the store directly. A bucket needs the extra `objects`.",
    ),
    Setting(
        name="artifacts.limit",
        kind=MemorySize(1, MAX_SIZE),
        default=5 * _GB,
        default_words="`5GB`",
        field="artifacts_limit",
        words="The most bytes of one file.",
    ),
    Setting(
        name="artifacts.keep",
        kind=Duration(timedelta(minutes=1), 3650 * _DAY),
        default=30 * _DAY,
        field="keep_artifacts",
        words="How long files of runs are kept. They are shown as long as their run is in the history.",
    ),
)
