"""Processes: their event loop, signals, ports, supervisors, and the user's app that they load."""
