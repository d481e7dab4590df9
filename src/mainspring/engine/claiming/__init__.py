"""Who gets which run: the lanes that are known, and the workers' claims that wait."""
