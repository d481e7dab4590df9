"""Other products under the same judge; see ../README.md."""
