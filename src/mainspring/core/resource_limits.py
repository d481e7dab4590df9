"""The resource limits that an operator may set for commands.

They are in a module of their own, because every command of the CLI reads the table of settings, which names them.
"""

from __future__ import annotations

RESOURCE_LIMITS = ("as", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "stack")
"""Their names in setrlimit(2), in lower case and without `RLIMIT_`."""
