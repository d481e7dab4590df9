"""When runs come about: planning of fires, catch-up, and the shards that divide the work."""
