"""Sixty and more wrong inputs, and what Mainspring answers. `python -m tests.wrong_inputs` prints the table."""
