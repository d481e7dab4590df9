-- Flows, their mail and their turns. `runs.sql` describes the traps of the hot path, `completion.sql` has what ends runs of
-- steps, and tells their flows.

-- name: start_flows
-- Hands leases over to the engine (session 0, of which no row exists), and begins the flows of what was handed over. They
-- keep their places under the limits of their jobs.
WITH held AS (
    UPDATE run SET
        session_id = 0, token = run.token + 1, claim_number = NULL, deadline_at = NULL, is_quarantined = false,
        preemption = NULL
    WHERE run.id = ANY(:run_ids::bigint[]) AND run.session_id > 0
      AND run.session_id = (:session_ids::bigint[])[width_bucket(run.id, :run_ids::bigint[])]
      AND run.token = (:tokens::integer[])[width_bucket(run.id, :run_ids::bigint[])]
    RETURNING
        run.id, run.token, run.key_id, run.second_key_id, run.third_key_id,
        run.cancel_requested_at IS NOT NULL AS is_cancel_requested,
        width_bucket(run.id, :run_ids::bigint[]) AS position
), kept AS (
    UPDATE key_hold SET token = key_hold.token + 1
    WHERE key_hold.ctid = ANY(ARRAY(
        SELECT hold.place
        FROM held
        CROSS JOIN LATERAL unnest(ARRAY[held.key_id, held.second_key_id, held.third_key_id]) AS own (key_id)
        CROSS JOIN LATERAL (
            SELECT key_hold.run_id, key_hold.token, key_hold.ctid AS place FROM key_hold
            WHERE key_hold.key_id = own.key_id ORDER BY key_hold.key_id, key_hold.id OFFSET 0
        ) AS hold
        WHERE hold.run_id = held.id AND hold.token = held.token - 1
    ))
), told AS (
    INSERT INTO mail (shard, flow_id, what)
    SELECT held.id & 255, held.id, notice.what
    FROM held CROSS JOIN LATERAL (
        SELECT 'cancel' AS what WHERE held.is_cancel_requested
        UNION ALL
        SELECT 'go_on' WHERE (:going_on::boolean[])[held.position]
    ) AS notice
)
INSERT INTO flow (id, live, wake_at, state)
SELECT
    held.id, (:lives::integer[])[held.position], (:wakes_at::timestamptz[])[held.position],
    (:states::bytea[])[held.position]
FROM held
RETURNING id;

-- name: read_flow_seeds
SELECT run.id, run.flow_seed
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT run.id, run.flow_seed FROM run WHERE run.id = wanted.id LIMIT 1) AS run
WHERE run.flow_seed IS NOT NULL;

-- name: post_mail
INSERT INTO mail (shard, flow_id, step, what, value)
SELECT flow.id & 255, flow.id, wanted.step, wanted.what, wanted.value
FROM unnest(:flow_ids::bigint[], :steps::smallint[], :whats::text[], :values::bytea[])
    WITH ORDINALITY AS wanted (id, step, what, value, position)
CROSS JOIN LATERAL (SELECT flow.id FROM flow WHERE flow.id = wanted.id LIMIT 1) AS flow
ORDER BY wanted.position
RETURNING flow_id;

-- name: read_mail
-- Mail and revision in one statement: if they came from two, mail that another owner has dealt with in between would pass.
-- A LATERAL for each shard, or the backlog would be sorted.
SELECT found.shard, found.id, found.flow_id, found.step, found.item, found.what, found.value, flow.revision
FROM unnest(:shards::smallint[], :lows::bigint[]) AS wanted (shard, low)
CROSS JOIN LATERAL (
    SELECT mail.shard, mail.id, mail.flow_id, mail.step, mail.item, mail.what, mail.value FROM mail
    WHERE mail.shard = wanted.shard AND mail.id >= wanted.low
    ORDER BY mail.shard, mail.id LIMIT :limit
) AS found
LEFT JOIN LATERAL (SELECT flow.revision FROM flow WHERE flow.id = found.flow_id LIMIT 1) AS flow ON true
LIMIT :limit;

-- name: read_woken
SELECT flow.id, flow.revision, flow.wake_at FROM flow
WHERE flow.wake_at <= :until AND (flow.id & 255) = ANY(:shards::bigint[])
ORDER BY flow.wake_at, flow.id LIMIT :limit;

-- name: drop_mail
DELETE FROM mail WHERE mail.ctid = ANY(ARRAY(
    SELECT place.ctid
    FROM unnest(:shards::smallint[], :mail_ids::bigint[]) AS gone (shard, id)
    CROSS JOIN LATERAL (
        SELECT mail.ctid FROM mail
        WHERE mail.shard = gone.shard AND mail.id = gone.id
          AND NOT EXISTS (SELECT FROM flow WHERE flow.id = mail.flow_id)
        LIMIT 1
    ) AS place
));

