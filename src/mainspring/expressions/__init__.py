"""Languages of expressions: CEL."""
