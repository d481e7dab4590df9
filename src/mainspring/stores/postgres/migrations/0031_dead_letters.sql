-- compatible_from: 0007
-- Dead letters are settled: a run repeats them, or they are discarded. Those that are open can be found by what they have
-- in common. Servers of earlier releases leave the columns empty: what they redrive is settled when it is redriven again.

ALTER TABLE dead_run
ADD COLUMN error_group text,
ADD COLUMN settled_at timestamptz,
ADD COLUMN settlement text,
ADD COLUMN settle_reason text,
ADD COLUMN redriven_as bigint,
ADD CONSTRAINT dead_run_settlement CHECK (settlement IN ('redriven', 'discarded'));

CREATE INDEX dead_run_open ON dead_run (tenant, id) WHERE settled_at IS NULL;
CREATE INDEX dead_run_group ON dead_run (tenant, job_id, error_group, finished_at, id) WHERE settled_at IS NULL;
CREATE INDEX dead_run_settled ON dead_run (settled_at) WHERE settled_at IS NOT NULL;