-- name: read_flows
SELECT
    flow.id, flow.revision, flow.state AS flow_state, run.job_id, run.version, run.token, run.attempt, run.fire_at,
    run.due_at, run.started_at, run.target_key, run.payload, run.trace, run.flow_id AS parent_id, lane.queue, lane.route,
    lane.tenant, lane.priority
FROM unnest(:flow_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM flow WHERE flow.id = wanted.id LIMIT 1) AS flow
CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = wanted.id LIMIT 1) AS run
CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = run.lane_id LIMIT 1) AS lane;

-- name: lock_flows
-- In order of id. What is missing has had another turn.
SELECT flow.id
FROM unnest(:flow_ids::bigint[], :revisions::bigint[]) AS wanted (id, revision)
CROSS JOIN LATERAL (
    SELECT flow.id FROM flow WHERE flow.id = wanted.id AND flow.revision = wanted.revision FOR NO KEY UPDATE
) AS flow;

-- name: save_flows
UPDATE flow SET
    revision = flow.revision + 1,
    live = (:lives::integer[])[width_bucket(flow.id, :flow_ids::bigint[])],
    wake_at = (:wakes_at::timestamptz[])[width_bucket(flow.id, :flow_ids::bigint[])],
    state = (:states::bytea[])[width_bucket(flow.id, :flow_ids::bigint[])]
WHERE flow.id = ANY(:flow_ids::bigint[]);

-- name: delete_flows
DELETE FROM flow WHERE flow.id = ANY(:flow_ids::bigint[]);

-- name: add_flow_values
INSERT INTO flow_value (flow_id, step, item, value)
SELECT new.flow_id, new.step, new.item, new.value
FROM unnest(:flow_ids::bigint[], :steps::smallint[], :items::integer[], :values::bytea[])
    AS new (flow_id, step, item, value)
ON CONFLICT (flow_id, step, item) DO NOTHING;

-- name: delete_flow_values
DELETE FROM flow_value
USING unnest(:flow_ids::bigint[]) AS ended (id)
WHERE flow_value.flow_id = ended.id;

-- name: read_flow_values
SELECT kept.flow_id, kept.step, kept.item, kept.value
FROM unnest(:flow_ids::bigint[], :steps::smallint[], :items::integer[]) AS wanted (flow_id, step, item)
CROSS JOIN LATERAL (
    SELECT flow_value.flow_id, flow_value.step, flow_value.item, flow_value.value FROM flow_value
    WHERE flow_value.flow_id = wanted.flow_id AND flow_value.step = wanted.step AND flow_value.item = wanted.item
    LIMIT 1
) AS kept;

-- name: read_step_ends
-- Of each step the newest run that has ended: backwards, because it has often ended just now.
SELECT found.*
FROM unnest(:flow_ids::bigint[], :steps::smallint[], :items::integer[]) AS wanted (flow_id, step, item)
CROSS JOIN LATERAL (
    SELECT newest.id FROM (
        (
            SELECT run_history.id FROM run_history
            WHERE run_history.flow_id = wanted.flow_id AND run_history.flow_id > 0
              AND run_history.step = wanted.step AND run_history.item = wanted.item
            ORDER BY run_history.flow_id DESC, run_history.id DESC LIMIT 1
        )
        UNION ALL
        (
            SELECT dead_run.id FROM dead_run
            WHERE dead_run.flow_id = wanted.flow_id AND dead_run.flow_id > 0
              AND dead_run.step = wanted.step AND dead_run.item = wanted.item
            ORDER BY dead_run.flow_id DESC, dead_run.id DESC LIMIT 1
        )
    ) AS newest
    ORDER BY newest.id DESC LIMIT 1
) AS picked
CROSS JOIN LATERAL (SELECT * FROM any_run WHERE any_run.id = picked.id LIMIT 1) AS found;

-- name: remove_mail
-- By its place: conditions on arrays of shards and ids would look at each pair of them.
DELETE FROM mail WHERE mail.ctid = ANY(ARRAY(
    SELECT place.ctid
    FROM unnest(:shards::smallint[], :mail_ids::bigint[]) AS gone (shard, id)
    CROSS JOIN LATERAL (SELECT mail.ctid FROM mail WHERE mail.shard = gone.shard AND mail.id = gone.id LIMIT 1) AS place
))
RETURNING flow_id;

-- name: add_notices
INSERT INTO mail (shard, flow_id, what)
SELECT wanted.id & 255, wanted.id, :what FROM unnest(:flow_ids::bigint[]) AS wanted (id);

-- name: find_step_runs
SELECT run.id
FROM unnest(:flow_ids::bigint[], :steps::smallint[]) AS wanted (flow_id, step)
CROSS JOIN LATERAL (
    SELECT run.id FROM run
    WHERE run.flow_id = wanted.flow_id AND run.flow_id > 0 AND run.step = wanted.step
) AS run;

