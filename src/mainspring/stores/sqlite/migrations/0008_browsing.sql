-- compatible_from: 0007
-- Counts of ended runs are kept, and a census of all is stored (ADR 0038).
CREATE INDEX dead_run_finished ON dead_run (finished_at);

-- Lists of what was cancelled or skipped, which most runs are not: they pay nothing for it.
CREATE INDEX run_history_unusual ON run_history (state) WHERE state <> 'SUCCEEDED';

-- What ended before census.settled_before, by the day (of UTC, since 1970) on which it ended.
CREATE TABLE run_tally (
    tenant TEXT NOT NULL,
    day INTEGER NOT NULL,
    state TEXT NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE census (
    id INTEGER PRIMARY KEY CONSTRAINT census_is_one CHECK (id = 1),
    settled_before INTEGER NOT NULL,
    body TEXT
) STRICT;

-- Five minutes short of the last end, because something may still be committed late.
INSERT INTO census (id, settled_before)
SELECT 1, max(0, coalesce(max(finished_at), 0) - 300000000) FROM (
    SELECT max(finished_at) AS finished_at FROM run_history UNION ALL SELECT max(finished_at) FROM dead_run
);
INSERT INTO run_tally (tenant, day, state, runs)
SELECT tenant, finished_at / 86400000000, state, count(*)
FROM (SELECT tenant, state, finished_at FROM run_history UNION ALL SELECT tenant, state, finished_at FROM dead_run)
WHERE finished_at < (SELECT settled_before FROM census)
GROUP BY 1, 2, 3;
