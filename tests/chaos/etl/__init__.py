"""A workflow of twelve steps, killed at random instants: `make chaos WORKFLOW=20`."""
