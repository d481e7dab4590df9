-- compatible_from: 0007
-- Dead letters are settled: a run repeats them, or they are discarded. Those that are open can be found by what they have
-- in common. Servers of earlier releases leave the columns empty: what they redrive is settled when it is redriven again.

ALTER TABLE dead_run ADD COLUMN error_group TEXT;
ALTER TABLE dead_run ADD COLUMN settled_at INTEGER;
ALTER TABLE dead_run ADD COLUMN settlement TEXT
CONSTRAINT dead_run_settlement CHECK (settlement IN ('redriven', 'discarded'));
ALTER TABLE dead_run ADD COLUMN settle_reason TEXT;
ALTER TABLE dead_run ADD COLUMN redriven_as INTEGER;

CREATE INDEX dead_run_open ON dead_run (tenant, id) WHERE settled_at IS NULL;
CREATE INDEX dead_run_group ON dead_run (tenant, job_id, error_group, finished_at) WHERE settled_at IS NULL;
CREATE INDEX dead_run_settled ON dead_run (settled_at) WHERE settled_at IS NOT NULL;
