-- Caps of queues, tenants and labels. Each is a rule of the tenant `*`, whose name has a colon, with one key.

-- name: read_caps
SELECT limit_rule.name, limit_rule.max_running, concurrency_key.id AS key_id
FROM limit_rule CROSS JOIN concurrency_key ON concurrency_key.rule_id = limit_rule.id
WHERE limit_rule.tenant = '*' AND instr(limit_rule.name, ':') > 0 AND limit_rule.max_running IS NOT NULL;

-- name: list_busy_lanes
SELECT lane.id, lane.queue, lane.route, lane.tenant, lane.priority FROM lane
WHERE lane.id IN (SELECT run.lane_id FROM run INDEXED BY run_held WHERE run.state = 'RUNNING' AND run.session_id > 0);

-- name: add_holds_of_running
-- Whoever runs already has a place from now on. What the engine holds (session 0) takes no slot.
INSERT OR IGNORE INTO key_hold (key_id, run_id, token)
SELECT :key_id, run.id, run.token FROM run INDEXED BY run_held
WHERE run.state = 'RUNNING' AND run.session_id > 0 AND run.lane_id IN (SELECT value FROM json_each(:lane_ids));

-- name: read_cap_use
-- Who has a place under a cap that is set.
SELECT run.id, lane.tenant
FROM limit_rule
CROSS JOIN concurrency_key ON concurrency_key.rule_id = limit_rule.id
CROSS JOIN key_hold ON key_hold.key_id = concurrency_key.id
CROSS JOIN run ON run.id = key_hold.run_id AND run.token = key_hold.token AND run.session_id IS NOT NULL
CROSS JOIN lane ON lane.id = run.lane_id
WHERE limit_rule.tenant = '*' AND limit_rule.name = :name AND limit_rule.max_running IS NOT NULL
ORDER BY key_hold.run_id;
