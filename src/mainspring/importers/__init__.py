"""Readers of other tools' files: text in, job definitions and problems out. They store nothing."""
