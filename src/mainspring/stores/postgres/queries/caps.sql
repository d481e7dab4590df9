-- Caps of queues, tenants and labels. Each is a rule of the tenant `*`, whose name has a colon, with one key.

-- name: read_caps
SELECT limit_rule.name, limit_rule.max_running, concurrency_key.id AS key_id
FROM limit_rule JOIN concurrency_key ON concurrency_key.rule_id = limit_rule.id
WHERE limit_rule.tenant = '*' AND strpos(limit_rule.name, ':') > 0 AND limit_rule.max_running IS NOT NULL;

-- name: list_busy_lanes
SELECT lane.id, lane.queue, lane.route, lane.tenant, lane.priority FROM lane
WHERE lane.id IN (SELECT run.lane_id FROM run WHERE run.claim_number IS NOT NULL AND run.session_id IS NOT NULL);

-- name: add_holds_of_running
-- Whoever runs already has a place from now on. After raise_session_epochs, and in a statement of its own: it sees what
-- the claims have started that were under way. Every run that is under way has the number of its claim.
INSERT INTO key_hold (key_id, run_id, token)
SELECT wanted.key_id, held.id, held.token
FROM (
    SELECT run.id, run.token, run.lane_id FROM run
    WHERE run.claim_number IS NOT NULL AND run.session_id IS NOT NULL
) AS held
JOIN unnest(:key_ids::bigint[], :lane_ids::bigint[]) AS wanted (key_id, lane_id) ON wanted.lane_id = held.lane_id
WHERE NOT EXISTS (
    SELECT FROM key_hold
    WHERE key_hold.key_id = wanted.key_id AND key_hold.run_id = held.id AND key_hold.token = held.token
)
ORDER BY held.id;

-- name: read_cap_uses
-- Who has a place under each cap that is set.
SELECT limit_rule.name, held.count AS held, held.run_ids[1:(:limit)::integer] AS run_ids,
       held.tenants[1:(:limit)::integer] AS tenants
FROM limit_rule
JOIN concurrency_key ON concurrency_key.rule_id = limit_rule.id
CROSS JOIN LATERAL (
    SELECT count(*) AS count, coalesce(array_agg(run.id ORDER BY key_hold.id), '{}') AS run_ids,
           coalesce(array_agg(lane.tenant ORDER BY key_hold.id), '{}') AS tenants
    FROM key_hold
    JOIN run ON run.id = key_hold.run_id AND run.token = key_hold.token AND run.session_id IS NOT NULL
    JOIN lane ON lane.id = run.lane_id
    WHERE key_hold.key_id = concurrency_key.id
) AS held
WHERE limit_rule.tenant = '*' AND limit_rule.name = ANY(:names::text[]) AND limit_rule.max_running IS NOT NULL;
