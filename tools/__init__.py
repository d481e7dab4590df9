"""Tools of this repository: the simulator and its judge."""
