"""The settings of what a process tells other tools about itself: figures for Prometheus, traces and figures by OTLP.

They are a part of `table`, and like it import nothing slow.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mainspring.config.kinds import OneLine, SecretUrl, is_address
from mainspring.config.setting import SERVER, UP, Setting
from mainspring.core.kinds import Share, Whole
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.errors import InvalidInput


@value()
class CollectorUrl(SecretUrl):
    """The address of a collector that takes OTLP over HTTP."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read an address."""
        text = SecretUrl.read(self, value, path, old)
        if not is_address(text) or "?" in text or "#" in text:
            raise InvalidInput(path, "must be the address of a collector, like http://127.0.0.1:4318")
        return text.rstrip("/")


TELEMETRY_SETTINGS = (
    Setting(
        name="metrics.port",
        kind=Whole(0, 65535),
        default=None,
        default_words="none; the API has `/metrics`, too",
        field="metrics_port",
        flag="--metrics-port",
        words="A port of its own for `/metrics`, for Prometheus; 0 is any free one. Several worker processes take ports"
        " in a row.",
    ),
    Setting(
        name="metrics.host",
        kind=OneLine(),
        default="127.0.0.1",
        field="metrics_host",
        flag="--metrics-host",
        words="Address to bind the metrics port to. Everyone who reaches it may read the figures.",
    ),
    Setting(
        name="telemetry.otlp",
        kind=CollectorUrl(),
        default=None,
        default_words="OTEL_EXPORTER_OTLP_ENDPOINT, else nothing is sent",
        field="otlp",
        flag="--otlp",
        words="Address of an OpenTelemetry collector for traces and figures, by OTLP over HTTP. Needs the "
        "extra `otel`.",
    ),
    Setting(
        name="telemetry.sample",
        kind=Share(),
        default=0.01,
        field="trace_sample",
        used_by=(UP, SERVER),
        words="The share of runs that are traced, of those that are submitted without a trace, and of fires. Nothing is"
        " traced by itself while no collector is named.",
    ),
    Setting(
        name="telemetry.split_after",
        kind=Duration(timedelta(0), timedelta(days=3650)),
        default=timedelta(hours=1),
        field="trace_split_after",
        words="A run that starts so long after it was submitted or due gets a trace of its own, with a link to the"
        " first.",
    ),
)
