"""Processes: their event loop, signals, ports and supervisors, and the user's app that they load."""
