"""What several rooms of the engine use: the service loop, wake-ups, group commit, kept definitions."""
