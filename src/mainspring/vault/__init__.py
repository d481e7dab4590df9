"""Reads secrets from HashiCorp Vault and OpenBao, and keeps them in memory while they count."""

from mainspring.vault.keeper import VaultSecrets

__all__ = ("VaultSecrets",)
