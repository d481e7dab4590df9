-- compatible_from: 0007
-- The jobs whose trigger counts from the end of a run.
CREATE TABLE after_end (job_id BLOB NOT NULL PRIMARY KEY, shard INTEGER NOT NULL) STRICT, WITHOUT ROWID;
