"""What the SQL stores share: loading named queries, and migrations."""
