"""All checks, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainspring.core.doctor import cluster_checks, setting_checks, store_checks
from mainspring.core.doctor.facts import InstallationFacts
from mainspring.core.doctor.findings import Checked, Finding, Grade

Check = Callable[[InstallationFacts], Finding | None]
"""Judges the facts; None if it does not apply to them."""

CHECKS: dict[str, Sequence[Check]] = {
    "store": (
        store_checks.reachable,
        store_checks.schema,
        store_checks.clock,
        store_checks.write_latency,
        store_checks.disk_space,
        store_checks.file_system,
        store_checks.journal,
        store_checks.permissions,
        store_checks.server_version,
        store_checks.primary,
        store_checks.connections,
        store_checks.durability,
        store_checks.autovacuum,
        store_checks.long_transactions,
        store_checks.replication_slots,
    ),
    "settings": (
        setting_checks.settings,
        setting_checks.server_answers,
        setting_checks.network,
        setting_checks.certificate,
        setting_checks.secrets,
        setting_checks.vault,
        setting_checks.encryption,
        setting_checks.shell,
        setting_checks.executors,
        setting_checks.zone_data,
        setting_checks.archive,
        setting_checks.artifacts,
    ),
    "cluster": (
        cluster_checks.servers,
        cluster_checks.refused_servers,
        cluster_checks.shards,
        cluster_checks.versions,
        cluster_checks.clocks,
        cluster_checks.ledger,
        cluster_checks.workers,
        cluster_checks.queues,
        cluster_checks.dead_letters,
        cluster_checks.channels,
        cluster_checks.audit,
        cluster_checks.tokens,
    ),
}
"""By area."""


def examine(facts: InstallationFacts) -> list[Checked]:
    """Return what all checks say that apply."""
    found = []
    for area, checks in CHECKS.items():
        for check in checks:
            verdict = check(facts)
            if verdict is not None:
                name = check.__name__.replace("_", " ")
                found.append(Checked(area=area, check=name, **verdict._asdict()))
    return found


def worst_of(checked: Sequence[Checked]) -> Grade:
    """Return the worst that was found."""
    return max((one.severity for one in checked), key=lambda severity: severity.exit_code, default=Grade.FINE)
