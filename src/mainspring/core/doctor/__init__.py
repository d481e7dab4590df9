"""Judges an installation: from facts that were gathered to what is right, what is doubtful, and what to do."""

from mainspring.core.doctor.checks import examine, worst_of
from mainspring.core.doctor.facts import (
    ClusterLook,
    DatabaseLook,
    FileFinding,
    FolderFacts,
    InstallationFacts,
    NodeLook,
    SettingFacts,
    StoreLook,
    TokenLook,
    WaitingQueue,
)
from mainspring.core.doctor.verdicts import Checked, Severity

__all__ = [
    "Checked",
    "ClusterLook",
    "DatabaseLook",
    "FileFinding",
    "FolderFacts",
    "InstallationFacts",
    "NodeLook",
    "SettingFacts",
    "Severity",
    "StoreLook",
    "TokenLook",
    "WaitingQueue",
    "examine",
    "worst_of",
]
