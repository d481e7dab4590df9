"""The deterministic simulator: the real engine on virtual time. Every fault and interleaving comes from one seed."""
