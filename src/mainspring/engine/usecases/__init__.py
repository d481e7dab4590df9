"""What callers ask for: jobs and runs, created, changed and looked at."""
