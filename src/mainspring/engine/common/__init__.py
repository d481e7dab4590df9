"""What several parts of the engine share: the service loop, wake-ups, group commit, the cache of definitions."""
