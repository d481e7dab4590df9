"""The archive: parts of the history as Parquet files, written by a child process and read by DuckDB.

Nothing here is imported unless `archive.url` is set.
"""
