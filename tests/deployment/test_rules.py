"""The rules for Prometheus: it takes them, they fire when they should, and each leads to where it says what to do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from mainspring.ports.telemetry import METRICS
from tests.deployment.compose import ROOT
from tests.deployment.prometheus import (
    PAGE,
    RULE_TESTS,
    RULES,
    Rule,
    known_labels,
    labels_in,
    names_in,
    promtool,
    read_rules,
    recorded_in,
)

ALERTS = [rule for rule in read_rules() if rule.is_alert]
pytestmark = pytest.mark.timeout(600)  # the package may have to be downloaded first


def of(rules: list[Rule]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rule", rules, ids=[rule.name for rule in rules])


def test_prometheus_takes_the_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert (done.returncode, done.stderr) == (0, "")


def test_alerts_fire_when_they_should_and_not_otherwise() -> None:
    done = promtool("test", "rules", RULE_TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


@of(read_rules())
def test_rules_read_figures_that_exist_by_labels_that_they_have(rule: Rule) -> None:
    assert names_in(rule.expr) - METRICS.keys() == set()
    assert recorded_in(rule.expr) - {other.name for other in read_rules()} == set()
    assert labels_in(rule.expr) - known_labels(rule.expr) == set()


@of(ALERTS)
def test_each_alert_is_tested(rule: Rule) -> None:
    tests = yaml.safe_load(RULE_TESTS.read_text())["tests"]
    fired = [
        case["alertname"] for test in tests for case in test.get("alert_rule_test", ()) if case["exp_alerts"]
    ]
    counted = str([test.get("promql_expr_test") for test in tests])
    assert rule.name in fired or f'alertname="{rule.name}"' in counted


@of(ALERTS)
def test_each_alert_says_how_bad_it_is_and_where_to_read_on(rule: Rule) -> None:
    assert rule.labels["severity"] in {"critical", "warning"}
    assert set(rule.annotations) == {"summary", "description", "runbook"}
    path, _, anchor = rule.annotations["runbook"].partition("#")
    assert ROOT / path == PAGE
    assert anchor == rule.name.lower()
    assert f"## {rule.name}\n" in PAGE.read_text()


def test_the_page_tells_of_no_other_alerts() -> None:
    assert re.findall(r"^#+ (Mainspring[A-Z]\w+)$", PAGE.read_text(), re.MULTILINE) == [
        rule.name for rule in ALERTS
    ]


def test_prometheus_takes_the_configuration_on_the_page(tmp_path: Path) -> None:
    found = re.search(r"^```yaml\n(rule_files:.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    (tmp_path / "prometheus.yml").write_text(found[1])
    shutil.copy(RULES, tmp_path)
    done = promtool("check", "config", tmp_path / "prometheus.yml")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(read_rules())} rules found" in done.stdout
