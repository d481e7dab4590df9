"""How what a process measures leaves it."""
