-- compatible_from: 0007
-- When a flow has a turn though no mail came: the first of its timers. The state has them all.

ALTER TABLE flow ADD COLUMN wake_at timestamptz;
CREATE INDEX flow_wake ON flow (wake_at, id) WHERE wake_at IS NOT NULL;
