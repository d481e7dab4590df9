-- compatible_from: 0007
-- A verdict about alerts is saved if none was saved since it was decided.

INSERT INTO revision (name, number) VALUES ('alerts', 0);

-- As on PostgreSQL. A file has no failover, so it stays empty.
CREATE TABLE failover (
    noticed_at INTEGER NOT NULL,
    process TEXT NOT NULL,
    from_timeline INTEGER NOT NULL,
    to_timeline INTEGER NOT NULL,
    missing_wal INTEGER NOT NULL,
    runs_lost INTEGER NOT NULL,
    PRIMARY KEY (noticed_at, process)
) STRICT, WITHOUT ROWID;
