"""The deterministic simulator: the real engine on virtual time; every fault and interleaving comes from one seed."""
