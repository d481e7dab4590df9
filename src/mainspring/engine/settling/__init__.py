"""Takes back the leases of workers that are gone, and removes rows that are no longer needed."""
