"""Workflows: graphs of steps, each of which runs once the steps before it have ended as its rule asks for."""
