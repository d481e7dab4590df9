-- The tables of design 3.2. Times are microseconds since 1970 (UTC), JSON is kept as bytes in UTF-8, durations are
-- milliseconds, lists are JSON text. The same names and meanings as on PostgreSQL.
--
-- Two things that cost a run a tenth of its time otherwise: a list of more than two values in a CHECK is built anew for
-- every statement (hence the ORs), and every index ends in the rowid, which is the integer `id`, of itself.

CREATE TABLE tenant (
    id TEXT PRIMARY KEY,
    weight INTEGER NOT NULL DEFAULT 1 CONSTRAINT tenant_weight_positive CHECK (weight > 0)
) STRICT;
INSERT INTO tenant (id) VALUES ('default');

CREATE TABLE queue (
    name TEXT PRIMARY KEY,
    is_paused INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO queue (name) VALUES ('default');

CREATE TABLE job (
    id BLOB PRIMARY KEY,
    shard INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    is_paused INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
CREATE UNIQUE INDEX job_name ON job (tenant, name) WHERE deleted_at IS NULL;
CREATE INDEX job_page ON job (tenant, id) WHERE deleted_at IS NULL;

CREATE TABLE job_version (
    job_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    spec BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, version)
) STRICT;

-- Narrow on purpose: the planner reads and writes it all day. Gone when the job is deleted.
CREATE TABLE job_clock (
    job_id BLOB PRIMARY KEY,
    shard INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    next_fire_at INTEGER,
    fired_through INTEGER
) STRICT;
CREATE INDEX job_clock_due ON job_clock (next_fire_at) WHERE next_fire_at IS NOT NULL;

-- A row exists while the lane has live runs (and a while longer, until the janitor comes).
CREATE TABLE lane (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    route TEXT NOT NULL,
    tenant TEXT NOT NULL,
    priority INTEGER NOT NULL,
    CONSTRAINT lane_key UNIQUE (queue, route, tenant, priority)
) STRICT;

-- A run's id is a number of this sequence * 256 + its job's shard.
CREATE TABLE run_sequence (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    value INTEGER NOT NULL
) STRICT;
INSERT INTO run_sequence (id, value) VALUES (1, 0);

-- Live runs only; finished ones move to run_history or dead_run.
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    job_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    lane_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL CONSTRAINT run_state CHECK (
        state = 'PENDING' OR state = 'RUNNING' OR state = 'RETRYING' OR state = 'BLOCKED'
    ),
    is_parked INTEGER NOT NULL DEFAULT 0,
    fire_at INTEGER,
    due_at INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    timeout_ms INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1,
    token INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    alone_crashes INTEGER NOT NULL DEFAULT 0,
    is_alone INTEGER NOT NULL DEFAULT 0,
    session_id INTEGER,
    claim_number INTEGER,
    started_at INTEGER,
    deadline_at INTEGER,
    cancel_requested_at INTEGER,
    cancel_reason TEXT,
    concurrency_key TEXT,
    payload BLOB,
    target_key TEXT,
    span_id INTEGER,
    redrive_of INTEGER,
    CONSTRAINT run_is_held_while_running CHECK ((state = 'RUNNING') = (session_id IS NOT NULL))
) STRICT;
CREATE INDEX run_ready ON run (lane_id, rank) WHERE state IN ('PENDING', 'RETRYING') AND NOT is_parked AND crashes = 0;
CREATE INDEX run_suspect ON run (lane_id, rank) WHERE state IN ('PENDING', 'RETRYING') AND NOT is_parked AND crashes > 0;
CREATE INDEX run_held ON run (session_id) WHERE state = 'RUNNING';
CREATE INDEX run_job ON run (job_id);
CREATE INDEX run_alone ON run (session_id) WHERE state = 'RUNNING' AND is_alone;
CREATE INDEX run_waiting ON run (lane_id) WHERE state = 'BLOCKED' OR is_parked;
CREATE INDEX run_expiring ON run (expires_at) WHERE expires_at IS NOT NULL AND state IN ('PENDING', 'RETRYING');
-- The second net under law 2; the conditional update of job_clock is the law.
CREATE UNIQUE INDEX run_fire_key ON run (job_id, fire_at) WHERE kind = 'scheduled';
CREATE UNIQUE INDEX run_redrive ON run (redrive_of) WHERE redrive_of IS NOT NULL;

-- What has SUCCEEDED or is CANCELLED or SKIPPED, kept for the retention.
CREATE TABLE run_history (
    id INTEGER PRIMARY KEY,
    job_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    queue TEXT NOT NULL,
    route TEXT NOT NULL,
    tenant TEXT NOT NULL,
    priority INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL CONSTRAINT run_history_state CHECK (
        state = 'SUCCEEDED' OR state = 'CANCELLED' OR state = 'SKIPPED'
    ),
    reason TEXT,
    fire_at INTEGER,
    due_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    token INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    session_id INTEGER,
    error TEXT,
    payload BLOB,
    result BLOB,
    output TEXT,
    target_key TEXT,
    span_id INTEGER,
    redrive_of INTEGER
) STRICT;
CREATE INDEX run_history_job ON run_history (job_id);
CREATE INDEX run_history_finished ON run_history (finished_at);

