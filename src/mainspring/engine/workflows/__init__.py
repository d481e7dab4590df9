"""Workflows: the engine's own worker that begins flows, and what takes their turns."""
