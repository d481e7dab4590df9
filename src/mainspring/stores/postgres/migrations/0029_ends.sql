-- compatible_from: 0007
-- The jobs whose trigger counts from the end of a run.
CREATE TABLE after_end (job_id uuid PRIMARY KEY, shard smallint NOT NULL);
