"""Mainspring, a distributed job scheduler."""