-- name: find_untold
-- Flows that count more live runs than they have runs and mail, and have runs that ended. It looks at all flows of the
-- shards, once in a while.
SELECT flow.id
FROM flow
WHERE (flow.id & 255) = ANY(:shards::bigint[])
  AND flow.live > (SELECT count(*) FROM run WHERE run.flow_id = flow.id AND run.flow_id > 0) + (
    SELECT count(*) FROM mail
    WHERE mail.shard = (flow.id & 255)::smallint AND mail.flow_id = flow.id
      AND mail.what IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'SKIPPED')
)
  AND (
    EXISTS (SELECT FROM run_history WHERE run_history.flow_id = flow.id AND run_history.flow_id > 0)
    OR EXISTS (SELECT FROM dead_run WHERE dead_run.flow_id = flow.id AND dead_run.flow_id > 0)
)
ORDER BY flow.id LIMIT :limit;

-- name: tell_again
-- Of the runs of these flows that have ended, those too of which the flows know. Of a step it is the newest run, and none
-- if a live one follows it: a workflow that was retried has the runs of its earlier attempts, too.
INSERT INTO mail (shard, flow_id, step, item, what)
SELECT newest.flow_id & 255, newest.flow_id, newest.step, newest.item, newest.state
FROM (
    SELECT DISTINCT ON (wanted.id, ended.step, ended.item)
        wanted.id AS flow_id, ended.step, ended.item, ended.state
    FROM unnest(:flow_ids::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT run_history.id, run_history.step, run_history.item, run_history.state FROM run_history
        WHERE run_history.flow_id = wanted.id AND run_history.flow_id > 0
        UNION ALL
        SELECT dead_run.id, dead_run.step, dead_run.item, dead_run.state FROM dead_run
        WHERE dead_run.flow_id = wanted.id AND dead_run.flow_id > 0
    ) AS ended
    ORDER BY wanted.id, ended.step, ended.item, ended.id DESC
) AS newest
WHERE NOT EXISTS (
    SELECT FROM run
    WHERE run.flow_id = newest.flow_id AND run.flow_id > 0 AND run.step = newest.step AND run.item = newest.item
);

-- name: read_flow_states
SELECT wanted.id, kept.state AS flow_state
FROM unnest(:flow_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT flow.state FROM flow WHERE flow.id = wanted.id
    UNION ALL
    SELECT run_history.flow_state FROM run_history
    WHERE run_history.id = wanted.id AND run_history.flow_state IS NOT NULL
    UNION ALL
    SELECT dead_run.flow_state FROM dead_run WHERE dead_run.id = wanted.id AND dead_run.flow_state IS NOT NULL
    LIMIT 1
) AS kept;

-- name: list_flow_runs
-- Three pages, one of each table.
SELECT found.*
FROM (
    (
        SELECT run.id FROM run WHERE run.flow_id = :flow_id AND run.flow_id > 0 AND run.id > :after
        ORDER BY run.id LIMIT :limit
    )
    UNION ALL
    (
        SELECT run_history.id FROM run_history
        WHERE run_history.flow_id = :flow_id AND run_history.flow_id > 0 AND run_history.id > :after
        ORDER BY run_history.id LIMIT :limit
    )
    UNION ALL
    (
        SELECT dead_run.id FROM dead_run
        WHERE dead_run.flow_id = :flow_id AND dead_run.flow_id > 0 AND dead_run.id > :after
        ORDER BY dead_run.id LIMIT :limit
    )
    ORDER BY id LIMIT :limit
) AS picked
CROSS JOIN LATERAL (SELECT * FROM any_run WHERE any_run.id = picked.id LIMIT 1) AS found
ORDER BY found.id;

-- name: list_runs_of_steps
-- The same of some steps: for each of them a page of each table, in the order of the indexes but for the live runs.
SELECT found.*
FROM (
    SELECT paged.id
    FROM unnest(:steps::smallint[]) AS wanted (step)
    CROSS JOIN LATERAL (
        (
            SELECT run.id FROM run
            WHERE run.flow_id = :flow_id AND run.flow_id > 0 AND run.step = wanted.step AND run.id > :after
              AND (:state::text IS NULL OR run.state = :state)
            ORDER BY run.id LIMIT :limit
        )
        UNION ALL
        (
            SELECT run_history.id FROM run_history
            WHERE run_history.flow_id = :flow_id AND run_history.flow_id > 0 AND run_history.step = wanted.step
              AND run_history.id > :after AND (:state::text IS NULL OR run_history.state = :state)
            ORDER BY run_history.id LIMIT :limit
        )
        UNION ALL
        (
            SELECT dead_run.id FROM dead_run
            WHERE dead_run.flow_id = :flow_id AND dead_run.flow_id > 0 AND dead_run.step = wanted.step
              AND dead_run.id > :after AND (:state::text IS NULL OR dead_run.state = :state)
            ORDER BY dead_run.id LIMIT :limit
        )
    ) AS paged
    ORDER BY paged.id LIMIT :limit
) AS picked
CROSS JOIN LATERAL (SELECT * FROM any_run WHERE any_run.id = picked.id LIMIT 1) AS found
ORDER BY found.id;
