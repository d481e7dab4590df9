"""Decides when runs are made: the planning of fires, catch-up, and the shards that divide the work."""
