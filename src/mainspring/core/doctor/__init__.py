"""Judges an installation: from facts that were gathered to what is right, what is doubtful, and what to do."""

from mainspring.core.doctor.checks import examine, worst_of
from mainspring.core.doctor.facts import (
    ChannelLook,
    ClusterLook,
    FileFinding,
    FolderFacts,
    InstallationFacts,
    NodeLook,
    ServerLook,
    SettingFacts,
    StoreLook,
    TokenLook,
    WaitingQueue,
    keys_lost,
)
from mainspring.core.doctor.findings import Checked, Grade

__all__ = [
    "ChannelLook",
    "Checked",
    "ClusterLook",
    "FileFinding",
    "FolderFacts",
    "Grade",
    "InstallationFacts",
    "NodeLook",
    "ServerLook",
    "SettingFacts",
    "StoreLook",
    "TokenLook",
    "WaitingQueue",
    "examine",
    "keys_lost",
    "worst_of",
]
