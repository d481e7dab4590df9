"""Real processes under faults; see README.md."""
