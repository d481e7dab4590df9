-- Which server this is, and what a failover has lost.

-- name: read_standing
-- The name of the WAL file being written begins with the timeline. Unlike the control file's timeline, it is right
-- from the moment of a promotion. On a promoted server, the position replayed last is where its timeline began.
SELECT
    system_identifier AS system,
    CASE WHEN NOT pg_is_in_recovery() THEN
        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer
    END AS timeline,
    CASE WHEN NOT pg_is_in_recovery() THEN (pg_current_wal_lsn() - '0/0')::bigint END AS position,
    (pg_last_wal_replay_lsn() - '0/0')::bigint AS replayed,
    clock_timestamp() AS now
FROM pg_control_system();

-- name: find_lost_runs
-- The id alone is not enough: the sequence may have gone back too, and given the id to another run.
SELECT told.id
FROM unnest(:run_ids::bigint[], :instants::timestamptz[]) AS told (id, created_at)
WHERE NOT EXISTS (SELECT FROM run WHERE run.id = told.id AND run.created_at = told.created_at)
  AND NOT EXISTS (SELECT FROM dead_run WHERE dead_run.id = told.id AND dead_run.created_at = told.created_at)
  AND NOT EXISTS (SELECT FROM run_history WHERE run_history.id = told.id AND run_history.created_at = told.created_at)
ORDER BY told.id;

-- name: pass_run_sequence
-- No acknowledged id is given to another run.
SELECT setval('run_sequence', :number::bigint)
FROM run_sequence WHERE last_value < :number::bigint;

-- name: note_failover
INSERT INTO failover (noticed_at, process, from_timeline, to_timeline, missing_wal, runs_lost)
VALUES (:noticed_at, :process, :from_timeline, :to_timeline, :missing_wal, :runs_lost)
ON CONFLICT (noticed_at, process) DO NOTHING;

-- name: list_failovers
SELECT failover.noticed_at, failover.runs_lost FROM failover
WHERE failover.noticed_at >= :since
ORDER BY failover.noticed_at, failover.process;

-- name: prune_failovers
DELETE FROM failover WHERE noticed_at < :before;

-- name: settle
-- Returns when everything committed before it is as safe as any commit: with synchronous replication, when a standby
-- has it. It writes nothing that could be read.
SELECT pg_logical_emit_message(true, 'mainspring', '');
