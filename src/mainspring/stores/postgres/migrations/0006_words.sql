-- The words of the field in place of private ones (ADR 0035). Nothing is copied; older programs must be stopped before.

ALTER TABLE span RENAME TO fire_range;
ALTER TABLE fire_range RENAME CONSTRAINT span_kind TO fire_range_kind;
ALTER INDEX span_pkey RENAME TO fire_range_pkey;
ALTER INDEX span_open RENAME TO fire_range_open;
ALTER INDEX span_job RENAME TO fire_range_job;
ALTER SEQUENCE span_id_seq RENAME TO fire_range_id_seq;

ALTER TABLE run RENAME COLUMN rank TO ready_at;
ALTER TABLE run RENAME COLUMN is_alone TO is_quarantined;
ALTER TABLE run RENAME COLUMN alone_crashes TO quarantined_crashes;
ALTER TABLE run RENAME COLUMN span_id TO fire_range_id;
ALTER INDEX run_alone RENAME TO run_held_quarantined;
ALTER INDEX run_suspect RENAME TO run_quarantined;
ALTER TABLE run_history RENAME COLUMN span_id TO fire_range_id;
ALTER TABLE dead_run RENAME COLUMN span_id TO fire_range_id;

-- The columns that a view shows keep their names when those below them change.
ALTER VIEW live_run RENAME COLUMN rank TO ready_at;
ALTER VIEW live_run RENAME COLUMN span_id TO fire_range_id;
ALTER VIEW ended_run RENAME COLUMN rank TO ready_at;
ALTER VIEW ended_run RENAME COLUMN span_id TO fire_range_id;
ALTER VIEW any_run RENAME COLUMN rank TO ready_at;
ALTER VIEW any_run RENAME COLUMN span_id TO fire_range_id;

-- A worker that reaches the store by a server's HTTP, and was left running, cannot read the leases of this version: it
-- would claim without end. So every session ends here, the worker's next heartbeat tells it to register anew, and the
-- server refuses that. What the session held counts as lost. Workers that were stopped left no session behind.
UPDATE session SET state = 'dead', ended_at = last_beat_at WHERE state = 'live';
