"""What the executor of Jobs of Kubernetes is made of.

`credentials` finds the cluster, `cluster` speaks to its API server, `manifests` makes what it is sent, `states` reads
what it answers, `watching` asks it about all attempts at once, `logs` follows what a pod prints, line by line
(`lines`), and `ownership` has the objects of dead workers removed. `attempts` puts these together for one attempt.
"""