-- The dead letter queue: FAILED runs, until redriven or purged.
CREATE TABLE dead_run (
    id INTEGER PRIMARY KEY,
    job_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    queue TEXT NOT NULL,
    route TEXT NOT NULL,
    tenant TEXT NOT NULL,
    priority INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL CONSTRAINT dead_run_state CHECK (state IN ('FAILED')),
    reason TEXT,
    fire_at INTEGER,
    due_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    token INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    session_id INTEGER,
    error TEXT,
    payload BLOB,
    result BLOB,
    output TEXT,
    target_key TEXT,
    span_id INTEGER,
    redrive_of INTEGER
) STRICT;
CREATE INDEX dead_run_job ON dead_run (job_id);

-- Attempts that did not succeed at the first go.
CREATE TABLE attempt (
    run_id INTEGER NOT NULL,
    token INTEGER NOT NULL,
    number INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    worker TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    error TEXT,
    output TEXT
) STRICT;
CREATE INDEX attempt_run ON attempt (run_id, token);
CREATE INDEX attempt_finished ON attempt (finished_at);

CREATE TABLE span (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    kind TEXT NOT NULL CONSTRAINT span_kind CHECK (kind IN ('catch_up', 'backfill', 'gap')),
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    cursor_at INTEGER,
    reason TEXT NOT NULL,
    is_open INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    closed_at INTEGER
) STRICT;
CREATE INDEX span_open ON span (shard) WHERE is_open AND kind <> 'gap';
CREATE INDEX span_job ON span (job_id);

CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    state TEXT NOT NULL DEFAULT 'live' CONSTRAINT session_state CHECK (state IN ('live', 'dead', 'left')),
    worker TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    queues TEXT NOT NULL,
    types TEXT NOT NULL,
    functions TEXT NOT NULL,
    labels TEXT NOT NULL,
    beats INTEGER NOT NULL DEFAULT 0,
    -- The last request's; none has this number.
    claim_number INTEGER NOT NULL DEFAULT -1,
    -- Leases (run, token) of the session that its last heartbeat did not name; named again next time, or they are released.
    missing TEXT NOT NULL DEFAULT '[]',
    started_at INTEGER NOT NULL,
    last_beat_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE INDEX session_live ON session (id) WHERE state = 'live';

CREATE TABLE node (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    tzdata TEXT NOT NULL,
    beats INTEGER NOT NULL DEFAULT 0,
    started_at INTEGER NOT NULL,
    last_beat_at INTEGER NOT NULL
) STRICT;

CREATE TABLE shard_lease (
    shard INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL DEFAULT 0,
    node_id TEXT
) STRICT;
WITH RECURSIVE series (shard) AS (SELECT 0 UNION ALL SELECT shard + 1 FROM series WHERE shard < 255)
INSERT INTO shard_lease (shard) SELECT shard FROM series;

CREATE TABLE idempotency (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    run_id INTEGER NOT NULL,
    request_hash BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT;
CREATE INDEX idempotency_expiring ON idempotency (expires_at);

-- Every run, live or finished, in one shape, for inspection only. The casts give each arm the same affinities: only
-- then does SQLite push a condition down into the arms instead of building the whole view first.
CREATE VIEW any_run AS
SELECT
    run.id, run.job_id, run.version, lane.queue, lane.route, lane.tenant, lane.priority, run.kind, run.state,
    run.cancel_reason AS reason, run.fire_at, run.due_at, run.rank, run.created_at, run.started_at,
    CAST(NULL AS INTEGER) AS finished_at, run.attempt, run.token, run.crashes, run.session_id,
    CAST(run.cancel_requested_at IS NOT NULL AS INTEGER) AS is_cancel_requested, CAST(NULL AS TEXT) AS error, run.payload,
    CAST(NULL AS BLOB) AS result, CAST(NULL AS TEXT) AS output, run.target_key, run.span_id, run.redrive_of
FROM run
JOIN lane ON lane.id = run.lane_id
UNION ALL
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at, created_at,
    started_at, finished_at, attempt, token, crashes, session_id, CAST(FALSE AS INTEGER), error, payload, result, output,
    target_key, span_id, redrive_of
FROM run_history
UNION ALL
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at, created_at,
    started_at, finished_at, attempt, token, crashes, session_id, CAST(FALSE AS INTEGER), error, payload, result, output,
    target_key, span_id, redrive_of
FROM dead_run;
