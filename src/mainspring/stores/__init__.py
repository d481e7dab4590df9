"""Stores: durable truth behind `ports.store`, one package for each technology."""
