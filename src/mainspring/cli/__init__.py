"""The command line: argument parsing and output; every decision lies below it."""
