"""Servers, workers and PostgreSQL as processes of their own, harmed and judged (see ../README.md)."""
