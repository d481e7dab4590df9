"""Decides which worker gets which run, from the lanes that are known and the workers' claims that wait."""
