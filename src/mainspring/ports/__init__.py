"""Interfaces: Protocols with their parameter and result types. No behaviour."""
