"""Readers of other tools' files and objects: job definitions and problems out. They store nothing."""
