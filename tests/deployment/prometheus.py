"""Reads the rules for Prometheus and the dashboards for Grafana, and runs Debian's promtool and Prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from mainspring.ports.telemetry import METRICS, MetricKind
from tests.deployment.compose import ROOT

SCRIPT = ROOT / "scripts" / "prometheus"
RULES = ROOT / "deploy" / "prometheus" / "mainspring.rules.yml"
RULE_TESTS = RULES.with_name("mainspring.rules.test.yml")
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
PAGE = ROOT / "docs" / "howto" / "alert.md"
CANNOT_BE_HAD = 69
_NAMES = re.compile(r"\bmainspring_(\w+)")
_RECORDED = re.compile(r"\bmainspring:[\w:]+")
_SELECTED = re.compile(r"\{([^}]*)\}")
_MATCHED = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring) \(([^)]*)\)")
_OF_PROMETHEUS = {"job", "instance", "le"}
_OF_ALERTS = {"alertname", "alertstate"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: an alert, or a figure that is computed ahead."""

    name: str
    expr: str
    is_alert: bool
    annotations: dict[str, str]
    labels: dict[str, str]


def read_rules() -> list[Rule]:
    """Return all rules in their order."""
    document: dict[str, Any] = yaml.safe_load(RULES.read_text())
    return [
        Rule(
            name=rule.get("alert") or rule["record"],
            expr=rule["expr"],
            is_alert="alert" in rule,
            annotations=rule.get("annotations", {}),
            labels=rule.get("labels", {}),
        )
        for group in document["groups"]
        for rule in group["rules"]
    ]


def read_dashboard(path: Path) -> dict[str, Any]:
    """Return a dashboard's document."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def panels_of(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a dashboard's panels, without the rows that only group them."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def queries_of(panel: dict[str, Any]) -> list[str]:
    """Return the queries of a panel, with the variables that Grafana fills in."""
    return [target["expr"] for target in panel["targets"]]


def filled_in(expr: str) -> str:
    """Return a query with its variables filled in, as Grafana does for all of what is in the job `mainspring`."""
    expr = expr.replace("$__rate_interval", "5m").replace('"$job"', '"mainspring"')
    return re.sub(r"\$(tenant|queue|instance)\b", ".*", expr)


def names_in(expr: str) -> set[str]:
    """Return the figures that a query reads, by the names that they should have in the table."""
    return {_figure(name) for name in _NAMES.findall(expr)}


def recorded_in(expr: str) -> set[str]:
    """Return the figures that a query reads and that rules compute ahead."""
    return set(_RECORDED.findall(expr))


def labels_in(expr: str) -> set[str]:
    """Return the labels by which a query selects, or that it keeps."""
    selected = {name for found in _SELECTED.findall(expr) for name in _MATCHED.findall(found)}
    kept = {name.strip() for found in _GROUPED.findall(expr) for name in found.split(",")}
    return selected | kept


def known_labels(expr: str) -> set[str]:
    """Return the labels that what a query reads can have."""
    known = _OF_PROMETHEUS | (_OF_ALERTS if "ALERTS{" in expr else set())
    for name in names_in(expr):
        known |= set(METRICS[name].labels) if name in METRICS else set()
    exprs = {rule.name: rule.expr for rule in read_rules() if not rule.is_alert}
    for name in recorded_in(expr):
        known |= labels_in(exprs[name]) if name in exprs else set()
    return known


def _figure(name: str) -> str:
    for suffix in ("_bucket", "_count", "_sum"):
        metric = METRICS.get(name.removesuffix(suffix))
        if name.endswith(suffix) and metric is not None and metric.kind is MetricKind.DISTRIBUTION:
            return metric.name
    return name


class Prometheus:
    """A running Prometheus on loopback."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return what a query finds now; one that Prometheus refuses fails the test."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": expr}, timeout=30)
        body = answer.json()
        assert body["status"] == "success", f"{expr}: {body.get('error')}"
        assert not body.get("warnings"), f"{expr}: {body['warnings']}"
        found: list[dict[str, Any]] = body["data"]["result"]
        return found

    def has(self, expr: str) -> bool:
        """Say whether a query finds anything. Until Prometheus listens, it does not."""
        assert self.process.poll() is None, "Prometheus has ended"
        try:
            return bool(self.query(expr))
        except httpx.TransportError:
            return False

    def firing(self) -> set[str]:
        """Return the alerts that fire, or will if it goes on."""
        return {one["metric"]["alertname"] for one in self.query("ALERTS")}


@contextlib.contextmanager
def prometheus(folder: Path, targets: Sequence[int]) -> Iterator[Prometheus]:
    """Run Prometheus with the rules, reading each second from ports of this host, until the block ends.

    Skip the test where it cannot be had.
    """
    promtool("--version")  # has the package unpacked, and skips
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {
                "job_name": "mainspring",
                "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in targets]}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    port = free_port()
    options = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [SCRIPT, "prometheus", *(f"--{name}={value}" for name, value in options.items())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}", process)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a port of loopback that nobody uses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def promtool(*arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool. Skips the test where it cannot be had; with `CI=true` that is a failure."""
    _have_promtool()
    return _run_promtool(arguments, text)


@cache
def _have_promtool() -> None:
    """Let it be downloaded first, which says so on stderr."""
    _run_promtool(("--version",), "")


def _run_promtool(arguments: Sequence[object], text: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [SCRIPT, "promtool", *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode == CANNOT_BE_HAD:
        if os.environ.get("CI") == "true":
            pytest.fail(done.stderr)
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return done
