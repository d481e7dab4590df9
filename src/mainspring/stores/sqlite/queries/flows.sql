-- Flows, their mail and their turns.

-- name: start_flow
-- Hands a lease over to the engine (session 0, of which no row exists).
UPDATE run SET
    session_id = 0, token = token + 1, claim_number = NULL, deadline_at = NULL, is_quarantined = 0, preemption = NULL
WHERE id = :run_id AND state = 'RUNNING' AND session_id > 0 AND session_id = :session_id AND token = :token
RETURNING cancel_requested_at IS NOT NULL;

-- name: keep_places
-- What was handed over keeps its places under the limits of its job.
UPDATE key_hold SET token = (SELECT run.token FROM run WHERE run.id = :run_id)
WHERE run_id = :run_id AND token = (SELECT run.token - 1 FROM run WHERE run.id = :run_id)
    AND key_id IN (
        SELECT run.key_id FROM run WHERE run.id = :run_id
        UNION SELECT run.second_key_id FROM run WHERE run.id = :run_id
        UNION SELECT run.third_key_id FROM run WHERE run.id = :run_id
    );

-- name: add_flow
INSERT INTO flow (id, live, wake_at, state) VALUES (:flow_id, :live, :wake_at, :state);

-- name: tell_end
-- Before a run is removed. Only the run of a step has somebody to tell.
INSERT INTO mail (shard, flow_id, step, item, what)
SELECT run.flow_id & 255, run.flow_id, run.step, run.item, :state FROM run WHERE run.id = :run_id AND run.flow_id > 0;

-- name: add_notice
INSERT INTO mail (shard, flow_id, what) VALUES (:flow_id & 255, :flow_id, :what);

-- name: post_mail
INSERT INTO mail (shard, flow_id, step, what, value)
SELECT flow.id & 255, flow.id, :step, :what, :value FROM flow WHERE flow.id = :flow_id
RETURNING id;

-- name: read_mail
SELECT mail.shard, mail.id, mail.flow_id, mail.step, mail.item, mail.what, mail.value, flow.revision
FROM mail INDEXED BY mail_shard LEFT JOIN flow ON flow.id = mail.flow_id
WHERE mail.shard = :shard AND mail.id >= :low
ORDER BY mail.id LIMIT :limit;

-- name: read_woken
SELECT id, revision, wake_at FROM flow INDEXED BY flow_wake
WHERE wake_at <= :until AND (id & 255) IN (SELECT value FROM json_each(:shards))
ORDER BY wake_at, id LIMIT :limit;

-- name: drop_mail
DELETE FROM mail
WHERE id = :mail_id AND shard = :shard AND NOT EXISTS (SELECT 1 FROM flow WHERE flow.id = mail.flow_id);

-- name: read_flows
SELECT
    flow.id, flow.revision, flow.state AS flow_state, run.job_id, run.version, run.token, run.attempt, run.fire_at,
    run.due_at, run.started_at, run.target_key, run.payload, run.trace, run.flow_id AS parent_id, lane.queue, lane.route,
    lane.tenant, lane.priority
FROM json_each(:flow_ids) AS wanted
CROSS JOIN flow ON flow.id = wanted.value
CROSS JOIN run ON run.id = flow.id
CROSS JOIN lane ON lane.id = run.lane_id;

-- name: lock_flow
SELECT id FROM flow WHERE id = :flow_id AND revision = :revision;

-- name: count_mail
SELECT count(*) FROM json_each(:mail_ids) AS wanted CROSS JOIN mail ON mail.id = wanted.value
WHERE mail.flow_id = :flow_id;

-- name: save_flow
UPDATE flow SET revision = revision + 1, live = :live, wake_at = :wake_at, state = :state WHERE id = :flow_id;

-- name: delete_flow
DELETE FROM flow WHERE id = :flow_id;

-- name: add_flow_value
INSERT INTO flow_value (flow_id, step, item, value) VALUES (:flow_id, :step, :item, :value)
ON CONFLICT (flow_id, step, item) DO NOTHING;

-- name: delete_flow_values
DELETE FROM flow_value WHERE flow_id = :flow_id;

-- name: read_flow_seed
SELECT flow_seed FROM run WHERE id = :run_id;

-- name: read_flow_value
SELECT value FROM flow_value WHERE flow_id = :flow_id AND step = :step AND item = :item;

-- name: find_step_end
-- The newest run of a step that has ended: backwards, because it has often ended just now.
SELECT nullif(max(
    coalesce((
        SELECT id FROM run_history INDEXED BY run_history_flow
        WHERE flow_id = :flow_id AND flow_id > 0 AND step = :step AND item = :item ORDER BY id DESC LIMIT 1
    ), 0),
    coalesce((
        SELECT id FROM dead_run INDEXED BY dead_run_flow
        WHERE flow_id = :flow_id AND flow_id > 0 AND step = :step AND item = :item ORDER BY id DESC LIMIT 1
    ), 0)
), 0);

