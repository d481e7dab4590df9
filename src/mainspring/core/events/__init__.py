"""Events: what happens elsewhere, and what it starts here."""
