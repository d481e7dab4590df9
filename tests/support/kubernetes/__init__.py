"""Clusters of Kubernetes for tests.

`node` is a node that runs the program of each pod as a process of this machine. `fake` is an API server with the few
controllers that Jobs need; `real` starts Kubernetes' own. Every test of `clusters` runs on both, where the real one
has been built (`scripts/kubernetes`): so the fake one is held to what the real one does.
"""
