"""A toy that adds one of each thing to Mainspring."""
