"""The command line: parses arguments and prints results. All decisions are made in lower layers."""
