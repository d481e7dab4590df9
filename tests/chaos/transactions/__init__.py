"""Callers' transactions, killed on purpose; see ../README.md."""
