"""Stores implement `ports.store`, the durable truth, one package for each technology."""