-- name: remove_mail
DELETE FROM mail WHERE id = :mail_id AND shard = :shard;

-- name: find_step_runs
SELECT run.id FROM run INDEXED BY run_flow WHERE run.flow_id = :flow_id AND run.flow_id > 0 AND run.step = :step;

-- name: find_untold
-- Flows that count more live runs than they have runs and mail, and have runs that ended. It looks at all flows of the
-- shards, once in a while.
SELECT flow.id FROM flow
WHERE (flow.id & 255) IN (SELECT value FROM json_each(:shards))
    AND flow.live > (
        SELECT count(*) FROM run INDEXED BY run_flow WHERE run.flow_id = flow.id AND run.flow_id > 0
    ) + (
        SELECT count(*) FROM mail INDEXED BY mail_shard
        WHERE mail.shard = flow.id & 255 AND mail.flow_id = flow.id
            AND mail.what IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'SKIPPED')
    )
    AND (
        EXISTS (
            SELECT 1 FROM run_history INDEXED BY run_history_flow
            WHERE run_history.flow_id = flow.id AND run_history.flow_id > 0
        )
        OR EXISTS (
            SELECT 1 FROM dead_run INDEXED BY dead_run_flow WHERE dead_run.flow_id = flow.id AND dead_run.flow_id > 0
        )
    )
ORDER BY flow.id LIMIT :limit;

-- name: tell_again
-- Of the runs of these flows that have ended, those too of which the flows know. Of a step it is the newest run, and none
-- if a live one follows it: a workflow that was retried has the runs of its earlier attempts, too. With max(), the other
-- columns are those of the same row.
INSERT INTO mail (shard, flow_id, step, item, what)
SELECT newest.flow_id & 255, newest.flow_id, newest.step, newest.item, newest.state
FROM (
    SELECT max(ended.id), ended.flow_id, ended.step, ended.item, ended.state
    FROM (
        SELECT run_history.id, flow_id, step, item, state
        FROM json_each(:flow_ids) AS wanted CROSS JOIN run_history INDEXED BY run_history_flow
        WHERE flow_id = wanted.value AND flow_id > 0
        UNION ALL
        SELECT dead_run.id, flow_id, step, item, state
        FROM json_each(:flow_ids) AS wanted CROSS JOIN dead_run INDEXED BY dead_run_flow
        WHERE flow_id = wanted.value AND flow_id > 0
    ) AS ended
    GROUP BY ended.flow_id, ended.step, ended.item
) AS newest
WHERE NOT EXISTS (
    SELECT 1 FROM run INDEXED BY run_flow
    WHERE run.flow_id = newest.flow_id AND run.flow_id > 0 AND run.step = newest.step AND run.item = newest.item
);

-- name: read_flow_states
SELECT wanted.value AS id, coalesce(
    (SELECT flow.state FROM flow WHERE flow.id = wanted.value),
    (SELECT run_history.flow_state FROM run_history WHERE run_history.id = wanted.value),
    (SELECT dead_run.flow_state FROM dead_run WHERE dead_run.id = wanted.value)
) AS flow_state
FROM json_each(:flow_ids) AS wanted;

-- name: find_flow_runs
-- A page of three tables; get_runs then reads the runs.
SELECT id FROM run INDEXED BY run_flow WHERE flow_id = :flow_id AND flow_id > 0 AND id > :after
UNION ALL
SELECT id FROM run_history INDEXED BY run_history_flow WHERE flow_id = :flow_id AND flow_id > 0 AND id > :after
UNION ALL
SELECT id FROM dead_run INDEXED BY dead_run_flow WHERE flow_id = :flow_id AND flow_id > 0 AND id > :after
ORDER BY id LIMIT :limit;

-- name: find_runs_of_steps
-- Likewise, of some steps.
SELECT run.id FROM json_each(:steps) AS wanted CROSS JOIN run INDEXED BY run_flow
WHERE run.flow_id = :flow_id AND run.flow_id > 0 AND run.step = wanted.value AND run.id > :after
    AND (:state IS NULL OR run.state = :state)
UNION ALL
SELECT run_history.id FROM json_each(:steps) AS wanted CROSS JOIN run_history INDEXED BY run_history_flow
WHERE run_history.flow_id = :flow_id AND run_history.flow_id > 0 AND run_history.step = wanted.value
    AND run_history.id > :after AND (:state IS NULL OR run_history.state = :state)
UNION ALL
SELECT dead_run.id FROM json_each(:steps) AS wanted CROSS JOIN dead_run INDEXED BY dead_run_flow
WHERE dead_run.flow_id = :flow_id AND dead_run.flow_id > 0 AND dead_run.step = wanted.value
    AND dead_run.id > :after AND (:state IS NULL OR dead_run.state = :state)
ORDER BY 1 LIMIT :limit;
