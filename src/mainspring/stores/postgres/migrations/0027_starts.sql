-- compatible_from: 0007
-- Jobs that fire when the cluster starts, and which nodes belong to it.

-- A node of an earlier release belongs to it at once.
ALTER TABLE node ADD is_member boolean NOT NULL DEFAULT true;
-- The jobs whose trigger is at start.
CREATE TABLE at_start (job_id uuid PRIMARY KEY);
